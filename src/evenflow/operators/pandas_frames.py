"""Record batches to pandas DataFrames and back: pyspark's own conversions, as `mapInPandas` calls them.

Both ways refuse values that would change without a word: pyspark wraps intervals of more than 292 years, and rounds
whole numbers above 2**53 that stand beside nulls. Instants become local times in Arrow, and instants again: pyspark
does the one in Arrow and the other in pandas, which disagree by seconds about years before there were time zones.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from evenflow.errors import FunctionError

EXACT = 2**53
"""Every whole number up to here is a float64; above it some are not."""
NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
}
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def to_pandas(batch: pa.RecordBatch, extension_integers: bool = False, with_nulls: Sequence[int] = ()) -> pd.DataFrame:
    """The DataFrame that `mapInPandas` shows for a batch with these rows.

    Timestamps are local times of the session's zone, in nanoseconds. Whole numbers with nulls are float64 (beside
    columns of strings, decimals or nested types: Int64); with `extension_integers` they are Int64 in every batch.
    `with_nulls`: the places of columns that have nulls in other rows of their batch.
    """
    if not batch.num_columns:
        return pd.DataFrame(index=pd.RangeIndex(batch.num_rows))
    lacking = [place for place in with_nulls if not batch.column(place).null_count]
    if lacking:  # one row more, which has them
        first = batch.slice(0, 1).columns
        row = [pa.nulls(1, one.type) if place in lacking else one for place, one in enumerate(first)]
        more = pa.RecordBatch.from_arrays(row, names=batch.schema.names)
        whole = pa.concat_batches([pa.RecordBatch.from_arrays(batch.columns, names=batch.schema.names), more])
        return to_pandas(whole, extension_integers).iloc[:-1].copy()
    zone, form, batch = _zone(batch.schema), ArrowBatchTransformer, _local(batch)
    for field, column in zip(batch.schema, batch.columns, strict=True):
        _check_nanoseconds(field, column)
    if extension_integers:
        return pd.concat([_nullable(batch.select([place]), zone) for place in range(batch.num_columns)], axis=1)
    rows = form.wrap_struct(batch)
    shown: pd.DataFrame = form.to_pandas(rows, timezone=zone, schema=_spark_schema(rows.schema), df_for_struct=True)[0]
    for place, (field, column) in enumerate(zip(batch.schema, batch.columns, strict=True)):
        if pa.types.is_integer(field.type) and shown.dtypes.iloc[place].kind == "f":
            _check_exact(field, column)
    return shown


def _nullable(column: pa.RecordBatch, zone: str) -> pd.Series:
    """The one column of a batch, whole numbers in a nullable dtype; pyspark's way there is by float64, which rounds."""
    if pa.types.is_integer(column.schema.types[0]):
        return column.column(0).to_pandas(types_mapper=NULLABLE.get).rename(column.schema.names[0])
    return ArrowBatchTransformer.to_pandas(column, timezone=zone, schema=_spark_schema(column.schema))[0]


def _local(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with local times in place of instants; those inside of other columns stay."""
    columns = [pc.local_timestamp(column) if _instants(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _instants(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _check_nanoseconds(field: pa.Field, column: pa.Array) -> None:
    if not (pa.types.is_timestamp(field.type) or pa.types.is_duration(field.type)):
        return
    most = (2**63 - 1) // NANOSECONDS[field.type.unit]
    _refuse_beyond(field, column, most, "which pandas' nanoseconds cannot hold: keep to 1677 to 2262")


def _check_exact(field: pa.Field, column: pa.Array) -> None:
    setting = "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype"
    _refuse_beyond(field, column, EXACT, f"which float64, its dtype beside nulls, would round: set {setting} to true")


def _refuse_beyond(field: pa.Field, column: pa.Array, most: int, reason: str) -> None:
    """Refuse a column with a number outside of -most..most."""
    for end in pc.min_max(column.cast(pa.int64())).values():
        if end.is_valid and abs(end.as_py()) > most:
            value = end.cast(field.type)
            if pa.types.is_timestamp(field.type):  # Python's own have no year above 9999
                value = value.cast(pa.string())
            raise FunctionError(f"column '{field.name}' holds {value}, {reason}, or use input='arrow'")


@lru_cache(maxsize=64)
def _spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema)


@lru_cache(maxsize=64)
def _zone(schema: pa.Schema) -> str:
    """The session's time zone, which all instants of a schema have, however deep they lie; UTC if there are none."""
    return next(filter(None, map(_zone_of, schema.types)), "UTC")


def _zone_of(kind: pa.DataType) -> str | None:
    if pa.types.is_timestamp(kind):
        return str(kind.tz) if kind.tz else None
    inner = (kind.field(place).type for place in range(kind.num_fields))
    return next(filter(None, map(_zone_of, inner)), None)


def to_arrow(data: object, schema: pa.Schema) -> pa.RecordBatch:
    """The DataFrame as a batch; a declared column gets its declared type if pandas can convert it."""
    if not isinstance(data, pd.DataFrame):
        raise FunctionError(f"the function returned {type(data).__name__}, not a pandas.DataFrame")
    arrays, names = [], []
    for name, column in data.items():  # not by name: two columns may have one, which `conform` refuses
        if not isinstance(name, str):
            raise FunctionError(f"the function returned a column named {name!r}: column names must be strings")
        arrays.append(_array(column, schema, name))
        names.append(name)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _array(column: pd.Series, schema: pa.Schema, name: str) -> pa.Array:
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.dtype.categories.dtype)
    kind = schema.field(name).type if name in schema.names else None
    try:
        if kind is None or not _kin(column.dtype, kind):
            if kind is not None and column.isna().all():  # to pandas, a column of nulls is float
                return pa.nulls(len(column), kind)
            return _one_array(pa.Array.from_pandas(column))  # `conform` decides whether it fits
        return _as_spark(column, schema, name)
    except Exception as error:
        wanted, cause = "an Arrow array" if kind is None else kind, error.__cause__ or error
        known = "" if isinstance(cause, pa.ArrowException) else f"{type(cause).__name__}: "
        raise FunctionError(f"column '{name}' cannot be read as {wanted}: {known}{cause}") from None


def _as_spark(column: pd.Series, schema: pa.Schema, name: str) -> pa.Array:
    """The column as pyspark converts it, without the casts that follow there (text to number, number to text).

    Local times that a clock shows twice are the second ones; one that it never shows is refused.
    """
    field, kind = _spark_schema(schema)[name], schema.field(name).type
    of_objects = pa.types.is_timestamp(kind) and column.dtype == object
    if of_objects or (_instants(kind) and column.dtype.kind == "M"):
        times = _one_array(pa.Array.from_pandas(column))
        if of_objects:
            if not (pa.types.is_timestamp(times.type) or pa.types.is_null(times.type)):
                return times  # numbers, texts and days are no times, which `conform` says
            _check_times(column)
        if _instants(kind) and pa.types.is_timestamp(times.type) and times.type.tz is None:
            times = pc.assume_timezone(times, kind.tz, ambiguous="latest", nonexistent="raise")
        return times.cast(kind)
    types = StructType([field])
    return PandasToArrowConversion.convert([column], types, timezone=_zone(schema)).column(0)


def _check_times(column: pd.Series) -> None:
    """Refuse objects that Arrow would change to make a column of times of them."""
    values = [each for each in column[column.notna()] if not isinstance(each, np.datetime64)]
    other = next((each for each in values if not isinstance(each, datetime)), None)
    if other is not None:
        raise ValueError(f"{other!r} is {type(other).__name__}, and others are times")
    if len({each.tzinfo is None for each in values}) > 1:
        raise ValueError("some of its times have a zone and some have none: give all of them one, or none")
    fine = next((each for each in values if getattr(each, "nanosecond", 0)), None)
    if fine is not None:
        raise ValueError(f"{fine} has nanoseconds, which Spark does not: round it to microseconds")


def _kin(dtype: np.dtype, kind: pa.DataType) -> bool:
    """Whether pandas may turn values of `dtype` into `kind`: 3.0 into 3, but never a number into a time."""
    is_ = pa.types
    match dtype.kind:
        case "b":
            return bool(is_.is_boolean(kind))
        case "i" | "u" | "f":
            return bool(is_.is_integer(kind) or is_.is_floating(kind))
        case "M" if getattr(dtype, "tz", None) is not None:
            return bool(is_.is_timestamp(kind) and kind.tz is not None)
        case "M":
            return bool(is_.is_timestamp(kind) or is_.is_date(kind))
        case "m":
            return bool(is_.is_duration(kind))
        case _:
            return True


def _one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
