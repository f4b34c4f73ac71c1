"""Pending input: rows of units that are on disk, until these are back (flux §6.1: runs of pending input).

Rows are kept as they come until some are needed or they take too much memory. Then they are sorted into a run, in which
the rows of each group of units lie together, oldest first. Runs on disk are older than those in memory, so
the rows of a unit are in their order from run to run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.scratch.rows import (
    Bounds,
    NewFile,
    Numbers,
    RowFile,
    UnitRows,
    bounds_of,
    joined_batches,
    order_of,
)

RUNS = 8
"""With this many runs in memory they are merged into one."""


@dataclass(frozen=True, slots=True, eq=False)
class PendingRows(UnitRows):
    """Rows, and for each also the number of the batch it came in and its place there."""

    tags: Numbers
    places: Numbers

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes) + 28 * len(self)

    def split(self, mask: npt.NDArray[np.bool_]) -> tuple[PendingRows, PendingRows]:
        """Copies of the rows for which `mask` is true, and of the others."""
        return self.pick(np.flatnonzero(mask)), self.pick(np.flatnonzero(~mask))


class _Run:
    """Packed rows, sorted by group: in memory, or in a file."""

    def __init__(self, batch: pa.RecordBatch, bounds: dict[int, Bounds]) -> None:
        self.content: pa.RecordBatch | RowFile = batch
        self.nbytes = int(batch.nbytes)
        self.bounds = bounds
        """By group, where its rows are; groups that were gathered are not among them."""
        self.lent = 0
        """Pieces that were handed out and not loaded yet."""

    @property
    def file(self) -> RowFile | None:
        """The file, if the rows are on disk."""
        return self.content if isinstance(self.content, RowFile) else None

    def move(self, file: NewFile) -> None:
        """Move to disk; with a SpillError nothing has changed."""
        self.content = RowFile(self.content, self.bounds, file)

    def read(self, bounds: dict[int, Bounds]) -> pa.RecordBatch:
        """The rows of some groups, one group after the other."""
        if isinstance(self.content, RowFile):
            return joined_batches(list(self.content.read(bounds)))
        return self.content.take(pa.array(np.concatenate([np.arange(*each) for each in bounds.values()])))


class PendingPiece:
    """The rows of some groups in one run, to be loaded when their turn comes."""

    def __init__(self, pending: Pending, run: _Run, groups: Iterable[int]) -> None:
        self._pending, self._run = pending, run
        self._bounds = {group: run.bounds.pop(group) for group in groups}
        run.lent += 1

    def load(self) -> PendingRows:
        """Take the rows out of the run, in the order in which they came."""
        batch = self._run.read(self._bounds)
        if len(self._bounds) > 1:
            tags = batch.column(batch.num_columns - 2).to_numpy()
            batch = batch.take(pa.array(order_of(tags)))
        self._pending.release(self._run, self._bounds)
        return PendingRows.unpacked(batch)


class Pending:
    """All pending input of one evaluation. `group_of` has the number of each unit's group, and is kept up to date."""

    def __init__(self, units: int, group_of: npt.NDArray[np.int32], file: NewFile) -> None:
        self.waiting = np.zeros(units, np.int64)
        """By unit, how many rows wait."""
        self.since = np.zeros(units)
        """By unit, when the first of them began to wait."""
        self.rows = 0
        self.memory = 0
        """Bytes in memory."""
        self._bytes = 0.0
        self._group_of = group_of
        self._new_file = file
        self._fresh: list[PendingRows] = []
        self._runs: list[_Run] = []
        self._lent: list[_Run] = []
        """Runs of which nothing is left but pieces that were not loaded yet."""

    def add(self, rows: PendingRows, now: float) -> None:
        """Add rows; they come after all others of their units."""
        if not len(rows):
            return
        counts = np.bincount(rows.units, minlength=len(self.waiting))
        self.since[(counts > 0) & (self.waiting == 0)] = now
        self.waiting += counts
        self._fresh.append(rows)
        self.memory += rows.nbytes
        self._bytes += rows.nbytes
        self.rows += len(rows)

    @property
    def row_bytes(self) -> float:
        """Average bytes of a row."""
        return self._bytes / max(1, self.rows)

    @property
    def disk(self) -> int:
        """Bytes on disk."""
        return sum(run.file.nbytes for run in {*self._runs, *self._lent} if run.file is not None)

    @property
    def files(self) -> int:
        """Files on disk."""
        return sum(run.file is not None for run in {*self._runs, *self._lent})

    def gather(self, groups: Iterable[int], units: Numbers) -> list[PendingPiece]:
        """Hand out all rows of some groups, oldest first; `units` are the groups' units that have rows."""
        wanted = set(groups)
        self._sort()
        pieces = [
            PendingPiece(self, run, found)
            for run in self._runs
            if (found := [group for group in run.bounds if group in wanted])
        ]
        gone = int(self.waiting[units].sum())
        self._bytes -= self.row_bytes * gone
        self.rows -= gone
        self.waiting[units] = 0
        self._lent += [run for run in self._runs if not run.bounds]
        self._runs = [run for run in self._runs if run.bounds]
        return pieces

    def release(self, run: _Run, groups: Iterable[int]) -> None:
        """A piece of a run has been loaded: its rows are not needed again."""
        run.lent -= 1
        if run.file is not None:
            run.file.drop(groups)
        if not run.bounds and not run.lent:
            self._lent.remove(run)
            if run.file is None:
                self.memory -= run.nbytes

    def to_disk(self) -> None:
        """Write all rows that are in memory to a file; with a SpillError they stay in memory."""
        self._sort(merge=True)
        for run in self._runs:
            if run.file is None:
                run.move(self._new_file)
                self.memory -= run.nbytes

    def _sort(self, merge: bool = False) -> None:
        """Make a run of the rows that came since the last one, with `merge` of all that are in memory."""
        mine = [run for run in self._runs if run.file is None]
        some = len(mine) + bool(self._fresh) > 1 or any(run.lent for run in mine)
        merge = (merge and some) or len(mine) >= RUNS
        if not self._fresh and not merge:
            return
        batches = [rows.packed() for rows in self._fresh]
        if merge:
            batches = [run.read(run.bounds) for run in mine] + batches
            self._runs = [run for run in self._runs if run.file is not None]
            for run in mine:
                run.bounds = {}
            self._lent += [run for run in mine if run.lent]
            self.memory -= sum(run.nbytes for run in mine if not run.lent)
        self.memory -= sum(rows.nbytes for rows in self._fresh)
        self._fresh = []
        batch = joined_batches(batches)
        groups = self._group_of[batch.column(batch.num_columns - 4).to_numpy()]
        order = order_of(groups)
        groups = groups[order]
        run = _Run(batch.take(pa.array(order)), bounds_of(groups))
        self.memory += run.nbytes
        self._runs.append(run)
