"""Record batches to pandas DataFrames and back, much as `mapInPandas` does it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from evenflow.errors import FunctionError

NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
}


def to_pandas(batch: pa.RecordBatch) -> pd.DataFrame:
    """A DataFrame with one column per column, of dtypes that hold every value exactly.

    Timestamps become local times of the session's zone; those inside lists, maps and structs keep their zone. Whole
    numbers with nulls among them become pandas' nullable integers (as floats, large ones would change).
    """
    columns = {field.name: _series(batch.column(place), field.type) for place, field in enumerate(batch.schema)}
    return pd.DataFrame(columns, index=pd.RangeIndex(batch.num_rows))


def _series(column: pa.Array, kind: pa.DataType) -> pd.Series:
    whole = pa.types.is_integer(kind) and column.null_count
    series: pd.Series = column.to_pandas(types_mapper=NULLABLE.get if whole else None, maps_as_pydicts="strict")
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        series = series.dt.tz_convert(kind.tz).dt.tz_localize(None)
    return series


def to_arrow(data: Any, schema: pa.Schema) -> pa.RecordBatch:
    """The DataFrame as a batch; a declared column gets its declared type if pandas can convert it."""
    if not isinstance(data, pd.DataFrame):
        raise FunctionError(f"the function returned {type(data).__name__}, not a pandas.DataFrame")
    arrays, names = [], []
    for name, column in data.items():  # not by name: two columns may have one, which `conform` refuses
        if not isinstance(name, str):
            raise FunctionError(f"the function returned a column named {name!r}: column names must be strings")
        arrays.append(_array(column, schema.field(name).type if name in schema.names else None, name))
        names.append(name)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _array(column: pd.Series, kind: pa.DataType | None, name: str) -> pa.Array:
    try:
        if kind is not None and not _kin(column.dtype, kind):
            if column.isna().all():  # to pandas, a column of nulls is float
                return pa.nulls(len(column), kind)
            kind = None  # unchanged: `conform` decides whether it fits
        if kind is not None and pa.types.is_timestamp(kind) and kind.tz is not None:
            column = _in_zone(column, kind.tz)
        if isinstance(column.dtype, pd.CategoricalDtype):
            kind = None
        return _one_array(pa.Array.from_pandas(column, type=kind))
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise FunctionError(f"column '{name}' cannot be read as {kind or 'an Arrow array'}: {error}") from None


def _kin(dtype: Any, kind: pa.DataType) -> bool:
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


def _in_zone(column: pd.Series, zone: str) -> pd.Series:
    column = pd.to_datetime(column)
    return column if column.dt.tz else column.dt.tz_localize(zone, ambiguous=False, nonexistent="shift_forward")


def _one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
