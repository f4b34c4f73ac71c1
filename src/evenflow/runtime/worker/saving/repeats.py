"""Repeats: an attempt at a batch gives the results of the first whole attempt again, from that attempt's log.

Rows of one key may come from several partitions, in another order each time, so a plain second attempt has other
results. When an attempt repeats another, rows that come only say how much of the log is due:

- `LoggedRows`: the k-th row that comes for a unit is replaced by the k-th logged row of that unit, which then goes
  through the operator. So a unit's rows are applied in the order of the log, whichever task brings which.
- `LoggedResults`, where each result has to go back to its own row (an operator that only adds columns, or results in
  the order of rows): the log is applied at once, and a row gets the results of the logged row with the same content.
  Of rows with equal content, the k-th gets those of the k-th.

A row that the log does not have is an error, and `left` counts the logged rows that have not come again: see
`RowsDiffer`. Logged rows and results are in an unnamed file, mapped into memory: a batch may be larger than memory.
Memory holds 8 to 50 bytes a row.
"""

from __future__ import annotations

import mmap
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.model.checkpoint import AttemptKey
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import Origin, Units
from evenflow.operators.row_marks import has_marks, marks_of
from evenflow.runtime.worker.rows.instances import Answer, Instance, answers, process
from evenflow.state.paging.paged import Paged

Longs = npt.NDArray[np.int64]
NO_PLACES: Longs = np.zeros(0, np.int64)


class OtherRows(Exception):
    """Rows came that are not in the log of the attempt that is repeated."""


class Spool:
    """Record batches in a file without a name, to be read by the numbers of their rows."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `read` closes it
        self._places: list[tuple[int, int, pa.Schema]] = []
        self._batches: list[pa.RecordBatch] = []
        self._starts: Longs = np.zeros(1, np.int64)
        self._counts: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        body = batch.serialize()
        self._places.append((self._file.tell(), body.size, batch.schema))
        self._file.write(body)
        self._file.write(bytes(-body.size % 64))  # Arrow wants its buffers aligned
        self._counts.append(batch.num_rows)

    def close(self) -> None:
        """From now on it is read."""
        self._file.flush()
        size = self._file.tell()
        content = pa.py_buffer(mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")
        self._file.close()
        for start, length, schema in self._places:
            self._batches.append(pa.ipc.read_record_batch(content.slice(start, length), schema))
        self._starts = np.concatenate([[0], np.cumsum(np.array(self._counts, np.int64))])

    def rows(self, places: Longs) -> Iterator[pa.RecordBatch]:
        """The rows with these numbers, which ascend; a batch for each that has some of them."""
        homes = np.searchsorted(self._starts, places, side="right") - 1
        cuts = np.flatnonzero(np.diff(homes)) + 1
        for part in np.split(places, cuts) if len(places) else ():
            home = int(np.searchsorted(self._starts, part[0], side="right")) - 1
            yield self._batches[home].take(pa.array(part - self._starts[home]))


class RepeatedAttempt(ABC):
    """One worker's part of the attempt that is repeated."""

    def __init__(self, stamp: AttemptKey, spool: Spool, units: Units) -> None:
        self._spool = spool
        self.stamp = stamp
        """The batch, and the attempt that repeats."""
        self.units = np.unique(units)
        """The units that have rows."""
        self.failed = False
        """Whether other rows came: then `left` is never 0."""
        self._left = len(units)

    @property
    def left(self) -> int:
        """Logged rows that have not come again."""
        return max(self._left, int(self.failed))

    def free(self) -> None:
        """All rows have come again: drop the file. Further rows are still refused."""
        self._spool = Spool()
        self._spool.close()

    @abstractmethod
    def answers(
        self, instance: Instance, hosted: Hosted, tag: object, batch: pa.RecordBatch, units: Units
    ) -> list[Answer]:
        """Answers to a frame of a keyed operator, as `instances.process` gives them."""

    def logged(self, units: Units) -> list[pa.RecordBatch]:
        """The logged rows that are due when rows of these units come."""
        raise TypeError("results are given again, not rows")


class LoggedRows(RepeatedAttempt):
    """Gives logged rows in place of the rows that come, unit by unit."""

    def __init__(self, stamp: AttemptKey, spool: Spool, units: Units, count: int) -> None:
        super().__init__(stamp, spool, units)
        self._by_unit: Longs = np.argsort(units, kind="stable")
        self._starts: Longs = np.concatenate([[0], np.cumsum(np.bincount(units, minlength=count))])
        self._next: Longs = self._starts[:-1].copy()

    def logged(self, units: Units) -> list[pa.RecordBatch]:
        due, counts = np.unique(units, return_counts=True)
        begins = self._next[due]
        more = begins + counts > self._starts[due + 1]
        if more.any():
            unit = int(due[more][0])
            there = int(self._starts[unit + 1] - self._starts[unit])
            raise OtherRows(f"more rows of unit {unit} come than the {there} of then")
        self._next[due] += counts
        self._left -= len(units)
        return list(self._spool.rows(np.sort(self._by_unit[_ranges(begins, counts)])))

    def answers(
        self, instance: Instance, hosted: Hosted, tag: object, batch: pa.RecordBatch, units: Units
    ) -> list[Answer]:
        rows = self.logged(units)
        whole = rows[0] if len(rows) == 1 else pa.concat_batches(rows)
        return process(instance, hosted, tag, *hosted.replayed(whole))


class LoggedResults(RepeatedAttempt):
    """Gives the results of logged rows to rows with the same content."""

    def __init__(self, stamp: AttemptKey, units: Units, marks: Longs, results: Spool, of: Longs) -> None:
        """`marks` stand for the content of the logged rows; `of` has the number of each result's row."""
        super().__init__(stamp, results, units)
        self._order: Longs = np.argsort(marks, kind="stable")
        self._marks = marks[self._order]
        self._taken = np.zeros(len(marks), np.int64)
        """By the first place of a mark in `_marks`, how many rows with it have come."""
        self._by_row: Longs = np.argsort(of, kind="stable")
        counts = np.bincount(of, minlength=len(marks))
        self._counts: Longs = counts
        self._starts: Longs = np.cumsum(counts) - counts

    def answers(
        self, instance: Instance, hosted: Hosted, tag: object, batch: pa.RecordBatch, units: Units
    ) -> list[Answer]:
        rows = self._match(marks_of(batch))
        counts = self._counts[rows]
        wanted = self._by_row[_ranges(self._starts[rows], counts)]
        order = np.argsort(wanted, kind="stable")
        found = list(self._spool.rows(wanted[order]))
        if not found:
            return [Answer(tag, hosted.no_results(), np.zeros(0, np.int64) if hosted.ordered else None, True)]
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        out = pa.concat_batches(found).take(pa.array(places))
        origin: Origin | None = None if (counts == 1).all() else np.repeat(np.arange(len(rows)), counts)
        return [Answer(tag, out, origin, True)]

    def _match(self, marks: Longs) -> Longs:
        """The number of the logged row for each row that has come."""
        order = np.argsort(marks, kind="stable")
        ordered = marks[order]
        firsts = np.searchsorted(self._marks, ordered)
        begins = np.searchsorted(ordered, ordered)
        places = firsts + np.arange(len(ordered)) - begins
        known = firsts < len(self._marks)
        places[known] += self._taken[firsts[known]]
        known &= places < len(self._marks)
        known[known] = self._marks[places[known]] == ordered[known]
        if not known.all():
            raise OtherRows(f"{int((~known).sum())} of {len(known)} rows of a frame were not among those of then")
        np.add.at(self._taken, firsts, 1)
        self._left -= len(marks)
        rows: Longs = np.empty(len(marks), np.int64)
        rows[order] = self._order[places]
        return rows


class OtherLog(RepeatedAttempt):
    """A log whose rows cannot be told apart: results went back in another way when it was written."""

    def answers(
        self, instance: Instance, hosted: Hosted, tag: object, batch: pa.RecordBatch, units: Units
    ) -> list[Answer]:
        raise OtherRows("its results went back to their rows in another way then")


def _ranges(starts: Longs, counts: Longs) -> Longs:
    """The numbers from each start on, so many of each."""
    ranges: Longs = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    return ranges


def rows_to_repeat(
    stamp: AttemptKey, batches: Iterator[pa.RecordBatch], instance: Instance, hosted: Hosted
) -> RepeatedAttempt:
    """The attempt to repeat, from its logged rows; `instance` has the state that it started from."""
    if hosted.adds or hosted.ordered:
        return _results(stamp, batches, instance, hosted)
    spool, units = Spool(), [np.zeros(0, np.int32)]
    for batch in batches:
        spool.add(batch)
        units.append(hosted.unpacked(batch)[1])
    spool.close()
    return LoggedRows(stamp, spool, np.concatenate(units), hosted.units)


def _results(
    stamp: AttemptKey, batches: Iterator[pa.RecordBatch], instance: Instance, hosted: Hosted
) -> RepeatedAttempt:
    """Apply all logged rows, and keep their results."""
    spool, units, marks, of = Spool(), [np.zeros(0, np.int32)], [NO_PLACES], [NO_PLACES]
    count, known = 0, True

    def keep(given: list[Answer]) -> None:
        for answer in given:
            places = np.arange(answer.batch.num_rows) if answer.origin is None else answer.origin
            of.append(answer.tag + places)
            spool.add(answer.batch)

    for batch in batches:
        rows, mine, keys = hosted.replayed(batch)
        known = known and has_marks(batch)
        if not known:  # the state that it makes is not needed: the attempt is refused with its first row
            units.append(mine)
            continue
        keep(process(instance, hosted, count, rows, mine, keys))
        units.append(mine)
        marks.append(marks_of(batch))
        count += batch.num_rows
    if isinstance(instance, Paged):
        for done in instance.draining():
            keep(answers(hosted, done))
    spool.close()
    if not known:
        return OtherLog(stamp, spool, np.concatenate(units))
    return LoggedResults(stamp, np.concatenate(units), np.concatenate(marks), spool, np.concatenate(of))
