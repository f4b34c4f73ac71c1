"""Keys to hashes, computed by Spark: the same on every machine, whatever the type of the key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.errors import InvalidArgument

KEY = "__evenflow_key"
MOST_UNITS = 1_000_000

Key = str | Column | Sequence[str | Column]


def routed(df: DataFrame, key: Key, hashed: Sequence[str]) -> DataFrame:
    """`df` with the hashes an operator wants, and last the 64-bit hash of each row's key, null where the key is.

    From that the unit follows: pmod(xxhash64(key), units), and `units` itself where the key is null. Feeders and
    workers take the remainder themselves: another column through Spark would cost more than all they do with it.
    xxhash64 of one number, date or timestamp is one to one; of strings and several columns, two keys in 2 ** 64 are
    taken for one.
    """
    columns = _columns(df, key)
    nulls = [column.isNull() for column in columns]
    flags = nulls if len(columns) > 1 else []  # so that (null, a) and (a, null) are two keys
    hashed_key = F.when(~reduce(Column.__and__, nulls), F.xxhash64(*columns, *flags))
    wanted = [F.xxhash64(_column(df, name)).alias(f"xxhash64({name})") for name in hashed]
    try:
        return df.select("*", *wanted, hashed_key.alias(KEY))
    except PySparkException as error:
        raise InvalidArgument(f"key {key!r} cannot be hashed: {_first_line(error)}") from None


def _columns(df: DataFrame, key: Key) -> list[Column]:
    given = [key] if isinstance(key, str | Column) else list(key)
    if not given:
        raise InvalidArgument("key is empty: name at least one column")
    return [_column(df, one) for one in given]


def _column(df: DataFrame, one: str | Column) -> Column:
    if isinstance(one, str) and one in df.columns:
        return F.col(f"`{one}`")
    if not isinstance(one, str | Column):
        raise InvalidArgument(f"key {one!r} is neither a column's name nor a Column")
    column = F.col(one) if isinstance(one, str) else one
    try:
        df.select(column)
    except PySparkException:
        raise InvalidArgument(f"there is no column {one!r}: the columns are {', '.join(df.columns)}") from None
    return column


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
