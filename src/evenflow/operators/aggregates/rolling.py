"""Operators that aggregate a column over the last rows, the last seconds or all rows of each key."""

from __future__ import annotations

from evenflow.operators.aggregates.aggregating import Aggregating, check_window


class Running(Aggregating):
    """The aggregate of all rows of the key so far."""

    def __init__(self, column: str, *, into: str | None = None) -> None:
        super().__init__(column, f"{column}_{self.name}" if into is None else into)
        self._open()


class Rolling(Aggregating):
    """The aggregate of the key's last rows, the present one included.

    `rows=n`: the last n rows in order of arrival, as Spark's `rows between n-1 preceding and current row`; rows with a
    null count among them. `seconds=s, time=column`: the rows whose time is less than s seconds behind the latest time
    the key has seen. A row that is later than that is not in the window; its result is that of the rows that are. The
    time is a timestamp, a date or a number of seconds, taken to the microsecond; null is an error.
    """

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
        window = check_window(type(self).__name__, rows, seconds, time)
        self.rows, self.seconds, self.time = window.rows, window.seconds, time
        self._open(window.rows or 0, window.span)


class RollingMean(Rolling):
    """Mean over the window."""

    name = "mean"


class RollingSum(Rolling):
    """Sum over the window."""

    name = "sum"


class RollingMin(Rolling):
    """Least value in the window; NaN only where all are NaN."""

    name = "min"


class RollingMax(Rolling):
    """Greatest value in the window; NaN is greater than any other."""

    name = "max"


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


class RunningMax(Running):
    """Greatest value so far; NaN is greater than any other."""

    name = "max"


class RunningStd(Running):
    """Sample standard deviation so far."""

    name = "std"


class RunningCount(Running):
    """Number of values that were not null so far."""

    name = "count"
