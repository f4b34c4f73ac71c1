"""Marks of rows: a 64-bit number that stands for the content of a row, so that the same row is known again.

A keyed operator that only adds columns gets the columns that it reads; the others stay with the feeder. Rows that are
equal in what is sent may differ in what stays, so where that can be, Spark adds a hash of all columns of the row
(ROW), which is sent and logged. Two different rows have the same mark with a probability of 2 ** -64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ROW = "__evenflow_row"
"""The column before the key's hash that has the hash of the whole row; most often there is none."""

Marks = npt.NDArray[np.int64]
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FOLD = np.uint64(0xD6E8FEB86659FD93)


def is_plain(kind: pa.DataType) -> bool:
    """Whether `marks_of` takes a column of this type: numbers, dates and times."""
    fixed = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return bool(fixed or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)))


def marks_of(batch: pa.RecordBatch) -> Marks:
    """A mark for each row as it is sent and logged; its last column is the hash of the key."""
    columns = _flat(batch.columns[-2:] if has_row(batch) else batch.columns)
    mixed = np.full(batch.num_rows, _MIX, np.uint64)
    for column in columns:
        mixed = _folded((mixed ^ _bits(column)) * _MIX)
        if column.null_count:
            nulls = column.is_null().to_numpy(zero_copy_only=False)
            mixed = np.where(nulls, _folded(mixed + _FOLD), mixed)
    return mixed.view(np.int64)


def has_marks(batch: pa.RecordBatch) -> bool:
    """Whether `marks_of` takes rows as they are: with the hash of the whole row, or with plain columns only."""
    return has_row(batch) or all(is_plain(column.type) for column in _flat(batch.columns))


def has_row(batch: pa.RecordBatch) -> bool:
    """Whether rows come with the hash of the whole row."""
    return batch.num_columns > 1 and bool(batch.schema.names[-2] == ROW)


def _flat(columns: list[pa.Array]) -> list[pa.Array]:
    """The columns, with the parts of a struct (the hash of a key, and its unit) in its place."""
    return [part for column in columns for part in (column.flatten() if pa.types.is_struct(column.type) else [column])]


def _folded(mixed: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _FOLD
    return mixed ^ (mixed >> np.uint64(29))


def _bits(column: pa.Array) -> npt.NDArray[np.uint64]:
    """The bits of each value; 0 where it is null."""
    kind = column.type
    if pa.types.is_floating(kind):
        values = column.fill_null(0.0).to_numpy(zero_copy_only=False)
        return values.view(f"u{values.dtype.itemsize}").astype(np.uint64)  # type: ignore[no-any-return]
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not pa.types.is_integer(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    values = (column.fill_null(0) if column.null_count else column).to_numpy()
    return values.astype(np.int64).view(np.uint64)  # type: ignore[no-any-return]
