"""Moving units from worker to worker while rows flow (flux §5.2), as a pure state machine.

A movement takes some units of one region from a source to a target:

    pause      to every feeder: the units' rows wait from now on; a marker goes down the connection to the source
    move       to the source, with a ticket that lets it in at the target (`tickets`): once the markers of all these
               feeders are here, every row in flight has been seen; it says so (`quiet`), extracts the units and sends
               them to the target, and keeps a copy
    installed  from the target: the routing table flips; feeders release the rows; the source drops its copy

With `transfer="store"` (cep §3.3) the source puts them into the store instead, and says so (`stored`); the target is
told to `fetch` them. The two need not reach each other then.

A movement that cannot be finished, because the target is lost, somebody fails or time is up, is taken back: `discard`
to the target, and when that is answered, or the target gone, `restore` to the source, which puts its copy back. Feeders
then release the rows to the source. Every message carries the movement's id; replies to movements that are over, or
that do not fit their phase, are dropped. With the source gone the units are gone: that is for the region to deal with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from evenflow.control.events import Instruction, Peer, Record, Tell, Transfer
from evenflow.control.workers import Site
from evenflow.model import MoveUnits, RoutingTable
from evenflow.model.messages import (
    AbandonMoves,
    DiscardUnits,
    FeederGone,
    FetchUnits,
    PausedUnits,
    PauseUnits,
    ReleaseUnits,
    RestoreUnits,
    SendUnits,
    UnitsMoved,
)
from evenflow.model.tickets import ticket

MARKERS_S = 2.0
"""Feeders have this long to send their markers. One that waits for Spark cannot, and others' rows wait for it."""
PATIENCE_S = 30.0
"""A movement that takes longer is taken back; one that cannot be taken back in this time is given up."""
BATCH_BYTES = 8 * 1024 * 1024
BATCH_UNITS = 64
"""Units that go together: as many as this, or as have this much state, so that none waits long for the others."""


@dataclass(slots=True)
class Movement:
    """One movement under way."""

    id: int
    units: tuple[int, ...]
    source: int
    target: int
    began: float
    feeders: frozenset[Peer]
    phase: str = "moving"
    """`moving`, `discarding` or `restoring`."""
    quiet: bool = False
    """Whether the source has seen every row in flight."""
    deadline: float = 0.0
    reason: str = ""


@dataclass
class Movements:
    """All movements of one region, and its routing table."""

    region: str
    table: RoutingTable
    evaluations: Callable[[], list[str]] = list
    """Those that have state now."""
    transfer: Transfer = "direct"
    """Whether units go from worker to worker, or by way of the store."""
    sites: dict[int, Site] = field(default_factory=dict)
    under_way: dict[int, Movement] = field(default_factory=dict)
    moved: int = 0
    undone: int = 0
    bytes_moved: int = 0
    pause_s: float = 0.0
    held: bool = False
    """Whether none may begin now: state is being loaded."""
    blocked_by: str = ""
    """Why this region does not move any more; empty if it does."""
    _queue: deque[MoveUnits] = field(default_factory=deque)
    _queued: set[int] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    """Of movements: rising, and no two regions of a cluster have the same, for workers know movements by them."""

    def deal(self, anew: bool) -> None:
        """Give units nobody owns to those who are there; `anew`: all of them, since no state is anywhere."""
        if not self.sites:
            return
        live = list(self.sites)
        if anew and not self.moving:
            even = RoutingTable.even(self.table.units, live)
            if not np.array_equal(even.owners, self.table.owners):
                self.table = RoutingTable(self.table.version + 1, even.owners)
            return
        orphans = np.flatnonzero(~np.isin(self.table.owners, live))
        for place, worker in enumerate(live):
            mine = orphans[orphans % len(live) == place]
            if len(mine):
                self.table = self.table.moved(mine.tolist(), worker)

    @property
    def moving(self) -> int:
        """Units under way or about to be."""
        return len(self._queued) + sum(len(movement.units) for movement in self.under_way.values())

    def paused(self) -> tuple[PausedUnits, ...]:
        """The movements a feeder that arrives now must know of: it holds these units' rows and sends no marker."""
        return tuple(PausedUnits(movement.id, movement.units) for movement in self.under_way.values())

    def ask(
        self, time: float, move: MoveUnits, sizes: Mapping[int, int], feeders: Iterable[Peer]
    ) -> Iterator[Instruction]:
        """A policy wants a move: begin it, or say why not."""
        why = self._problem(move)
        if why:
            fields = {"region": self.region, "units": list(move.units), "source": move.source, "target": move.target}
            yield Record(time, "move-refused", fields | {"why": why})
            return
        for units in batches(move.units, sizes):
            self._queue.append(MoveUnits(self.region, units, move.source, move.target, move.reason))
            self._queued.update(units)
        yield from self._begin(time, feeders)

    def resume(self, time: float, feeders: Iterable[Peer]) -> Iterator[Instruction]:
        """Movements may begin again."""
        self.held = False
        yield from self._begin(time, feeders)

    def quiet(self, time: float, number: int, worker: int) -> None:
        """The source has the markers of all feeders, and begins to send."""
        movement = self.under_way.get(number)
        if movement is not None and movement.phase == "moving" and worker == movement.source:
            movement.quiet, movement.deadline = True, time + PATIENCE_S

    def stored(self, time: float, number: int, worker: int) -> Iterator[Instruction]:
        """The source has put the units into the store."""
        movement = self.under_way.get(number)
        if movement is not None and movement.phase == "moving" and worker == movement.source:
            movement.deadline = time + PATIENCE_S
            yield Tell(self.sites[movement.target].peer, FetchUnits(number, self.region))

    def installed(
        self, time: float, number: int, worker: int, size: int, feeders: Iterable[Peer]
    ) -> Iterator[Instruction]:
        """The target has the units."""
        movement = self.under_way.get(number)
        if movement is None or movement.phase != "moving" or worker != movement.target:
            return
        feeders = list(feeders)
        del self.under_way[number]
        self.table = self.table.moved(movement.units, movement.target)
        self.moved += len(movement.units)
        self.bytes_moved += size
        took = time - movement.began
        self.pause_s += took * len(movement.units)
        yield from self._release(movement, movement.target, feeders)
        source = self.sites.get(movement.source)
        if source is not None:
            yield Tell(source.peer, UnitsMoved(number))
        fields = _fields(self.region, movement)
        yield Record(time, "moved", fields | {"bytes": size, "seconds": round(took, 6), "version": self.table.version})
        yield from self._begin(time, feeders)

    def failed(self, time: float, number: int, worker: int, reason: str, final: bool) -> Iterator[Instruction]:
        """Source or target cannot do it; `final`: the units do not let themselves be moved, so do not try others."""
        movement = self.under_way.get(number)
        if movement is None or movement.phase != "moving" or worker not in (movement.source, movement.target):
            return
        if final:
            self.blocked_by = reason
        yield from self._take_back(time, movement, reason)

    def discarded(self, time: float, number: int, worker: int) -> Iterator[Instruction]:
        """The target does not have the units, and will not take them."""
        movement = self.under_way.get(number)
        if movement is not None and movement.phase == "discarding" and worker == movement.target:
            yield from self._restore(time, movement)

    def restored(self, time: float, number: int, worker: int, feeders: Iterable[Peer]) -> Iterator[Instruction]:
        """The source has the units again."""
        movement = self.under_way.get(number)
        if movement is None or movement.phase != "restoring" or worker != movement.source:
            return
        feeders = list(feeders)
        del self.under_way[number]
        self.undone += len(movement.units)
        yield from self._release(movement, movement.source, feeders)
        yield Record(time, "move-undone", _fields(self.region, movement) | {"why": movement.reason})
        yield from self._begin(time, feeders)

    def feeder_left(self, peer: Peer) -> Iterator[Instruction]:
        """A feeder is gone: it has nothing in flight that still counts, and nobody must wait for its marker."""
        for movement in self.under_way.values():
            source = self.sites.get(movement.source)
            if peer in movement.feeders and source is not None:
                movement.feeders -= {peer}
                yield Tell(source.peer, FeederGone(movement.id, peer))

    def worker_lost(self, time: float, worker: int) -> Iterator[Instruction]:
        """A worker that owned nothing is gone: what was to go there stays where it is."""
        self.sites.pop(worker, None)
        for move in [move for move in self._queue if worker in (move.source, move.target)]:
            self._queue.remove(move)
            self._queued -= set(move.units)
        for movement in list(self.under_way.values()):
            if movement.target == worker and movement.phase in ("moving", "discarding"):
                movement.reason = movement.reason or f"worker {worker} was lost"
                yield from self._restore(time, movement)

    def abandon(self, time: float, why: str) -> Iterator[Instruction]:
        """State is gone, and with it all reason to move any: forget what is under way, and have workers forget it."""
        for movement in self.under_way.values():
            yield Record(time, "move-undone", _fields(self.region, movement) | {"why": why})
        if self.under_way:
            for site in self.sites.values():
                yield Tell(site.peer, AbandonMoves(self.region, tuple(self.under_way)))
        self.under_way.clear()
        self._queue.clear()
        self._queued.clear()

    def tick(self, time: float) -> Iterator[Instruction]:
        """Take back what takes too long."""
        for movement in [movement for movement in self.under_way.values() if time >= movement.deadline]:
            if movement.phase == "moving":
                late = (
                    f"not done within {PATIENCE_S:g} s"
                    if movement.quiet
                    else f"some of feeders {sorted(movement.feeders)} did not answer within {MARKERS_S:g} s"
                )
                yield from self._take_back(time, movement, late)

    def overdue(self, time: float) -> Movement | None:
        """A movement that could not even be taken back in time: its source or target does not answer."""
        late = (m for m in self.under_way.values() if m.phase != "moving" and time >= m.deadline)
        return next(late, None)

    def _begin(self, time: float, feeders: Iterable[Peer]) -> Iterator[Instruction]:
        """Begin what is queued: one movement at a time for each source, others beside it."""
        told = frozenset(feeders)
        if self.held:
            return
        for move in list(self._queue):
            if any(movement.source == move.source for movement in self.under_way.values()):
                continue
            self._queue.remove(move)
            self._queued -= set(move.units)
            number = next(self.numbers)
            movement = Movement(number, move.units, move.source, move.target, time, told, deadline=time + MARKERS_S)
            self.under_way[number] = movement
            yield Record(time, "move", _fields(self.region, movement) | {"why": move.reason})
            for peer in sorted(told):
                yield Tell(peer, PauseUnits(number, self.region, move.units, move.source))
            yield Tell(self.sites[move.source].peer, self._order(movement))

    def _order(self, movement: Movement) -> SendUnits:
        """What the source of a movement is told."""
        target, evaluations = self.sites[movement.target], tuple(self.evaluations())
        about = (movement.id, self.region, movement.source, movement.units, evaluations)
        return SendUnits(
            move=movement.id,
            region=self.region,
            units=movement.units,
            source=movement.source,
            target=movement.target,
            host=target.host,
            port=target.transfer_port,
            feeders=tuple(sorted(movement.feeders)),
            evaluations=evaluations,
            ticket=ticket(target.key, *about),
            store=self.transfer == "store",
        )

    def _take_back(self, time: float, movement: Movement, reason: str) -> Iterator[Instruction]:
        movement.phase, movement.reason, movement.deadline = "discarding", reason, time + PATIENCE_S
        target = self.sites.get(movement.target)
        if target is None:
            yield from self._restore(time, movement)
        else:
            yield Tell(target.peer, DiscardUnits(movement.id, self.region))

    def _restore(self, time: float, movement: Movement) -> Iterator[Instruction]:
        movement.phase, movement.deadline = "restoring", time + PATIENCE_S
        source = self.sites.get(movement.source)
        if source is not None:
            yield Tell(source.peer, RestoreUnits(movement.id, self.region))

    def _release(self, movement: Movement, worker: int, feeders: Iterable[Peer]) -> Iterator[Instruction]:
        """To all feeders, those that came after the pause included."""
        message = ReleaseUnits(movement.id, worker, self.table.version)
        for peer in sorted(feeders):
            yield Tell(peer, message)

    def _problem(self, move: MoveUnits) -> str:
        """Why a move cannot be; empty if it can."""
        if self.blocked_by:
            return f"units of this region cannot be moved: {self.blocked_by}"
        if move.source == move.target:
            return f"worker {move.source} is source and target"
        if move.source not in self.sites or move.target not in self.sites:
            return f"workers {move.source} and {move.target} are not both live"
        if not move.units or len(set(move.units)) < len(move.units):
            return "it names no unit, or one twice"
        if any(not 0 <= unit < self.table.units for unit in move.units):
            return f"units go from 0 to {self.table.units - 1}"
        strays = [unit for unit in move.units if self.table.owners[unit] != move.source]
        if strays:
            return f"worker {move.source} does not own unit {strays[0]}"
        busy = self._queued.union(*(movement.units for movement in self.under_way.values())) & set(move.units)
        return f"unit {min(busy)} is under way already" if busy else ""


def batches(units: Iterable[int], sizes: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """The units in groups that are moved together."""
    group: list[int] = []
    held = 0
    for unit in units:
        size = int(sizes.get(unit, 0))
        if group and (held + size > BATCH_BYTES or len(group) == BATCH_UNITS):
            yield tuple(group)
            group, held = [], 0
        group.append(int(unit))
        held += size
    if group:
        yield tuple(group)


def _fields(region: str, movement: Movement) -> dict[str, Any]:
    return {
        "region": region,
        "move": movement.id,
        "units": list(movement.units),
        "source": movement.source,
        "target": movement.target,
    }
