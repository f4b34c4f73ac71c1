"""Record batches to pandas and back, with timestamps the way `mapInPandas` shows them: naive, in the session's zone."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from evenflow.errors import FunctionError


def to_pandas(batch: pa.RecordBatch) -> pd.DataFrame:
    """A DataFrame with one column per column; timestamps lose their zone, their clock reads the session's time."""
    data: pd.DataFrame = batch.to_pandas(date_as_object=True)
    for field in batch.schema:
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            data[field.name] = data[field.name].dt.tz_convert(field.type.tz).dt.tz_localize(None)
    return data


def to_arrow(data: Any, schema: pa.Schema) -> pa.RecordBatch:
    """The DataFrame as a batch; columns that are declared take the declared type where pandas can give it."""
    if not isinstance(data, pd.DataFrame):
        raise FunctionError(f"the function returned {type(data).__name__}, not a pandas.DataFrame")
    arrays, names = [], []
    for name in data.columns:
        if not isinstance(name, str):
            raise FunctionError(f"the function returned a column named {name!r}: column names must be strings")
        arrays.append(_array(data[name], schema.field(name).type if name in schema.names else None, name))
        names.append(name)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _array(column: pd.Series, kind: pa.DataType | None, name: str) -> pa.Array:
    if kind is not None and pa.types.is_timestamp(kind) and kind.tz is not None:
        column = pd.to_datetime(column)
        if column.dt.tz is None:
            column = column.dt.tz_localize(kind.tz, ambiguous=False, nonexistent="shift_forward")
    if isinstance(column.dtype, pd.CategoricalDtype):
        return pa.Array.from_pandas(column)
    try:
        return pa.Array.from_pandas(column, type=kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise FunctionError(f"column '{name}' cannot be read as {kind or 'an Arrow array'}: {error}") from None
