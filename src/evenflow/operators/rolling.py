"""Operators that aggregate a column over the last rows, the last seconds or all rows of each key."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.adding import Adding, column_type, rehearse, sample
from evenflow.operators.columns import NO_TIMES, microseconds, require_time, validity
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.measures import Measure, measure

NAMES = ("count", "sum", "mean", "min", "max", "std")


class _Aggregate(Adding):
    """Adds an aggregate of Spark's type: `measures` has the table, and says what is exact.

    Nulls in the column are ignored; if there is no other value the result is null (count: 0). `std` is the sample
    standard deviation, null for one value. NaN and infinities count as in Spark. Counts take a column of any type,
    minima and maxima also dates and times. A sum that does not fit its type is an error or, in a session without
    spark.sql.ansi.enabled, null.
    """

    name: ClassVar[str]
    _state: Any
    _ansi = True

    def planned(self, *, ansi: bool) -> _Aggregate:
        actor = copy.copy(self)
        actor._ansi = ansi
        return actor

    def result_type(self, kind: pa.DataType) -> pa.DataType:
        return self._measure(kind).type

    def add(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.Array:
        column = rows.column(self.column)
        how = self._measure(column.type)
        self._state.use(how.of, how.words)
        return how.column(*self._push(rows, units, keys, how.values(column), validity(column)))

    def _measure(self, kind: pa.DataType) -> Measure:
        found = measure(self.name, kind, str(self), self._ansi)
        if found is None:
            ordered = self.name in ("min", "max")
            wanted = "numbers, dates, times or booleans" if ordered else "numbers"
            raise InvalidArgument(
                f"{self} needs {wanted}, column '{self.column}' is {kind}: cast it, or name another column"
            )
        return found

    def _push(self, rows: pa.RecordBatch, units: Units, keys: Keys, values: Any, valid: Any) -> tuple[Any, Any]:
        pushed: tuple[Any, Any] = self._state.push(units, keys, values, valid)
        return pushed


class Running(_Aggregate):
    """The aggregate of all rows of the key so far."""

    def __init__(self, column: str, *, into: str | None = None) -> None:
        super().__init__(column, f"{column}_{self.name}" if into is None else into)
        from evenflow.operators.totals import Totals  # numba comes with it: only those who use it pay

        self._state = Totals(NAMES.index(self.name))


class Rolling(_Aggregate):
    """The aggregate of the key's last rows, the present one included.

    `rows=n`: the last n rows in order of arrival, as Spark's `rows between n-1 preceding and current row`; rows with a
    null count among them. `seconds=s, time=column`: the rows whose time is less than s seconds behind the latest time
    the key has seen. A row that is later than that is not in the window; its result is that of the rows that are. The
    time is a timestamp, a date or a number of seconds, taken to the microsecond; null is an error.
    """

    naming = ("column", "time")

    def __init__(
        self,
        column: str,
        *,
        rows: int | None = None,
        seconds: float | None = None,
        time: str | None = None,
        into: str | None = None,
    ) -> None:
        super().__init__(column, f"{column}_{self.name}" if into is None else into)
        span = check_window(type(self).__name__, rows, seconds, time)
        self.rows, self.seconds, self.time = rows, seconds, time
        from evenflow.operators.rings import Rings

        self._state = Rings(NAMES.index(self.name), rows or 0, span)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        result = super().schema(rows)
        if self.time is not None:
            require_time(self, self.time, column_type(self, rows, self.time))
        return result

    def reads(self, rows: pa.Schema) -> Sequence[str]:
        return [*super().reads(rows), *([self.time] if self.time not in (None, self.column) else [])]

    def warm_up(self, rows: pa.Schema) -> None:
        some = sample(rows)
        rehearse(self, some if self.time is None else some.slice(1))  # a time must not be null

    def _push(self, rows: pa.RecordBatch, units: Units, keys: Keys, values: Any, valid: Any) -> tuple[Any, Any]:
        times = NO_TIMES if self.time is None else microseconds(rows.column(self.time), self.time)
        pushed: tuple[Any, Any] = self._state.push(units, keys, values, valid, times)
        return pushed


def check_window(name: str, rows: int | None, seconds: float | None, time: str | None) -> int:
    """Refuse invalid arguments of a window; returns its span in microseconds, 0 if it is given in rows."""
    if (rows is None) == (seconds is None):
        raise InvalidArgument(f"{name} got rows={rows} and seconds={seconds}: give one of the two")
    if rows is not None:
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows < 1 << 31:
            raise InvalidArgument(f"{name} got rows={rows!r}: give a whole number from 1 to 2**31 - 1")
        if time is not None:
            raise InvalidArgument(f"{name} got time={time!r} and rows={rows}: time goes with seconds=")
        return 0
    if not isinstance(seconds, (int, float)) or not 1e-6 <= seconds <= 1e12 or math.isnan(seconds):
        raise InvalidArgument(f"{name} got seconds={seconds!r}: give a number from 0.000001 to 1e12")
    if not isinstance(time, str) or not time:
        raise InvalidArgument(f"{name} got seconds={seconds} and time={time!r}: name the column that holds the time")
    return round(seconds * 1e6)


class RollingMean(Rolling):
    """Mean over the window."""

    name = "mean"


class RollingSum(Rolling):
    """Sum over the window."""

    name = "sum"


class RollingMin(Rolling):
    """Least value in the window; NaN only where all are NaN."""

    name = "min"
    same = True


class RollingMax(Rolling):
    """Greatest value in the window; NaN is greater than any other."""

    name = "max"
    same = True


class RollingStd(Rolling):
    """Sample standard deviation over the window."""

    name = "std"


class RollingCount(Rolling):
    """Number of values that are not null in the window."""

    name = "count"


class RunningMean(Running):
    """Mean so far."""

    name = "mean"


class RunningSum(Running):
    """Sum so far."""

    name = "sum"


class RunningMin(Running):
    """Least value so far; NaN only if all were NaN."""

    name = "min"
    same = True


class RunningMax(Running):
    """Greatest value so far; NaN is greater than any other."""

    name = "max"
    same = True


class RunningStd(Running):
    """Sample standard deviation so far."""

    name = "std"


class RunningCount(Running):
    """Number of values that were not null so far."""

    name = "count"
