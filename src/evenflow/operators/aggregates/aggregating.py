"""The base of operators that add aggregates of the rows of each key: of all so far, or of those in a window."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of, whole_of
from evenflow.operators.aggregates.adding import Adding, column_type, hash_name, rehearse, sample
from evenflow.operators.aggregates.argument import PICKING, Argument, argument_of, result_type, rows_counted
from evenflow.operators.columns import NO_TIMES, is_text, microseconds, require_time
from evenflow.operators.declared import collation_of
from evenflow.operators.growing import Growing
from evenflow.operators.keyed import Keys, Units


class AddedColumn(NamedTuple):
    """One of the aggregates of an operator."""

    into: str
    """The new column."""
    how: str
    column: str | None
    """None for a count of rows."""
    what: str
    """Its name in messages."""


class GivenWindow(NamedTuple):
    """A window as it was given, in numbers of Python's own: the last rows, the last seconds, or all rows."""

    rows: int | None = None
    seconds: float | None = None

    @property
    def span(self) -> int:
        """Microseconds; 0 if it is not given in seconds."""
        return 0 if self.seconds is None else round(self.seconds * 1e6)


WHOLE = GivenWindow()


class Aggregating(Adding):
    """Adds aggregates of Spark's types: `measures` has the table, and says what is exact.

    Nulls in the column are ignored; if there is no other value the result is null (count: 0). A deviation is that of a
    sample, null for one value. NaN and infinities count as in Spark. A sum that does not fit its type is an error or,
    in a session without spark.sql.ansi.enabled, null.

    A subclass opens its window, and says what it adds: one column by its `name`, which it may give as
    `class RollingMean(Rolling, name="mean")`, or several by `parts`.
    """

    naming = ("column", "time")
    name: ClassVar[str] = ""
    """The aggregate, for an operator that adds one column."""
    time: str | None = None
    _ansi = True
    _idle: frozenset[str] = frozenset()
    """Aggregates that rows do not go through for the time being."""

    def __init_subclass__(cls, *, name: str = "", **more: object) -> None:
        super().__init_subclass__(**more)
        cls.name = name or cls.name

    def planned(self, *, ansi: bool) -> Self:
        actor = copy.copy(self)
        actor._ansi = ansi
        return actor

    def parts(self) -> list[AddedColumn]:
        """The aggregates, in the order of the columns."""
        return [AddedColumn(self.into, self.name, self.column, str(self))]

    def reads(self, rows: pa.Schema) -> Sequence[str]:
        named = [part.column for part in self.parts()]
        hashes = [hash_name(name) for name in self.hashed]
        return list(dict.fromkeys(name for name in (*named, self.time, *hashes) if name is not None)) or rows.names[:1]

    def added(self, rows: pa.Schema) -> list[pa.Field]:
        if self.time is not None:
            require_time(self, self.time, column_type(self, rows, self.time))
        return [_field(part, rows) for part in self.parts()]

    def add_all(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> dict[str, pa.Array]:
        parts = self.parts()
        given = {part.into: self._argument(part, rows) for part in parts if part.into not in self._idle}
        times = NO_TIMES if self.time is None else microseconds(rows.column(self.time), self.time)
        made: dict[str, pa.Array] = self._state.push(units, keys, given, times)
        idle = {part.into: pa.nulls(rows.num_rows, _field(part, rows.schema).type) for part in parts if self._idle}
        return {part.into: made[part.into] if part.into in made else idle[part.into] for part in parts}

    def warm_up(self, rows: pa.Schema) -> None:
        some = sample(self._kept(rows))
        for name in self.hashed:
            some = some.append_column(hash_name(name), pa.array([0, 0], pa.int64()))
        rehearse(self, some if self.time is None else some.slice(1))  # a time must not be null

    def _argument(self, part: AddedColumn, rows: pa.RecordBatch) -> Argument:
        if part.column is None:
            return rows_counted(rows.num_rows)
        hashes = rows.column(hash_name(part.column)) if part.how == "distinct" else None
        return argument_of(part.how, rows.column(part.column), part.what, self._ansi, hashes)

    def _open(self, window: GivenWindow = WHOLE) -> None:
        """Begin without state."""
        from evenflow.operators.aggregates.aggregated import (
            AggregateSet,  # numba comes with it: only those who use it pay
        )

        parts = self.parts()
        self.hashed = tuple(dict.fromkeys(part.column for part in parts if part.how == "distinct" and part.column))
        hows = {part.into: part.how for part in parts}
        self._state = AggregateSet(hows, window.rows or 0, window.span, isinstance(self, Growing))


def _field(part: AddedColumn, rows: pa.Schema) -> pa.Field:
    if part.column is None:
        return pa.field(part.into, pa.int64())
    kind = column_type(part.what, rows, part.column)
    field = rows.field(part.column)
    if part.how in ("min", "max") and is_text(kind) and collation_of(field):
        raise InvalidArgument(
            f"{part.what} compares strings by their bytes, and column '{part.column}' has collation "
            f"{collation_of(field)}: cast it to string"
        )
    made = result_type(part.how, kind, part.what, part.column)
    return pa.field(part.into, made, metadata=field.metadata if part.how in PICKING and made == kind else None)


def check_window(name: str, rows: int | None, seconds: float | None, time: str | None) -> GivenWindow:
    """The window; refuses invalid arguments."""
    if (rows is None) == (seconds is None):
        raise InvalidArgument(f"{name} got rows={rows} and seconds={seconds}: give one of the two")
    if rows is not None:
        if not 1 <= whole_of(rows) < 1 << 31:
            raise InvalidArgument(f"{name} got rows={rows!r}: give a whole number from 1 to 2**31 - 1")
        if time is not None:
            raise InvalidArgument(f"{name} got time={time!r} and rows={rows}: time goes with seconds=")
        return GivenWindow(rows=whole_of(rows))
    if not 1e-6 <= number_of(seconds) <= 1e12:
        raise InvalidArgument(f"{name} got seconds={seconds!r}: give a number from 0.000001 to 1e12")
    if not isinstance(time, str) or not time:
        raise InvalidArgument(f"{name} got seconds={seconds} and time={time!r}: name the column that holds the time")
    return GivenWindow(seconds=number_of(seconds))
