"""Operators that add one aggregate: `Aggregates` of one column, with a name of their own.

Their stored state is found by class and arguments, so each class is one line here, and keeps its name.
"""

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
        self._open(window)


class RollingMean(Rolling, name="mean"):
    """Mean over the window."""


class RollingSum(Rolling, name="sum"):
    """Sum over the window."""


class RollingMin(Rolling, name="min"):
    """Least value in the window; NaN only where all are NaN."""


class RollingMax(Rolling, name="max"):
    """Greatest value in the window; NaN is greater than any other."""


class RollingStd(Rolling, name="std"):
    """Sample standard deviation over the window."""


class RollingCount(Rolling, name="count"):
    """Number of values that are not null in the window."""


class RunningMean(Running, name="mean"):
    """Mean so far."""


class RunningSum(Running, name="sum"):
    """Sum so far."""


class RunningMin(Running, name="min"):
    """Least value so far; NaN only if all were NaN."""


class RunningMax(Running, name="max"):
    """Greatest value so far; NaN is greater than any other."""


class RunningStd(Running, name="std"):
    """Sample standard deviation so far."""


class RunningCount(Running, name="count"):
    """Number of values that were not null so far."""
