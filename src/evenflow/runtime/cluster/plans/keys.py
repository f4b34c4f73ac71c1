"""64-bit hashes of keys by Spark's xxhash64: the same on every machine, whatever the type of the key.

Every column that we add to the rows in Spark costs 4 to 20 % of an identity `mapInArrow`. So if the key is one number,
date or timestamp, no hash is added: the feeder computes it from the key's own column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    NumericType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from evenflow.errors import InvalidArgument, first_line, nearest
from evenflow.operators.row_marks import ROW
from evenflow.runtime.feeder.hashing import KEY

MOST_PARTITIONS = 1_000_000
"""More partitions than any DataFrame has."""

AS_JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options with which JSON has every digit of a value: Spark's default format stops at milliseconds."""
SHORT = (ByteType, ShortType, IntegerType, DateType)
WHOLE = (ByteType, ShortType, IntegerType, LongType)
LONG = (LongType, TimestampType, TimestampNTZType)
FRACTIONS = (FloatType, DoubleType)
NESTED = (ArrayType, MapType, StructType, VariantType)
ORDERED = (
    NumericType,
    StringType,
    BinaryType,
    BooleanType,
    DateType,
    TimestampType,
    TimestampNTZType,
    DayTimeIntervalType,
)
"""Types whose values Arrow puts in the same order as Spark does."""

KeyColumns = str | Column | Sequence[str | Column]


@dataclass(frozen=True)
class Routed:
    """The rows of a DataFrame with the columns that are added for feeders."""

    rows: DataFrame
    """The columns are called c0, c1, ...: `mapInArrow` resolves names, and fails for names with dots."""
    names: list[str]
    """The names of the columns for workers; the hash of the key is the last."""
    key_place: int | None
    """The place of the key's column if feeders compute its hash; None if Spark does."""
    range_place: int | None = None
    """With spread "range", the place of the column that is compared with the bounds."""


def routed(df: DataFrame, key: KeyColumns, hashed: Sequence[str], spread: str = "hash") -> Routed:
    """`df` with the columns that are added for feeders.

    Added are the hashes that an operator asks for; the hash of the key if Spark computes it, null where the key is
    null; and last the partition of the input, which shows that a DataFrame is used twice: in a union of a DataFrame
    with itself, or after coalesce, it is not the task's own partition.

    With spread "modulo", the key must be one whole number, and is used in place of its hash. With spread "range", what
    is compared with the bounds is a column of `df`, or is added before the partition.
    """
    columns = _columns(df, key)
    if spread == "modulo":
        _check_whole(df, key, columns)
    place = _plain(df, key)
    wanted = [F.coalesce(hash_of(df, [_column(df, name)], f"column {name!r}"), F.lit(0)) for name in hashed]
    if place is not None:
        own = []
    elif spread == "modulo":
        own = [columns[0].cast(LongType())]
    else:
        own = [hash_of(df, columns, f"key {key!r}")]
    names = [*df.columns, *(f"xxhash64({name})" for name in hashed), KEY]
    width = len(df.columns) + len(wanted) + len(own)
    range_place, compared = _compared(df, key, width) if spread == "range" else (None, [])
    try:
        rows = unfolded(df).select("*", *wanted, *own, *compared, F.spark_partition_id())
    except PySparkException as error:
        raise InvalidArgument(f"key {key!r} cannot be hashed: {first_line(error)}") from None
    return Routed(rows.toDF(*(f"c{number}" for number in range(len(rows.columns)))), names, place, range_place)


def value_places(df: DataFrame, key: KeyColumns) -> tuple[int, ...]:
    """The places of the key's columns in `df`, whose values are to be shown."""
    columns = [key] if isinstance(key, str | Column) else list(key)
    places = [_place(df, one) for one in columns]
    if None in places:
        raise InvalidArgument(
            f"keys=True shows values of key columns, and {columns[places.index(None)]!r} is no column of the "
            "DataFrame: add it with withColumn, and give its name as key"
        )
    return tuple(place for place in places if place is not None)


def marked(route: Routed, width: int) -> Routed:
    """Rows with a hash of their first `width` columns, all of the user's, before the key's: the column ROW.

    Unlike the hash of a key it tells values apart that Spark takes for equal.
    """
    places = [F.col(name) for name in route.rows.columns]
    kinds = [field.dataType for field in route.rows.schema.fields[:width]]
    mine = [(one, kind) for one, kind in zip(places, kinds, strict=False) if not isinstance(kind, NullType)]
    nested = [_exact(one, kind) for one, kind in mine if isinstance(kind, NESTED)]
    flat = [_exact(one, kind) for one, kind in mine if not isinstance(kind, NESTED)]
    flags = [one.isNull() for one, kind in mine if not isinstance(kind, NESTED)]
    flags += [(one == 0) & (one.cast("string") == "-0.0") for one, kind in mine if isinstance(kind, FRACTIONS)]
    parts = [*flat, *flags, *([F.to_json(F.struct(*nested), AS_JSON)] if nested else [])]
    before = len(route.names) - 1  # of the columns, the hash of the key follows here, if Spark has computed it
    rows = route.rows.select(*places[:before], F.xxhash64(*parts), *places[before:])
    names = [*route.names[:-1], ROW, KEY]
    beyond = None if route.range_place is None else route.range_place + (route.range_place >= before)
    return Routed(rows.toDF(*(f"c{number}" for number in range(len(rows.columns)))), names, route.key_place, beyond)


def _exact(column: Column, kind: DataType) -> Column:
    """A column in which all values look different that differ."""
    match kind:
        case StringType():
            return column.cast("binary") if _collated(kind) else column
        case ArrayType():
            return F.transform(column, lambda member: _inside(member, kind.elementType))
        case MapType():
            entry = StructType([StructField("key", kind.keyType), StructField("value", kind.valueType)])
            return _exact(F.map_entries(column), ArrayType(entry))
        case StructType():
            fields = [_inside(column.getField(field.name), field.dataType).alias(field.name) for field in kind.fields]
            return F.when(column.isNotNull(), F.struct(*fields)) if fields else column
    return column


def _inside(column: Column, kind: DataType) -> Column:
    """The same for a part of an array, a map or a struct, which becomes JSON: not all strings are UTF-8."""
    return column.cast("binary") if isinstance(kind, StringType) else _exact(column, kind)


def named_by_key(df: DataFrame, key: KeyColumns) -> int | None:
    """The place of the column whose value follows from the hash of the key; None if there is none."""
    place = _place(df, key)
    kind = df.schema[place].dataType if place is not None else None
    follows = isinstance(kind, SHORT + LONG + (BinaryType,)) or (isinstance(kind, StringType) and not _collated(kind))
    return place if follows else None


def range_key(df: DataFrame, key: KeyColumns, plain: bool = False) -> Column:
    """The value that is compared with the bounds of ranges: the key or, unless `plain`, its collation's bytes."""
    columns = _columns(df, key)
    kinds = [df.select(column).schema[0].dataType for column in columns]
    if len(kinds) != 1 or not isinstance(kinds[0], ORDERED):
        what = " and ".join(kind.simpleString() for kind in kinds)
        raise InvalidArgument(
            f'spread="range" needs a key that is one column of numbers, strings, binaries, booleans, dates, timestamps '
            f'or intervals of days, and {key!r} is {what}: make one column of it, or leave it at spread="hash"'
        )
    return _collation_key(columns[0]) if _collated(kinds[0]) and not plain else columns[0]


def _compared(df: DataFrame, key: KeyColumns, width: int) -> tuple[int, list[Column]]:
    """The place of the column that is compared with bounds and, if it is not one of `df`, the column to be added."""
    added, place = range_key(df, key), _place(df, key)
    if place is not None and not _collated(df.schema[place].dataType):
        return place, []
    return width, [added]


def unfolded(df: DataFrame) -> DataFrame:
    """`df`, changed so that Spark does not compute its columns on the driver, where every partition is number 0.

    Spark does so for rows that were given to createDataFrame. A coalesce to more partitions than there are prevents it.
    """
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    given = all(leaves.apply(place).nodeName() == "LocalRelation" for place in range(leaves.size()))
    return df.coalesce(MOST_PARTITIONS) if given else df


def hash_of(df: DataFrame, columns: list[Column], what: str) -> Column:
    """xxhash64 of the columns, null if all are null; two keys have the same hash with probability 2 ** -64.

    xxhash64 skips nulls and does not separate values. So flags for nulls are hashed too, which tell (null, a) from
    (a, null), and arrays and structs are hashed as JSON. Values that are equal in Spark have the same hash: -0.0 and
    0.0 (all NaN have one hash already), and strings that are equal by their collation.
    """
    nulls = [column.isNull() for column in columns]
    kinds = [df.select(column).schema[0].dataType for column in columns]
    if any(_holds(kind, MapType) for kind in kinds):
        raise InvalidArgument(f"{what} cannot be hashed: maps have no order, so equal ones may look different")
    if any(_holds(kind, VariantType) for kind in kinds):
        raise InvalidArgument(
            f"{what} cannot be hashed: Spark does not compare variants; cast it, or take a part of it"
        )
    if any(_holds(kind, (ArrayType, StructType)) for kind in kinds):
        columns = [F.to_json(F.struct(*map(_alike, columns, kinds)), AS_JSON)]
    else:
        columns = [_collation_key(one) if _collated(kind) else one for one, kind in zip(columns, kinds, strict=True)]
        columns += nulls if len(columns) > 1 else []
    return F.when(~reduce(Column.__and__, nulls), F.xxhash64(*columns))


def _alike(column: Column, kind: DataType) -> Column:
    """A column whose JSON is the same for equal values, and different for different ones."""
    match kind:
        case StringType():  # as bytes: strings that are not UTF-8 would all look the same
            return _collation_key(column) if _collated(kind) else column.cast("binary")
        case DoubleType() | FloatType():
            return F.when(column == 0, F.lit(0).cast(kind)).otherwise(column)
        case ArrayType():
            return F.transform(column, lambda member: _alike(member, kind.elementType))
        case StructType():
            fields = [_alike(column.getField(field.name), field.dataType).alias(field.name) for field in kind.fields]
            return F.when(column.isNotNull(), F.struct(*fields)) if fields else column
    return column


def key_types(df: DataFrame, key: KeyColumns) -> str:
    """The types of a key, by which its hashes, and so its places in stored state, are found."""
    return ", ".join(df.select(column).schema[0].dataType.simpleString() for column in _columns(df, key))


def _collated(kind: DataType) -> bool:
    """Whether strings of this type may be equal although their bytes differ."""
    return isinstance(kind, StringType) and not kind.isUTF8BinaryCollation()


def _collation_key(column: Column) -> Column:
    """The bytes by which Spark itself compares strings with a collation; it has no public function for them."""
    java: Any = SparkContext._jvm
    sql = java.org.apache.spark.sql
    expressions = sql.classic.ExpressionUtils
    return Column(expressions.column(sql.catalyst.expressions.CollationKey(expressions.expression(column._jc))))


def _plain(df: DataFrame, key: KeyColumns) -> int | None:
    """The place of the key's column if feeders can hash it: one column, of a type that `hashes` takes; else None."""
    place = _place(df, key)
    return place if place is not None and isinstance(df.schema[place].dataType, SHORT + LONG) else None


def _place(df: DataFrame, key: KeyColumns) -> int | None:
    """The place of the key if it is a column of `df`, named once."""
    only = key if isinstance(key, str | Column) or len(key) != 1 else key[0]
    return df.columns.index(only) if isinstance(only, str) and df.columns.count(only) == 1 else None


def _check_whole(df: DataFrame, key: KeyColumns, columns: list[Column]) -> None:
    """Refuse a key that is not one whole number."""
    kinds = [df.select(column).schema[0].dataType for column in columns]
    if len(kinds) != 1 or not isinstance(kinds[0], WHOLE):
        what = " and ".join(kind.simpleString() for kind in kinds)
        raise InvalidArgument(
            f'spread="modulo" needs a key that is one whole number, and {key!r} is {what}: give a column of type '
            'tinyint, smallint, int or bigint, or leave it at spread="hash"'
        )


def _holds(kind: DataType, what: Any) -> bool:
    """Whether a type is, or contains, one of these types."""
    if isinstance(kind, what):
        return True
    if isinstance(kind, ArrayType):
        return _holds(kind.elementType, what)
    return isinstance(kind, StructType) and any(_holds(field.dataType, what) for field in kind.fields)


def _columns(df: DataFrame, key: KeyColumns) -> list[Column]:
    if isinstance(key, str | Column):
        return [_column(df, key)]
    if not isinstance(key, Sequence):
        raise InvalidArgument(f"key {key!r} is neither a column's name nor a Column, nor a list of them")
    if not key:
        raise InvalidArgument("key is empty: name at least one column")
    return [_column(df, one) for one in key]


def _column(df: DataFrame, one: str | Column) -> Column:
    if isinstance(one, str) and one in df.columns:
        return F.col("`" + one.replace("`", "``") + "`")
    if not isinstance(one, str | Column):
        raise InvalidArgument(f"key {one!r} is neither a column's name nor a Column")
    column = F.col(one) if isinstance(one, str) else one
    try:
        df.select(column)
    except PySparkException:
        raise InvalidArgument(f"there is no column {one!r}; {nearest(str(one), df.columns)}") from None
    return column
