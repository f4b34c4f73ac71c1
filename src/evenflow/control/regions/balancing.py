"""Asks the balance of a keyed operator, and begins the moves that it wants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

import numpy as np

from evenflow.control.events import Instruction, Peer
from evenflow.control.moves.movements import Movements
from evenflow.control.regions.ordered import balance_failed
from evenflow.control.regions.performance import PerformanceLog
from evenflow.control.regions.statistics import Statistics, sampled
from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.model.entries import RebalanceEntry, UnitRowsEntry
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.policy.keyed.sharing import Sharing

SAMPLE_S = 1.0
"""Seconds between two samples of the statistics in the event log."""
UNIT_ROWS_S = 10.0
"""Seconds between two entries of the rows of units in the event log."""
LISTED_UNITS = 256
"""The most units in such an entry: the ones with the most rows."""


class Balancing:
    """The balance of one keyed operator.

    `feeders` are the tasks whose rows go into state; `draining` are the feeders among them that have no more rows.
    """

    def __init__(
        self,
        balance: KeyedBalance,
        sharing: Sharing,
        statistics: Statistics,
        movements: Movements,
        performance: PerformanceLog,
        opened: float = 0.0,
    ) -> None:
        self.balance, self._sharing, self._performance = balance, sharing, performance
        self._statistics, self._movements = statistics, movements
        self._region, self._units = movements.region, movements.table.units
        self._sampled = 0.0
        self._listed_at = opened
        self._listed = np.zeros(self._units, np.int64)
        """Rows of each unit when they were last put into the event log."""

    def snapshot(self, time: float, feeders: Set[Peer]) -> KeyedSnapshot:
        """The operator now."""
        known, movements = self._statistics, self._movements
        return KeyedSnapshot(
            time=time,
            region=self._region,
            feeders=len(feeders),
            table=movements.table,
            consumers=tuple(known.consumers.values()),
            unit_rows=known.unit_rows.copy(),
            unit_bytes=known.unit_bytes.copy(),
            unit_arrived=known.unit_arrived.copy(),
            moving=movements.moving,
            moved=movements.moved,
            bytes_moved=movements.bytes_moved,
            pause_s=movements.pause_s,
            undone=movements.undone,
            moves_ended=movements.ended,
            unit_resident=known.resident(),
            unit_pending=known.pending(),
            counts=dict(known.counts),
            performance=self._performance.total,
        )

    def rebalance(self, time: float, feeders: Set[Peer], draining: Set[Peer]) -> Iterator[Instruction]:
        """Ask the balance and begin its moves; if it fails, only this round of this region is lost."""
        if time - self._sampled >= SAMPLE_S:
            self._sampled = time
            yield sampled(self.snapshot(time, feeders), self._statistics.keys)
        if time - self._listed_at >= (UNIT_ROWS_S if self._listed.any() else SAMPLE_S):
            yield from self._unit_rows(time)
        try:
            moves = self.decide(time, feeders, draining)
        except Exception as error:
            yield balance_failed(time, self._region, self.balance.name, error)
        else:
            if moves:
                yield self._decided(time, moves)
            yield from self.carry_out(time, moves, feeders)

    def _unit_rows(self, time: float) -> Iterator[UnitRowsEntry]:
        """For the event log: the units with the most rows since the last such entry, for simulations of the run."""
        now = np.maximum(self._statistics.unit_arrived, self._statistics.unit_rows)
        rows, since = now - self._listed, self._listed_at
        self._listed, self._listed_at = now, time
        top = np.argsort(rows, kind="stable")[::-1][:LISTED_UNITS]
        top = top[rows[top] > 0]
        if len(top):
            yield UnitRowsEntry(
                time=time,
                region=self._region,
                seconds=round(time - since, 6),
                rows=int(rows.sum()),
                units=top.tolist(),
                unit_rows=rows[top].tolist(),
                others=int((rows > 0).sum()) - len(top),
            )

    def decide(self, time: float, feeders: Set[Peer], draining: Set[Peer]) -> list[MoveUnits]:
        """Ask the balance, if rows come in and no other operator on these workers moves units.

        A balance that counts arrivals is asked until all rows are through: a small micro-batch arrives at once.
        """
        self._statistics.fresh.clear()
        telling = feeders if self.balance.by_arrivals else feeders - draining
        shown = self._sharing.view(self.snapshot(time, feeders)) if telling else None
        moves = self.balance.decide(shown) if shown is not None else []
        self._sharing.begin(self._region, moves)
        return moves

    def carry_out(self, time: float, moves: Iterable[MoveUnits], feeders: Set[Peer]) -> Iterator[Instruction]:
        """Begin the moves, or record why not."""
        for move in moves:
            sizes = {unit: int(self._statistics.unit_bytes[unit]) for unit in move.units if 0 <= unit < self._units}
            yield from self._movements.ask(time, move, sizes, feeders)

    def _decided(self, time: float, moves: Sequence[MoveUnits]) -> RebalanceEntry:
        """For the event log: the moves that the balance wants, the rows of their units so far, and its reasons."""
        units = [unit for move in moves for unit in move.units if 0 <= unit < self._units]
        return RebalanceEntry(
            time=time,
            region=self._region,
            balance=self.balance.name,
            why=moves[0].reason,
            moves=len(moves),
            units=len(units),
            unit_rows=self._statistics.unit_rows[units].tolist(),
            detail=dict(moves[0].detail),
        )
