"""What `Aggregates` adds to rows: functions with the names that they have in `pyspark.sql.functions`.

Here, `sum`, `min` and `max` are these functions, not Python's.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class AggregateColumn:
    """An aggregate of a column, such as `ef.functions.max("price")`."""

    how: str
    """Its name in `AggregateSet`."""
    column: str | None
    """None for `count()`."""

    def __post_init__(self) -> None:
        none = self.column is None and self.how == "count"
        if not none and (not isinstance(self.column, str) or not self.column):
            raise InvalidArgument(f"an aggregate is of {self.column!r}: give the name of a column")

    def __str__(self) -> str:
        return called(self.how, self.column)


def called(how: str, column: str | None) -> str:
    """What a user calls an aggregate."""
    name = {"std": "stddev", "var": "variance", "distinct": "count_distinct"}.get(how, how.removesuffix("_known"))
    more = ", ignorenulls=True" if how.endswith("_known") else ""
    return f"{name}({'' if column is None else repr(column)}{more})"


def count(column: str | None = None) -> AggregateColumn:
    """The number of rows (without a column, or of "*"), or of values that are not null."""
    return AggregateColumn("count", None if isinstance(column, str) and column == "*" else column)


def count_distinct(column: str) -> AggregateColumn:
    """The number of different values that are not null, of any type that can be a key."""
    return AggregateColumn("distinct", column)


def sum(column: str) -> AggregateColumn:
    """The sum of numbers."""
    return AggregateColumn("sum", column)


def mean(column: str) -> AggregateColumn:
    """The mean of numbers."""
    return AggregateColumn("mean", column)


avg = mean
"""Another name of `mean`, as in `pyspark.sql.functions`."""


def min(column: str) -> AggregateColumn:
    """The least value: of numbers, decimals, dates, times, booleans, strings or binary values."""
    return AggregateColumn("min", column)


def max(column: str) -> AggregateColumn:
    """The greatest value, of the types that `min` takes; NaN is greater than any other number."""
    return AggregateColumn("max", column)


def stddev(column: str) -> AggregateColumn:
    """The sample standard deviation; null for one value."""
    return AggregateColumn("std", column)


def variance(column: str) -> AggregateColumn:
    """The sample variance; null for one value."""
    return AggregateColumn("var", column)


def first(column: str, ignorenulls: bool = False) -> AggregateColumn:
    """The first value, of any type: that of the first row, or with `ignorenulls` the first that is not null."""
    return AggregateColumn("first_known" if _flag(ignorenulls) else "first", column)


def last(column: str, ignorenulls: bool = False) -> AggregateColumn:
    """The last value, of any type: that of the last row, or with `ignorenulls` the last that is not null."""
    return AggregateColumn("last_known" if _flag(ignorenulls) else "last", column)


def _flag(ignorenulls: bool) -> bool:
    if not isinstance(ignorenulls, bool):
        raise InvalidArgument(f"ignorenulls={ignorenulls!r}: give True or False")
    return ignorenulls
