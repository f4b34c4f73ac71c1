"""Rows on their way through an operator whose units may be on disk: cut so that state grows within the budget.

Results are kept until they are asked for: an error, such as a full disk, loses none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import FunctionError
from evenflow.scratch.rows import runs
from evenflow.state.paging.batch_ids import BatchIds
from evenflow.state.paging.operator import HostedOperator, Keys, Operator, Origin, Units
from evenflow.state.paging.pending import PendingPiece, PendingRows
from evenflow.state.paging.pool import Pool
from evenflow.state.paging.swap import Swap


@dataclass(frozen=True, slots=True)
class Done:
    """Results of some rows of one batch."""

    tag: Hashable
    """The name of the batch."""
    places: npt.NDArray[np.int64]
    """The places of these rows in the batch."""
    batch: pa.RecordBatch
    """The results."""
    origin: Origin | None
    """For each result the place of the row it comes from. None if there is one result for each of `places`, in that
    order, or if the operator does not say."""
    left: int
    """Rows of the batch whose results are still to come."""


class Processing:
    """The rows that are to be processed next, and the results of those that were."""

    def __init__(self, operator: Operator, hosted: HostedOperator, swap: Swap, pool: Pool, ordered: bool) -> None:
        self._operator, self._hosted, self._swap, self._pool, self._ordered = operator, hosted, swap, pool, ordered
        self._memory = swap.memory
        self._todo: deque[PendingRows | PendingPiece] = deque()
        self._ready: list[Done] = []
        self._tags = BatchIds()
        self._apart = not (ordered or operator.adds)
        """Whether batches are processed one by one, since it cannot be told which of them a result belongs to."""

    def take(self, tag: Hashable, rows: pa.RecordBatch, units: Units, keys: Keys) -> None:
        """Take a batch in."""
        count = rows.num_rows
        if not count:
            out, origin = self._hosted.process(self._operator, rows, units, keys, self._ordered, placed=True)
            self._ready.append(Done(tag, np.empty(0, np.int64), out, origin, 0))
        else:
            numbers = np.full(count, self._tags.number(tag, count))
            self._todo.append(PendingRows(rows=rows, units=units, keys=keys, tags=numbers, places=np.arange(count)))

    def go_on(self, pieces: Iterable[PendingPiece]) -> None:
        """Process rows next that have waited for units which are in memory now."""
        self._todo += pieces

    def given(self) -> list[Done]:
        """All results since the last call."""
        given, self._ready = self._ready, []
        return given

    def clear(self) -> None:
        """Forget the rows."""
        self._todo.clear()

    def run(self) -> None:
        """Process all rows of units in memory; rows of units on disk begin to wait for these."""
        while self._todo:
            first = self._todo[0]
            rows = self._todo[0] = first.load() if isinstance(first, PendingPiece) else first
            here = self._memory.here[rows.units]
            if not here.all():
                self._todo[0], others = rows.split(here)
                self._swap.wait(others)
                continue
            piece, rest = self._cut(rows)
            if len(rest):
                self._todo[0] = rest
            else:
                self._todo.popleft()
            if len(piece):
                self._apply(piece)
                self._swap.make_fit()

    # -- rows that come and go with a unit on disk

    def leave(self, rows: PendingRows) -> list[tuple[Hashable, PendingRows]]:
        """Rows that waited leave for another worker: they in their order, each part with the name of its batch."""
        parts = [(start, stop, int(rows.tags[start])) for start, stop in runs(rows.tags)]
        return [(self._tags.subtract(number, stop - start), rows.part(start, stop)) for start, stop, number in parts]

    def arrive(self, arrived: Iterable[tuple[Hashable, PendingRows]]) -> None:
        """Rows that `leave` gave elsewhere wait here from now on."""
        for tag, rows in arrived:
            numbers = np.full(len(rows), self._tags.number(tag, len(rows)))
            self._swap.wait(replace(rows, tags=numbers))

    # -- one step

    def _cut(self, rows: PendingRows) -> tuple[PendingRows, PendingRows]:
        """Rows that can be processed without going far beyond the budget, those of one unit at least; and the others.

        Growth is foretold from what rows and new units have added so far.
        """
        if self._apart and len(rows) and (others := np.flatnonzero(rows.tags != rows.tags[0])).size:
            end = int(others[0])
            piece, rest = self._cut(rows.part(0, end))
            after = rows.part(end, len(rows))
            return piece, PendingRows.joined([rest, after]) if len(rest) else after
        mine = self.fitting(rows.units)
        if mine.all():
            return rows, rows.part(0, 0)
        return rows.split(mine)

    def fitting(self, units: Units) -> npt.NDArray[np.bool_]:
        """Marks those of some rows, given by their units, that can be processed as `_cut` says."""
        whole = np.ones(len(units), np.bool_)
        if self._pool.budget is None or not self._pool.over(_whole(self._memory.foretell(units)[1].sum())):
            return whole
        self._swap.measure()
        present, growth = self._memory.foretell(units)
        if not self._pool.over(_whole(growth.sum())):
            return whole
        self._clear_some_room(present)
        room = self._pool.budget - self._pool.held
        chosen = np.zeros(len(self._memory.here), np.bool_)
        chosen[present[: max(1, int(np.searchsorted(np.cumsum(growth), room, side="right")))]] = True
        return np.asarray(chosen[units], np.bool_)

    def _clear_some_room(self, units: npt.NDArray[np.int64]) -> None:
        """Make room for half a group, if there is less; `units`, whose rows are next, stay in memory."""
        little = self._swap.batch // 2
        if self._memory.known and self._pool.over(little):
            self._pool.ask(self._swap, little)
            if self._pool.over(little):
                self._swap.shelve(self._swap.batch)
            if self._pool.over(little):
                self._swap.evict(self._swap.batch, but=units)

    def _apply(self, rows: PendingRows) -> None:
        """Process rows of units in memory, all of one batch or such that results can be told apart."""
        aside = self._swap.aside
        out, origin = self._hosted.process(self._operator, rows.rows, rows.units, rows.keys, self._ordered, placed=True)
        self._apart = self._apart and origin is None
        if self._pool.budget is not None:
            self._memory.note(rows.units)
            if self._swap.aside < aside:  # what was aside went on to the units: how much these grew rows do not tell
                self._swap.measure()
        parts = runs(rows.tags)
        if len(parts) > 1 and origin is None and out.num_rows != len(rows):
            raise FunctionError(
                f"{type(self._operator).__name__}.process gave {out.num_rows} rows for {len(rows)} without the places "
                "of the rows they come from, which it gave before: give them always, or never"
            )
        for start, stop in parts:
            if origin is None:
                batch, source = (out.slice(start, stop - start) if len(parts) > 1 else out), None
            else:
                begin, end = np.searchsorted(origin, [start, stop]).tolist()
                batch, source = out.slice(begin, end - begin), rows.places[origin[begin:end]]
            tag = self._tags.subtract(int(rows.tags[start]), stop - start)
            self._ready.append(Done(tag, rows.places[start:stop], batch, source, self._tags.left(tag)))


def _whole(growth: float) -> int:
    return int(min(growth, 1 << 60))
