"""Holds rows back until their time, so that operators see them in order.

`Timed` stands between a worker and an operator. Rows go into a waiting room, and have no results yet. A *tick* is a row
of one unit, too: it has none of the user's columns, and its column NOW says what time it is. Then the unit's rows from
before that time go through the operator, in order, and the operator is told the time. A tick is sent, logged, moved and
replayed like any row.

    rows   ──┐         ┌── late: before the last tick ──► on_late
             ▼         │
        waiting room ──┴── due: before this tick, in order ──► process, then on_time(now)
             ▲
    ticks  ──┘   END, no more rows come: all are due, then on_end.   FLUSH, the end of a batch: all are due

After END the rows stay in the waiting room, and the operator forgets them: if Spark evaluates the rest of a DataFrame,
or all of it, once more, END comes again and the results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import FunctionError
from evenflow.operators.columns import microseconds
from evenflow.operators.conform import conform
from evenflow.operators.keyed import KeyedOperator, Keys, Units, overrides
from evenflow.operators.ordering import arranged
from evenflow.operators.waiting import FOREVER, Waiting
from evenflow.operators.waiting_files import File
from evenflow.operators.waiting_room import WaitingRoom

NOW = pa.field("__evenflow_now", pa.int64())
"""The column that makes a row a tick: the time in microseconds, END or FLUSH; null in the user's rows."""
END = FOREVER
"""The tick after the last row of all."""
FLUSH = FOREVER - 1
"""The tick after the last row of a micro-batch: none of its rows is to wait any longer."""
NEVER = np.iinfo(np.int64).min
"""The time before the first tick."""
CLOCK_BYTES = 64
"""Bytes of a unit that has had a tick and nothing else."""

Longs = npt.NDArray[np.int64]


class Timed(KeyedOperator):
    """Gives the rows of each unit to `inner` when they are due, ordered by some columns.

    `rows` has the columns that come here, without NOW; `mine` are the places of those that `inner` reads, `order` the
    places of those by which rows are ordered, the time first. If `timed`, rows wait for a tick later than their time,
    else for FLUSH. `schema` has the columns of the result.
    """

    def __init__(
        self,
        inner: KeyedOperator,
        rows: pa.Schema,
        mine: Sequence[int],
        order: Sequence[int],
        timed: bool,
        units: int,
        schema: pa.Schema,
    ) -> None:
        self.inner = inner
        self.order, self.timed = tuple(order), timed
        self._rows = pa.schema([pa.field(field.name, field.type) for field in rows])  # nullable: a tick has no values
        self._schema = schema
        self._mine = list(mine)
        self._room = WaitingRoom(units)
        self._clock = np.full(units, NEVER, np.int64)
        """By unit, the time of its last tick."""
        self._late = 0
        self._nothing = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return self._schema

    def warm_up(self, rows: pa.Schema) -> None:
        self.inner.warm_up(pa.schema([self._rows.field(place) for place in self._mine]))

    # -- rows

    def whole(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with all columns: the user's come without column NOW, ticks come with nothing else."""
        count = rows.num_rows
        if rows.schema.names == [NOW.name]:
            columns = [*(pa.nulls(count, field.type) for field in self._rows), rows.column(0)]
        else:
            if (rows.schema.names, rows.schema.types) != (
                self._rows.names,
                self._rows.types,
            ):  # an earlier run's
                rows = self._fitting(rows)
            columns = [*rows.columns, pa.nulls(count, NOW.type)]
        return pa.RecordBatch.from_arrays(columns, names=[*self._rows.names, NOW.name])

    def process(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        results: list[pa.RecordBatch] = []
        for start, stop, now in _runs(rows.column(rows.num_columns - 1)):
            if now is None:
                part = rows.slice(start, stop - start).select(list(range(rows.num_columns - 1)))
                self._room.add(Waiting(part, units[start:stop], keys[start:stop], self._times(part)))
            else:
                results += self._tick(now, np.unique(units[start:stop]))
        if len(results) == 1:
            return results[0]
        return pa.concat_batches(results) if results else self._nothing

    def _times(self, rows: pa.RecordBatch) -> Longs:
        """The time for which each row waits."""
        if not self.timed:
            return np.full(rows.num_rows, NEVER, np.int64)
        place = self.order[0]
        return microseconds(rows.column(place), rows.schema.names[place])

    def _tick(self, now: int, units: Units) -> Iterator[pa.RecordBatch]:
        """Process a tick of some units."""
        if now == END:
            yield from self._end(units)
            return
        before = self._clock
        if now < FLUSH:
            self._clock = before.copy()
            self._clock[units] = np.maximum(before[units], now)
        until = self._clock if now < FLUSH else np.full(len(before), FOREVER)
        due = self._room.take(units, until)
        if due is not None:
            late = due.times < before[due.units] if self.timed else np.zeros(len(due), np.bool_)
            yield from self._give(due, late)
        if now < FLUSH and overrides(self.inner, "on_time"):
            reached = self._clock[units]
            for each in np.unique(reached).tolist():  # one, unless the clock of a unit was ahead
                yield from self._told(self.inner.on_time(each, units[reached == each]), "on_time")

    def _end(self, units: Units) -> Iterator[pa.RecordBatch]:
        """Process END. The rows stay and `inner` forgets them, so that END can come again with the same results."""
        due = self._room.copy(units)
        if due is not None:
            yield from self._give(due, np.zeros(len(due), np.bool_))
        yield from self._told(self.inner.on_end(units), "on_end")
        for unit in units.tolist():
            self.inner.extract(unit)

    def _give(self, due: Waiting, late: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """Give rows to `inner` in order: late ones to `on_late`, the others to `process`."""
        order = arranged(due.rows, due.units, due.keys, self.order)
        if late.any():
            behind = due.pick(order[late[order]])
            self._late += len(behind)
            said = self.inner.on_late(behind.rows.select(self._mine), behind.units, behind.keys)
            yield from self._told(said, "on_late")
            order = order[~late[order]]
        if len(order):
            rows = due.rows.select(self._mine).take(pa.array(order))
            result = self.inner.process(rows, due.units[order], due.keys[order])
            yield from self._told(result[0] if isinstance(result, tuple) else result, "process")

    def _told(self, result: object, method: str) -> Iterator[pa.RecordBatch]:
        """What `inner` returned, with the declared columns."""
        if result is not None:
            yield conform(result, self._schema, f"{type(self.inner).__name__}.{method}")

    # -- state

    def extract(self, unit: int) -> Any:
        inner = self.inner.extract(unit)
        try:
            aside = self.extract_aside(unit)
        except BaseException:  # the unit stays, as a whole
            if inner is not None:
                self.inner.install(unit, inner)
            raise
        return self.joined(aside, inner)

    def snapshot(self, unit: int) -> Any:
        return self.joined(self.snapshot_aside(unit), self.inner.snapshot(unit))

    def install(self, unit: int, state: Any) -> None:
        aside, inner = self.parted(state)
        self.install_aside(unit, aside)
        if inner is not None:
            self.inner.install(unit, inner)

    # -- what is kept aside: with a budget of memory only the units of `inner` are paged, and rows go to disk by time

    @property
    def aside(self) -> int:
        """Bytes of memory that waiting rows take."""
        return self._room.nbytes

    @property
    def shelved(self) -> int:
        """Bytes of disk that waiting rows take."""
        return self._room.shelved

    @property
    def shelved_files(self) -> int:
        """Files on disk."""
        return self._room.files

    def aside_sizes(self, units: Units) -> Longs:
        """Bytes of the waiting rows of each of the units, in memory and on disk."""
        return self._room.sizes(units)

    def shelve(self, amount: int, largest: int, file: Callable[[], File]) -> None:
        """Put at least `amount` bytes of rows on disk, if there are so many; batches in memory: `largest` at most."""
        self._room.largest = min(self._room.largest, largest)
        self._room.shelve(amount, file)

    def extract_aside(self, unit: int) -> Any:
        """Take out the clock and the waiting rows of a unit."""
        waiting = _bare(self._room.extract(unit))  # first: if rows on disk cannot be read nothing has changed
        clock = int(self._clock[unit])
        self._clock[unit] = NEVER
        return clock, waiting

    def snapshot_aside(self, unit: int) -> Any:
        """The clock and the waiting rows of a unit, which stay."""
        return int(self._clock[unit]), _bare(self._room.look(unit))

    def install_aside(self, unit: int, aside: Any) -> None:
        """Put in what `extract_aside` gave."""
        self._clock[unit], waiting = aside
        if waiting is not None:
            rows, keys = self._fitting(waiting[0]), waiting[1]
            self._room.add(Waiting(rows, np.full(len(keys), unit, np.int32), keys, self._times(rows)))

    def joined(self, aside: Any, inner: Any) -> Any:
        """The state of a unit; None if it has none."""
        return None if inner is None and aside == (NEVER, None) else (*aside, inner)

    def parted(self, state: Any) -> tuple[Any, Any]:
        """The reverse of `joined`."""
        return state[:2], state[2]

    def _fitting(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that have waited since an earlier run of the query, which may have had other columns, with ours."""
        if rows.schema.equals(self._rows):
            return rows
        try:
            return conform(rows, self._rows, "an earlier run")
        except FunctionError as error:
            raise FunctionError(
                f"rows that wait for their time have columns {rows.schema.names}, and rows come with "
                f"{self._rows.names} now: start the query with the columns it had, or with a new checkpoint ({error})"
            ) from None

    def sizes(self, units: Units) -> Longs:
        if not (overrides(self.inner, "sizes") or overrides(self.inner, "size")):
            return self._room.sizes(units)  # that of `inner` is not known; 0 means that the unit is to be weighed
        ticked = np.where(self._clock[units] == NEVER, 0, CLOCK_BYTES)
        return self._room.sizes(units) + np.asarray(self.inner.sizes(units), np.int64) + ticked

    def tallies(self) -> dict[str, int]:
        counted = dict(self.inner.tallies())
        if self.timed:
            counted["late"] = counted.get("late", 0) + self._late
        return counted


def _runs(column: pa.Array) -> Iterator[tuple[int, int, int | None]]:
    """Start, end and time of each series of ticks with the same time; rows of the user's have None."""
    if column.null_count == len(column):
        if len(column):
            yield 0, len(column), None
        return
    values = column.fill_null(NEVER).to_numpy()
    starts = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], len(values)], strict=True):
        now = int(values[start])
        yield start, stop, None if now == NEVER else now


def _bare(waiting: Waiting | None) -> tuple[pa.RecordBatch, Keys] | None:
    """Rows and keys: units and times follow from these."""
    return None if waiting is None else (waiting.rows, waiting.keys)
