"""Arrow columns as the flat arrays that compiled code reads, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import FunctionError, InvalidArgument

MICROSECONDS = pa.timestamp("us")


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """A numeric column as float64; anything where it is null. Whole numbers beyond 2**53 are rounded."""
    values = column if pa.types.is_float64(column.type) else pc.cast(column, pa.float64(), safe=False)
    return locked(values.to_numpy(zero_copy_only=False))


def validity(column: pa.Array) -> npt.NDArray[Any]:
    """Which rows are not null; an empty array where all are not."""
    if not column.null_count:
        return locked(np.empty(0, np.bool_))
    return locked(column.is_valid().to_numpy(zero_copy_only=False))


def microseconds(column: pa.Array, name: str) -> npt.NDArray[Any]:
    """A time column as microseconds; plain numbers are seconds."""
    if column.null_count:
        raise FunctionError(f"column '{name}' is the time and is null in {column.null_count} rows: filter them out")
    try:
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            ticks = pc.cast(column, MICROSECONDS, safe=False)
        elif pa.types.is_integer(column.type):
            ticks = pc.multiply_checked(pc.cast(column, pa.int64()), 1_000_000)
        else:
            ticks = pc.cast(pc.round(pc.multiply(pc.cast(column, pa.float64()), 1e6)), pa.int64())
    except pa.ArrowInvalid as error:
        raise FunctionError(f"column '{name}' is no time in seconds: {error}") from None
    return locked(ticks.cast(pa.int64()).to_numpy())


def require_time(operator: object, name: str, kind: pa.DataType) -> None:
    """Refuse a column that is not a time."""
    is_ = pa.types
    if not (is_.is_timestamp(kind) or is_.is_date(kind) or is_.is_integer(kind) or is_.is_floating(kind)):
        raise InvalidArgument(
            f"{operator} needs a time, column '{name}' is {kind}: give a timestamp, a date or a number of seconds"
        )


def nullable(values: npt.NDArray[Any], known: npt.NDArray[np.bool_]) -> pa.Array:
    """An Arrow array over `values`, not copied, null where not `known`."""
    bits = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [bits, pa.py_buffer(values)])


def locked(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`array`, read-only and contiguous, the one flavour that compiled code is compiled for."""
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array
