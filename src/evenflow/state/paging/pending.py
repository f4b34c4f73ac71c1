"""Pending input: rows of units that are on disk, until these are back (flux §6.1: runs of pending input).

Rows are kept as they come until some are needed or they take too much memory. Then they are sorted into a run, in which
the rows of each group of units lie together, oldest first. Runs on disk are older than those in memory, so
the rows of a unit are in their order from run to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import SpillError
from evenflow.state.paging.operator import Keys, Units
from evenflow.state.paging.spill import Segment

RUNS = 8
"""With this many runs in memory they are merged into one."""

Longs = npt.NDArray[np.int64]
Bounds = tuple[int, int]
"""The place of the first row, and the one after the last."""


@dataclass(frozen=True, slots=True)
class PendingRows:
    """Rows, and for each its unit, its key, the number of the batch it came in and its place there."""

    batch: pa.RecordBatch
    units: Units
    keys: Keys
    tags: Longs
    places: Longs

    def __len__(self) -> int:
        return len(self.units)

    @property
    def nbytes(self) -> int:
        return int(self.batch.nbytes) + 28 * len(self)

    def where(self, mask: npt.NDArray[np.bool_]) -> PendingRows:
        """A copy of the rows for which `mask` is true, in their order."""
        some = np.flatnonzero(mask)
        batch = self.batch.take(pa.array(some))
        return PendingRows(batch, self.units[some], self.keys[some], self.tags[some], self.places[some])

    def part(self, start: int, stop: int) -> PendingRows:
        """Consecutive rows; nothing is copied."""
        some = slice(start, stop)
        batch = self.batch.slice(start, stop - start)
        return PendingRows(batch, self.units[some], self.keys[some], self.tags[some], self.places[some])

    def packed(self) -> pa.RecordBatch:
        """One batch of the columns and, as further columns, units, keys, tags and places."""
        columns = [pa.array(each) for each in (self.units, self.keys, self.tags, self.places)]
        fields = [pa.field("", column.type) for column in columns]
        return pa.RecordBatch.from_arrays(
            [*self.batch.columns, *columns], schema=pa.schema([*self.batch.schema, *fields])
        )

    @staticmethod
    def unpacked(batch: pa.RecordBatch) -> PendingRows:
        """The reverse of `packed`."""
        width = batch.num_columns - 4
        return PendingRows(batch.select(list(range(width))), *(batch.column(width + i).to_numpy() for i in range(4)))


class _Run:
    """Packed rows, sorted by group: in memory, or in a file with an entry for each group."""

    def __init__(self, batch: pa.RecordBatch, bounds: dict[int, Bounds]) -> None:
        self.batch: pa.RecordBatch | None = batch
        self.schema = batch.schema
        self.nbytes = int(batch.nbytes)
        self.bounds = bounds
        """By group, where its rows are; groups that were gathered are not among them."""
        self.lent = 0
        """Pieces that were handed out and not loaded yet."""
        self.segment: Segment | None = None

    def move(self, segment: Segment) -> None:
        """Move to disk; with a SpillError nothing has changed."""
        assert self.batch is not None
        plain = _is_plain(self.schema)
        try:
            for group, (start, stop) in self.bounds.items():
                piece = self.batch.slice(start, stop - start)
                content = piece.serialize() if plain else _stream(piece)
                segment.append([(group, [content])])
        except SpillError:
            segment.drop(list(segment.entries))
            raise
        self.batch, self.segment = None, segment

    def read(self, bounds: dict[int, Bounds]) -> pa.RecordBatch:
        """The rows of some groups, one group after the other."""
        if self.segment is None:
            assert self.batch is not None
            return self.batch.take(pa.array(np.concatenate([np.arange(*each) for each in bounds.values()])))
        buffers = [pa.py_buffer(content) for _, (content,) in self.segment.read(bounds)]
        if _is_plain(self.schema):
            return _joined([pa.ipc.read_record_batch(buffer, self.schema) for buffer in buffers])
        return _joined([_one(pa.ipc.open_stream(buffer).read_all()) for buffer in buffers])


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
            batch = batch.take(pa.array(_order(tags)))
        self._pending.release(self._run, self._bounds)
        return PendingRows.unpacked(batch)


class Pending:
    """All pending input of one evaluation. `group_of` has the number of each unit's group, and is kept up to date."""

    def __init__(self, units: int, group_of: npt.NDArray[np.int32], segment: Callable[[], Segment]) -> None:
        self.waiting = np.zeros(units, np.int64)
        """By unit, how many rows wait."""
        self.since = np.zeros(units)
        """By unit, when the first of them began to wait."""
        self.rows = 0
        self.memory = 0
        """Bytes in memory."""
        self._bytes = 0.0
        self._group_of = group_of
        self._segment = segment
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
        return sum(run.segment.live for run in {*self._runs, *self._lent} if run.segment is not None)

    @property
    def files(self) -> int:
        """Files on disk."""
        return sum(run.segment is not None for run in {*self._runs, *self._lent})

    def gather(self, groups: Iterable[int], units: Longs) -> list[PendingPiece]:
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
        if run.segment is not None:
            run.segment.drop(groups)
        if not run.bounds and not run.lent:
            self._lent.remove(run)
            if run.segment is None:
                self.memory -= run.nbytes

    def to_disk(self) -> None:
        """Write all rows that are in memory to a file; with a SpillError they stay in memory."""
        self._sort(merge=True)
        for run in self._runs:
            if run.segment is None:
                run.move(self._segment())
                self.memory -= run.nbytes

    def _sort(self, merge: bool = False) -> None:
        """Make a run of the rows that came since the last one, with `merge` of all that are in memory."""
        mine = [run for run in self._runs if run.segment is None]
        some = len(mine) + bool(self._fresh) > 1 or any(run.lent for run in mine)
        merge = (merge and some) or len(mine) >= RUNS
        if not self._fresh and not merge:
            return
        batches = [rows.packed() for rows in self._fresh]
        if merge:
            batches = [run.read(run.bounds) for run in mine] + batches
            self._runs = [run for run in self._runs if run.segment is not None]
            for run in mine:
                run.bounds = {}
            self._lent += [run for run in mine if run.lent]
            self.memory -= sum(run.nbytes for run in mine if not run.lent)
        self.memory -= sum(rows.nbytes for rows in self._fresh)
        self._fresh = []
        batch = _joined(batches)
        groups = self._group_of[batch.column(batch.num_columns - 4).to_numpy()]
        order = _order(groups)
        groups = groups[order]
        run = _Run(batch.take(pa.array(order)), {int(groups[start]): (start, stop) for start, stop in runs(groups)})
        self.memory += run.nbytes
        self._runs.append(run)


def _order(values: npt.NDArray[np.integer[Any]]) -> Longs:
    """A stable order of the values; in linear time if they are close to each other."""
    least = int(values.min())
    if int(values.max()) - least < 1 << 16:
        return np.argsort((values - least).astype(np.uint16), kind="stable")
    return np.argsort(values, kind="stable")


def runs(values: npt.NDArray[np.integer[Any]]) -> list[Bounds]:
    """The bounds of each series of equal neighbours."""
    starts = np.flatnonzero(np.diff(values, prepend=values[:1] - 1)).tolist()
    return list(zip(starts, [*starts[1:], len(values)], strict=True)) if starts else []


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else _one(pa.Table.from_batches(batches))


def _one(table: pa.Table) -> pa.RecordBatch:
    columns = table.unify_dictionaries().columns
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in columns], schema=table.schema)


def _stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _is_plain(schema: pa.Schema) -> bool:
    """Whether a batch of this schema has no dictionaries, so that it can be written without its schema."""
    return not any(_has_dictionary(field.type) for field in schema)


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(i).type) for i in range(kind.num_fields))
