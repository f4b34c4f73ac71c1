"""64-bit hashes of key columns: Spark's xxhash64, with flags for nulls if there are several columns.

Equal values have equal hashes: -0.0 and 0.0, and all NaN. Two different keys have the same hash with probability
2 ** -64. Hashes are the same in every process and at all times, since stored state is found by them. For two columns to
have the same hashes for the same values, they must be of the same type. Decimals with more than 18 digits go by their
16 bytes, which is not what Spark does. Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.model.xxhash import P1, P2, P3, P4, P5, SEED
from evenflow.operators.columns import locked, validity
from evenflow.operators.compiled import Element, compiled
from evenflow.operators.declared import collation_of

SMALL_DECIMAL = 18
"""Digits of the largest decimals that fit in 64 bits."""

Float = TypeVar("Float", np.float32, np.float64)
Hashes = npt.NDArray[np.uint64]


def hashes_of(columns: Sequence[pa.Array]) -> pa.Array:
    """A hash for each row, as int64; null where all columns are null."""
    rows = len(columns[0])
    found = np.full(rows, SEED, np.uint64)
    for column in columns:
        _hash_column(column, found)
    missing = None
    for column in columns:
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        if len(columns) > 1:
            _hash_ints(locked(nulls.astype(np.int32)), _ALL, found)
        missing = nulls if missing is None else missing & nulls
    assert missing is not None  # there is a column
    return pa.array(found.view(np.int64), mask=missing if missing.any() else None)


def check_hashable(column: pa.Field, what: str) -> None:
    """Refuse a column that cannot be a key, which `what` names in the message: by its type, or by its collation."""
    kind, collation = column.type, collation_of(column)
    if collation:
        raise InvalidArgument(
            f"{what} has collation {collation}, and keys are compared byte by byte: give a column of collation "
            "UTF8_BINARY, such as one made with lower()"
        )
    if not _hashable(kind):
        raise InvalidArgument(
            f"{what} is {kind}, which cannot be hashed: give numbers, dates, times, booleans, strings or binary values"
        )


def _hashable(kind: pa.DataType) -> bool:
    is_ = pa.types
    if is_.is_dictionary(kind):
        return _hashable(kind.value_type)
    if is_.is_decimal(kind):
        return bool(kind.bit_width <= 128)
    tests = (is_.is_integer, is_.is_floating, is_.is_boolean, is_.is_temporal, is_.is_null, _textual)
    return any(test(kind) for test in tests) and not is_.is_interval(kind)


def _textual(kind: pa.DataType) -> bool:
    is_ = pa.types
    tests = (is_.is_string, is_.is_large_string, is_.is_string_view, is_.is_binary, is_.is_large_binary)
    return is_.is_binary_view(kind) or is_.is_fixed_size_binary(kind) or any(test(kind) for test in tests)


def _hash_column(column: pa.Array, found: Hashes) -> None:
    """Hash the values of a column with the hashes so far as seeds; nulls leave them as they are."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind, valid, is_ = column.type, validity(column), pa.types
    if is_.is_null(kind):
        return
    if _textual(kind):
        _hash_texts(*_texts(column), valid, found)
    elif is_.is_decimal(kind):
        _hash_decimals(column, valid, found)
    elif is_.is_float64(kind):
        _hash_longs(locked(_plain_floats(column, np.float64).view(np.int64)), valid, found)
    elif is_.is_floating(kind):
        _hash_ints(locked(_plain_floats(column.cast(pa.float32()), np.float32).view(np.int32)), valid, found)
    elif is_.is_boolean(kind) or is_.is_uint16(kind) or is_.is_uint8(kind):
        _hash_ints(_filled(column.cast(pa.int32()), np.int32), valid, found)
    elif kind.bit_width < 64 and not is_.is_uint32(kind):
        plain = column.view(pa.int32()) if is_.is_date32(kind) or is_.is_time32(kind) else column.cast(pa.int32())
        _hash_ints(_filled(plain, np.int32), valid, found)
    else:
        plain = column.cast(pa.int64()) if is_.is_uint32(kind) else column.view(pa.int64())
        _hash_longs(_filled(plain, np.int64), valid, found)


def _filled(column: pa.Array, kind: type[Element]) -> npt.NDArray[Element]:
    """The values of a column of numbers without a copy; those of nulls are arbitrary."""
    values = np.frombuffer(column.buffers()[1] or b"", kind)
    return locked(values[column.offset : column.offset + len(column)])


def _plain_floats(column: pa.Array, kind: type[Float]) -> npt.NDArray[Float]:
    """Floats with one zero and one NaN."""
    values = _filled(column, kind) + kind(0)  # -0.0 + 0.0 is 0.0
    values[np.isnan(values)] = np.nan
    return values


def _texts(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The offsets (one more than rows) and the bytes of a column of strings or binary values."""
    is_, kind = pa.types, column.type
    if is_.is_string_view(kind) or is_.is_binary_view(kind):
        column = column.cast(pa.large_string() if is_.is_string_view(kind) else pa.large_binary())
    if is_.is_fixed_size_binary(kind):
        offsets = np.arange(column.offset, column.offset + len(column) + 1, dtype=np.int64) * kind.byte_width
        data = column.buffers()[1]
    else:
        large = is_.is_large_string(column.type) or is_.is_large_binary(column.type)
        _, places, data = column.buffers()
        offsets = np.frombuffer(places or b"", np.int64 if large else np.int32)
        offsets = offsets[column.offset : column.offset + len(column) + 1].astype(np.int64)
    return locked(offsets), locked(np.frombuffer(data or b"", np.uint8))


def _hash_decimals(column: pa.Array, valid: npt.NDArray[np.bool_], found: Hashes) -> None:
    kind = column.type
    if kind.bit_width < 128:
        column = column.cast(pa.decimal128(kind.precision, kind.scale))
    words = np.frombuffer(column.buffers()[1] or b"", np.int64)
    words = words[2 * column.offset : 2 * (column.offset + len(column))]
    if kind.precision <= SMALL_DECIMAL:
        _hash_longs(locked(words[::2]), valid, found)
    else:
        offsets = np.arange(len(column) + 1, dtype=np.int64) * 16
        _hash_texts(locked(offsets), locked(words.view(np.uint8)), valid, found)


_ALL = validity(pa.array([0]))
"""That no row is null."""


@compiled
def _rotated(value, bits):  # type: ignore[no-untyped-def]
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@compiled
def _finished(mixed):  # type: ignore[no-untyped-def]
    mixed = (mixed ^ (mixed >> np.uint64(33))) * P2
    mixed = (mixed ^ (mixed >> np.uint64(29))) * P3
    return mixed ^ (mixed >> np.uint64(32))


@compiled
def _with_word(mixed, word):  # type: ignore[no-untyped-def]
    """Mix 8 bytes in."""
    return _rotated(mixed ^ (_rotated(word * P2, 31) * P1), 27) * P1 + P4


@compiled
def _with_half(mixed, half):  # type: ignore[no-untyped-def]
    """Mix 4 bytes in."""
    return _rotated(mixed ^ (half * P1), 23) * P2 + P3


@compiled
def _hash_longs(values, valid, found):  # type: ignore[no-untyped-def]
    for row in range(len(values)):
        if len(valid) == 0 or valid[row]:
            found[row] = _finished(_with_word(found[row] + P5 + np.uint64(8), np.uint64(values[row])))


@compiled
def _hash_ints(values, valid, found):  # type: ignore[no-untyped-def]
    for row in range(len(values)):
        if len(valid) == 0 or valid[row]:
            half = np.uint64(np.uint32(values[row]))
            found[row] = _finished(_with_half(found[row] + P5 + np.uint64(4), half))


@compiled
def _word(data, place):  # type: ignore[no-untyped-def]
    """8 bytes as a number, the first one lowest."""
    word = np.uint64(0)
    for byte in range(8):
        word |= np.uint64(data[place + byte]) << np.uint64(8 * byte)
    return word


@compiled
def _lanes(data, start, end, seed):  # type: ignore[no-untyped-def]
    """The hash of whole blocks of 32 bytes, of which there is at least one."""
    a, b, c, d = seed + P1 + P2, seed + P2, seed, seed - P1
    while start + 32 <= end:
        a = _rotated(a + _word(data, start) * P2, 31) * P1
        b = _rotated(b + _word(data, start + 8) * P2, 31) * P1
        c = _rotated(c + _word(data, start + 16) * P2, 31) * P1
        d = _rotated(d + _word(data, start + 24) * P2, 31) * P1
        start += 32
    mixed = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
    for lane in (a, b, c, d):
        mixed = (mixed ^ (_rotated(lane * P2, 31) * P1)) * P1 + P4
    return mixed


@compiled
def _hash_texts(offsets, data, valid, found):  # type: ignore[no-untyped-def]
    for row in range(len(offsets) - 1):
        if len(valid) and not valid[row]:
            continue
        place, end = offsets[row], offsets[row + 1]
        length = end - place
        mixed = _lanes(data, place, end, found[row]) if length >= 32 else found[row] + P5
        mixed += np.uint64(length)
        place += length // 32 * 32
        while place + 8 <= end:
            mixed = _with_word(mixed, _word(data, place))
            place += 8
        if place + 4 <= end:
            half = np.uint64(data[place]) | np.uint64(data[place + 1]) << np.uint64(8)
            half |= np.uint64(data[place + 2]) << np.uint64(16) | np.uint64(data[place + 3]) << np.uint64(24)
            mixed = _with_half(mixed, half)
            place += 4
        while place < end:
            mixed = _rotated(mixed ^ (np.uint64(data[place]) * P5), 11) * P1
            place += 1
        found[row] = _finished(mixed)
