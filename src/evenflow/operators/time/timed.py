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

Where rows of several inputs come, ticks have further columns: what each input has reached. Then each unit keeps how far
every input is, and its time is the least of that (`operators/time/inputs.py`).

After END the rows stay in the waiting room, and the operator forgets them: if Spark evaluates the rest of a DataFrame,
or all of it, once more, END comes again and the results are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.columns import microseconds
from evenflow.operators.conform import conform, refit
from evenflow.operators.declared import reads_of
from evenflow.operators.keyed import KeyedOperator, Keys, Units, overrides
from evenflow.operators.time.inputs import InputProgress, Inputs
from evenflow.operators.time.ordering import arranged, comparable
from evenflow.operators.time.overtaken import Overtaken
from evenflow.operators.time.room import WaitingRoom
from evenflow.operators.time.waiting import FOREVER, Waiting
from evenflow.scratch.files import UnitState
from evenflow.scratch.rows import NewFile

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
WALL = pa.field("__evenflow_wall", pa.int64())
"""The column of a tick that says when its micro-batch began by the clock of the driver, where there are inputs."""

Longs = npt.NDArray[np.int64]


def tick_fields(inputs: Inputs | None) -> list[pa.Field]:
    """The columns of a tick: the time and, if there are inputs, what each of them has reached, and the clock's time."""
    if inputs is None:
        return [NOW]
    reached = [pa.field(f"__evenflow_input_{number}", pa.int64()) for number in range(len(inputs.names))]
    return [NOW, *reached, WALL]


class Timed(KeyedOperator):
    """Gives the rows of each unit to `inner` when they are due, ordered by some columns.

    `rows` has the columns that come here, without NOW; `mine` are the places of those that `inner` reads, `order` the
    places of those by which rows are ordered, the time first. If `timed`, rows wait for a tick later than their time,
    else for the next tick. `schema` has the columns of the result. `inputs` tells rows of several inputs apart.
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
        inputs: Inputs | None = None,
    ) -> None:
        self.inner = inner
        self.order, self.timed = tuple(order), timed
        self._rows = pa.schema([pa.field(field.name, field.type) for field in rows])  # nullable: a tick has no values
        self._schema = schema
        self._mine = list(mine)
        self._room = WaitingRoom(units)
        self._clock = np.full(units, NEVER, np.int64)
        """By unit, the time of its last tick."""
        self.sources = inputs
        self._progress = None if inputs is None else InputProgress(inputs, units)
        self._overtaken = Overtaken()
        """The keys of units, where rows of several inputs wait for no other input."""
        self._told = [field.name for field in tick_fields(inputs)]
        self._late = np.zeros(1 if inputs is None else len(inputs.names), np.int64)
        """Late rows, by input."""
        self._nothing = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return self._schema

    def warm_up(self, rows: pa.Schema) -> None:
        self.inner.warm_up(pa.schema([self._rows.field(place) for place in self._mine]))

    # -- rows

    def whole(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with all columns: the user's come without those of ticks, ticks come with nothing else."""
        count = rows.num_rows
        if rows.schema.names[:1] == [NOW.name]:
            told = [*rows.columns, *([pa.nulls(count, NOW.type)] * (len(self._told) - rows.num_columns))]
            columns = [*(pa.nulls(count, field.type) for field in self._rows), *told]
        else:
            if (rows.schema.names, rows.schema.types) != (
                self._rows.names,
                self._rows.types,
            ):  # an earlier run's
                rows = self._fitting(rows)
            columns = [*rows.columns, *([pa.nulls(count, NOW.type)] * len(self._told))]
        return pa.RecordBatch.from_arrays(columns, names=[*self._rows.names, *self._told])

    def process(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        results: list[pa.RecordBatch] = []
        width = rows.num_columns - len(self._told)
        for start, stop, told in _runs(rows.columns[width:]):
            if told is None:
                part = rows.slice(start, stop - start).select(list(range(width)))
                some = slice(start, stop)
                self._room.add(Waiting(rows=part, units=units[some], keys=keys[some], times=self._times(part)))
            else:
                results += self._tick(told, np.unique(units[start:stop]))
        if len(results) == 1:
            return results[0]
        return pa.concat_batches(results) if results else self._nothing

    def _times(self, rows: pa.RecordBatch) -> Longs:
        """The time for which each row waits."""
        return self._moments(rows) if self.timed else np.full(rows.num_rows, NEVER, np.int64)

    def _moments(self, rows: pa.RecordBatch) -> Longs:
        """The time of each row."""
        place = self.order[0]
        return microseconds(rows.column(place), rows.schema.names[place])

    def _tick(self, told: Longs, units: Units) -> Iterator[pa.RecordBatch]:
        """Process a tick of some units; `told` has the values of its columns."""
        now = int(told[0])
        if now == END:
            yield from self._end(units)
            return
        before = self._clock
        if now < FLUSH:
            self._clock = before.copy()
            self._clock[units] = np.maximum(before[units], self._reached(told, units))
        until = self._clock if self.timed and now < FLUSH else np.full(len(before), FOREVER)
        due = self._room.take(units, until)
        if due is not None:
            late = due.times < before[due.units] if self.timed else np.zeros(len(due), np.bool_)
            if now == FLUSH and self.sources is not None:
                self._count_overtaken(due)
            yield from self._give(due, late)
        if now < FLUSH and overrides(self.inner, "on_time"):
            reached = self._clock[units]
            for each in np.unique(reached[reached > NEVER]).tolist():  # one, unless the clock of a unit was ahead
                yield from self._given(self.inner.on_time(each, units[reached == each]), "on_time")

    def _reached(self, told: Longs, units: Units) -> Longs | int:
        """What time a tick makes it for some units."""
        if self._progress is None or told[-1] == NEVER:  # a tick in the log of a version that knew of no inputs
            return int(told[0])
        return self._progress.advance(units, told[1:-1], int(told[-1]))

    def _end(self, units: Units) -> Iterator[pa.RecordBatch]:
        """Process END. The rows stay and `inner` forgets them, so that END can come again with the same results."""
        due = self._room.copy(units)
        if due is not None:
            yield from self._give(due, np.zeros(len(due), np.bool_))
        yield from self._given(self.inner.on_end(units), "on_end")
        for unit in units.tolist():
            self.inner.extract(unit)

    def _give(self, due: Waiting, late: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """Give rows to `inner` in order: late ones to `on_late`, the others to `process`."""
        order = arranged(due.rows, due.units, due.keys, self.order)
        if late.any():
            behind = due.pick(order[late[order]])
            self._late += self._by_input(behind.rows)
            said = self.inner.on_late(behind.rows.select(self._mine), behind.units, behind.keys)
            yield from self._given(said, "on_late")
            order = order[~late[order]]
        if len(order):
            rows = due.rows.select(self._mine).take(pa.array(order))
            result = self.inner.process(rows, due.units[order], due.keys[order])
            yield from self._given(result[0] if isinstance(result, tuple) else result, "process")

    def _count_overtaken(self, due: Waiting) -> None:
        """Count rows that come in a later micro-batch than later rows of their key: nobody has waited for them."""
        column = due.rows.column(self.order[0])
        if column.null_count:
            valid = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            due, column = due.pick(valid), column.drop_null()
        if len(due):
            behind = self._overtaken.note(due.units, due.keys, comparable(column))
            self._late += self._by_input(due.rows.filter(pa.array(behind)))

    def _by_input(self, rows: pa.RecordBatch) -> Longs:
        """How many rows are of each input."""
        if self.sources is None:
            return np.array([rows.num_rows])
        return np.bincount(self.sources.numbers(rows.column(self.sources.column)), minlength=len(self._late))

    def _given(self, result: object, method: str) -> Iterator[pa.RecordBatch]:
        """What `inner` returned, with the declared columns."""
        if result is not None:
            yield conform(result, self._schema, f"{type(self.inner).__name__}.{method}")

    # -- state

    def extract(self, unit: int) -> UnitState:
        inner = self.inner.extract(unit)
        try:
            aside = self.extract_aside(unit)
        except BaseException:  # the unit stays, as a whole
            if inner is not None:
                self.inner.install(unit, inner)
            raise
        return self.joined(aside, inner)

    def snapshot(self, unit: int) -> UnitState:
        return self.joined(self.snapshot_aside(unit), self.inner.snapshot(unit))

    def install(self, unit: int, state: UnitState) -> None:
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

    def shelve(self, amount: int, largest: int, file: NewFile) -> None:
        """Put at least `amount` bytes of rows on disk, if there are so many; batches in memory: `largest` at most."""
        self._room.largest = min(self._room.largest, largest)
        self._room.shelve(amount, file)

    def extract_aside(self, unit: int) -> UnitState:
        """Take out the clock and the waiting rows of a unit."""
        waiting = _bare(self._room.extract(unit))  # first: if rows on disk cannot be read nothing has changed
        clock = self._clock_of(unit)
        self._clock[unit] = NEVER
        if self._progress is not None:
            self._progress.extract(unit)
        self._overtaken.extract(unit)
        return clock, waiting

    def snapshot_aside(self, unit: int) -> UnitState:
        """The clock and the waiting rows of a unit, which stay."""
        return self._clock_of(unit), _bare(self._room.look(unit))

    def _clock_of(self, unit: int) -> UnitState:
        """The time of a unit; with inputs also how far they are, or the latest rows of its keys."""
        clock, latest = int(self._clock[unit]), self._overtaken.look(unit)
        known = self._progress is not None and (self._progress.seen[unit] > NEVER).any()
        reached = self._progress.look(unit) if self._progress is not None and known else None
        return clock if reached is None and latest is None else (clock, reached, latest)

    def install_aside(self, unit: int, aside: UnitState) -> None:
        """Put in what `extract_aside` gave."""
        clock, waiting = aside
        more = clock[1:] if isinstance(clock, tuple) else ()  # one less from a version that knew of no latest rows
        self._clock[unit] = clock[0] if more else clock
        reached, latest = (*more, None, None)[:2]
        if latest is not None:
            self._overtaken.install(unit, latest)
        if self._progress is not None and reached is not None:
            self._progress.install(unit, reached)
        if waiting is not None:
            rows, keys = self._fitting(waiting[0]), waiting[1]
            units = np.full(len(keys), unit, np.int32)
            self._room.add(Waiting(rows=rows, units=units, keys=keys, times=self._times(rows)))

    def joined(self, aside: UnitState, inner: UnitState) -> UnitState:
        """The state of a unit; None if it has none."""
        return None if inner is None and aside == (NEVER, None) else (*aside, inner)

    def parted(self, state: UnitState) -> tuple[UnitState, UnitState]:
        """The reverse of `joined`."""
        return state[:2], state[2]

    def _fitting(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that have waited since an earlier run of the query, which may have had other columns, with ours."""
        if rows.schema.equals(self._rows):
            return rows
        mine = pa.schema([self._rows.field(place) for place in self._mine])
        read = {*(reads_of(self.inner, mine) if self.inner.adds else mine.names)}  # who adds has the others as well
        read |= {self._rows.field(place).name for place in self.order}
        read |= set() if self.sources is None else {self.sources.column}
        return refit(rows, self._rows, read)

    def sizes(self, units: Units) -> Longs:
        if not (overrides(self.inner, "sizes") or overrides(self.inner, "size")):
            return self._room.sizes(units)  # that of `inner` is not known; 0 means that the unit is to be weighed
        new = self._clock[units] == NEVER
        if self._progress is not None:
            new &= (self._progress.seen[units] == NEVER).all(axis=1)
        ticked = np.where(new, 0, CLOCK_BYTES)
        told = ticked + self._overtaken.sizes(units)
        return self._room.sizes(units) + np.asarray(self.inner.sizes(units), np.int64) + told

    def tallies(self) -> dict[str, int]:
        counted = dict(self.inner.tallies())
        names = [] if self.sources is None else [f"late of {name}" for name in self.sources.names]
        if self.timed or names:
            counted["late"] = counted.get("late", 0) + int(self._late.sum())
        for name, late in zip(names, self._late.tolist(), strict=False):
            counted[name] = counted.get(name, 0) + late
        return counted


def _runs(columns: Sequence[pa.Array]) -> Iterator[tuple[int, int, Longs | None]]:
    """Start, end and values of each series of ticks that say the same; rows of the user's have None."""
    count = len(columns[0])
    if columns[0].null_count == count:
        if count:
            yield 0, count, None
        return
    values = np.array([column.fill_null(NEVER).to_numpy() for column in columns])
    starts = [0, *(np.flatnonzero(np.diff(values).any(axis=0)) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], count], strict=True):
        told = values[:, start]
        yield start, stop, None if told[0] == NEVER else told


def _bare(waiting: Waiting | None) -> tuple[pa.RecordBatch, Keys] | None:
    """Rows and keys: units and times follow from these."""
    return None if waiting is None else (waiting.rows, waiting.keys)
