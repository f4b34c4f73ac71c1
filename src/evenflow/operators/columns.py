"""Arrow columns as the flat arrays that compiled code reads, and back."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import FunctionError, InvalidArgument

Array: TypeAlias = npt.NDArray[Any]
"""Values of a column, whose type decides that of the array: numpy has no type that stands for several."""
Bools: TypeAlias = npt.NDArray[np.bool_]
Element = TypeVar("Element", bound=np.generic)

MICROSECONDS = pa.timestamp("us")
EVER = np.iinfo(np.int64).min
"""A time before all times."""
MOST_SECONDS = (2**63 - 1) // 1_000_000
"""The largest number of seconds since 1970 (or before it) whose microseconds fit in 64 bits."""


def numbers(column: pa.Array) -> npt.NDArray[np.float64]:
    """A numeric column as float64; nulls become arbitrary values. Whole numbers beyond 2**53 are rounded."""
    values = column if pa.types.is_float64(column.type) else pc.cast(column, pa.float64(), safe=False)
    return locked(values.to_numpy(zero_copy_only=False))


def validity(column: pa.Array) -> Bools:
    """Which rows are not null; an empty array if no row is null."""
    if not column.null_count:
        return locked(np.empty(0, np.bool_))
    return locked(column.is_valid().to_numpy(zero_copy_only=False))


def microseconds(column: pa.Array, name: str) -> npt.NDArray[np.int64]:
    """A time column as microseconds since 1970; plain numbers are taken as seconds."""
    if column.null_count:
        raise FunctionError(f"column '{name}' is the time and is null in {column.null_count} rows: filter them out")
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        ticks = pc.cast(column, MICROSECONDS, safe=False)
    else:
        whole = pa.types.is_integer(column.type)
        seconds = column if whole else pc.cast(column, pa.float64())
        _require_seconds(seconds, name)
        if whole:
            ticks = pc.multiply(pc.cast(seconds, pa.int64()), 1_000_000)
        else:
            ticks = pc.cast(pc.round(pc.multiply(seconds, 1e6)), pa.int64())
    return locked(ticks.cast(pa.int64()).to_numpy())


def _require_seconds(column: pa.Array, name: str) -> None:
    """Refuse NaN, and seconds whose microseconds do not fit in 64 bits."""
    values = column.to_numpy()
    wrong = values[~(np.abs(values.astype(np.float64)) <= MOST_SECONDS)]
    if not len(wrong):
        return
    rows = f"in {len(wrong)} row{'s' if len(wrong) > 1 else ''}"
    if np.isnan(wrong).any():
        raise FunctionError(f"column '{name}' is the time and is nan {rows}: give seconds, or filter them out")
    raise FunctionError(
        f"column '{name}' is the time and is {wrong[0]} {rows}: numbers are seconds, at most {MOST_SECONDS:,} of them; "
        "divide what is in smaller units, or give a timestamp"
    )


def is_time(kind: pa.DataType) -> bool:
    """Whether a column may be a time: a timestamp, a date or a number of seconds."""
    is_ = pa.types
    return bool(is_.is_timestamp(kind) or is_.is_date(kind) or is_.is_integer(kind) or is_.is_floating(kind))


def require_time(operator: object, name: str, kind: pa.DataType) -> None:
    """Refuse a column that is not a time."""
    if not is_time(kind):
        raise InvalidArgument(
            f"{operator} needs a time, column '{name}' is {kind}: give a timestamp, a date or a number of seconds"
        )


def is_string(kind: pa.DataType) -> bool:
    """Whether values of a type are strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are strings, or bytes, which are compared as strings are."""
    is_ = pa.types
    return is_string(kind) or is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_binary_view(kind)


def nullable(values: Array, known: Bools) -> pa.Array:
    """An Arrow array over `values`, which are not copied; null where `known` is False."""
    bits = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [bits, pa.py_buffer(values)])


def locked(array: npt.NDArray[Element]) -> npt.NDArray[Element]:
    """`array`, read-only and contiguous: the only kind of array that code is compiled for."""
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


NO_TIMES = locked(np.empty(0, np.int64))
"""The times of rows that have none."""
