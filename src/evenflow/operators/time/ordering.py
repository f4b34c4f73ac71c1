"""The order of rows: by some columns as in Spark's ORDER BY, then by all other columns.

Nulls come first, NaN last, -0.0 equals 0.0. Rows of one key that are equal in these columns are ordered by the bytes of
their other columns, so that the order does not depend on how the rows came. Rows equal in all columns are identical.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import InvalidArgument
from evenflow.operators.keyed import Keys, Units

Places = npt.NDArray[np.int64]
Sortable = npt.NDArray[np.integer]
"""One number per row; rows are sorted by these numbers."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_WHOLE = {2: np.int16, 4: np.int32, 8: np.int64}


def require_sortable(name: str, kind: pa.DataType) -> None:
    """Refuse a column that rows cannot be ordered by."""
    if pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_dictionary(kind):
        raise InvalidArgument(
            f"order_by: column '{name}' is {kind}: name columns of numbers, strings, dates or timestamps"
        )


def arranged(rows: pa.RecordBatch, units: Units, keys: Keys, order: Sequence[int]) -> Places:
    """The positions of the rows in sorted order, unit by unit; `order` are the positions of the columns to sort by."""
    levels = [level for place in order for level in _levels(rows.column(place))]
    found = _by_levels(units, levels)
    same = _same_as_next([units, *levels], found)
    if same.any() and _repeats(keys, levels, found, same):
        _break_ties(rows, units, keys, levels, order, found, same)
    return found


def _by_levels(units: Units, levels: Sequence[Sortable]) -> Places:
    """The order by unit, then by the levels. A single level is sorted first, then by unit in linear time."""
    if len(levels) != 1:
        return np.lexsort((*reversed(levels), units))
    found = np.argsort(levels[0])
    return found[np.argsort(_narrow(units)[found], kind="stable")]


def _narrow(units: Units) -> Sortable:
    """The units in 16 bits if they fit: numpy sorts these in linear time."""
    return units.astype(np.uint16) if len(units) and int(units.max()) < 1 << 16 else units


def _same_as_next(levels: Sequence[Sortable], found: Places) -> npt.NDArray[np.bool_]:
    """Which rows, in the order `found`, are equal to the next one in all levels."""
    same = np.ones(max(0, len(found) - 1), np.bool_)
    for level in levels:
        if not same.any():
            break
        ranked = level[found]
        same &= ranked[1:] == ranked[:-1]
    return same


def _repeats(keys: Keys, levels: Sequence[Sortable], found: Places, same: npt.NDArray[np.bool_]) -> bool:
    """Whether rows of one key may be equal in all levels, by hash. Ties are most often between different keys."""
    tied = found[_in_groups(same)]
    mixed = keys[tied].view(np.uint64).copy()
    for level in levels:
        mixed = (mixed ^ level[tied].astype(np.int64).view(np.uint64)) * _MIX
        mixed ^= mixed >> np.uint64(29)
    mixed.sort()
    return bool((mixed[1:] == mixed[:-1]).any())


def _break_ties(
    rows: pa.RecordBatch,
    units: Units,
    keys: Keys,
    levels: Sequence[Sortable],
    order: Sequence[int],
    found: Places,
    same: npt.NDArray[np.bool_],
) -> None:
    """Sort rows that are equal so far by key, and equal rows of one key by their content. Changes `found`."""
    tied = np.flatnonzero(_in_groups(same))
    group = np.concatenate([[0], np.cumsum(~same)])[tied]
    by_key = np.lexsort((keys[found[tied]], group))
    found[tied] = found[tied][by_key]
    same = _same_as_next([units, *levels, keys], found)
    tied = np.flatnonzero(_in_groups(same))
    group = np.concatenate([[0], np.cumsum(~same)])[tied]
    some = rows.take(pa.array(found[tied]))
    others = [column for place, column in enumerate(some.columns) if place not in order]
    mine = [some.column(place) for place in order]  # -0.0 and 0.0 are equal in Spark, but differ in a result
    content = [level for column in [*others, *mine] for level in _content(column)]
    found[tied] = found[tied][np.lexsort((*reversed(content), group))]


def _in_groups(same: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which rows are equal to the one before or after."""
    member = np.zeros(len(same) + 1, np.bool_)
    member[:-1] |= same
    member[1:] |= same
    return member


def _levels(column: pa.Array) -> list[Sortable]:
    """A column as numbers in Spark's order; if it has nulls, first a level that tells which rows are not null."""
    values = _ordered(column)
    if not column.null_count:
        return [values]
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return [valid.astype(np.int8), np.where(valid, values, 0)]


def _ordered(column: pa.Array) -> Sortable:
    """Numbers in the order of the values, arbitrary where they are null; 0.0 equals -0.0, NaN is last."""
    kind = column.type
    if pa.types.is_floating(kind):
        floats = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False) + 0.0  # turns -0.0 into 0.0
        floats[np.isnan(floats)] = np.nan
        return _bits(floats)
    if _is_number(kind):
        return _plain(column)
    return _ranks(column)


def _content(column: pa.Array) -> list[Sortable]:
    """A column as numbers that differ where the values differ in any bit."""
    kind = column.type
    if pa.types.is_null(kind):
        return []
    if pa.types.is_floating(kind):
        values = _bits(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False))
    elif _is_number(kind):
        values = _plain(column)
    elif pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_interval(kind):
        values = _ranks(pa.array([repr(value) for value in column.to_pylist()]))
    else:
        values = _ranks(column)
    return [column.is_valid().to_numpy(zero_copy_only=False), values] if column.null_count else [values]


def comparable(column: pa.Array) -> npt.NDArray[np.int64]:
    """Whole numbers in the order of the values of a column of numbers or times, which has no nulls."""
    return _ordered(column).astype(np.int64)


def _is_number(kind: pa.DataType) -> bool:
    """Whether Arrow stores values of this type as whole numbers."""
    is_ = pa.types
    return bool(is_.is_integer(kind) or is_.is_boolean(kind) or is_.is_temporal(kind)) and not is_.is_interval(kind)


def _plain(column: pa.Array) -> Sortable:
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not pa.types.is_integer(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    values: Sortable = (column.fill_null(0) if column.null_count else column).to_numpy()
    return values


def _bits(floats: npt.NDArray[np.floating]) -> Sortable:
    """Floats as whole numbers in the same order."""
    whole: Sortable = floats.view(_WHOLE[floats.dtype.itemsize])
    flipped: Sortable = whole ^ ((whole >> (8 * floats.dtype.itemsize - 1)) & np.iinfo(whole.dtype).max)
    return flipped


def _ranks(column: pa.Array) -> Sortable:
    """The rank of each value; equal values have equal ranks."""
    ranks: Sortable = pc.rank(column, "ascending", tiebreaker="dense").to_numpy().view(np.int64)
    return ranks
