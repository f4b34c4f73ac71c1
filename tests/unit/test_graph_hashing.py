"""Hashes of keys are those of xxhash64 with Spark's seed, by an implementation that is not ours."""

import datetime as dt
import decimal
import struct

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from evenflow.errors import InvalidArgument
from evenflow.graph.hashing import SEED, check_hashable, hashes_of
from evenflow.runtime.feeder.hashing import hashes as feeder_hashes

TEXTS = ["", "a", "ab", "abcd", "abcdefg", "abcdefgh", "straße", "x" * 31, "x" * 32, "y" * 33, "zä" * 50]


def signed(*parts):
    """The hash of packed values, each seeded by the hash of the one before."""
    seed = SEED
    for part in parts:
        seed = xxhash.xxh64(part, seed=seed).intdigest()
    return struct.unpack("<q", struct.pack("<Q", seed))[0]


def flag(missing):
    return struct.pack("<i", int(missing))


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
)
def test_texts(kind):
    given = [text.encode() for text in TEXTS]
    column = pa.array([*given, None], pa.binary()).cast(pa.string()).cast(kind)
    assert hashes_of([column]).to_pylist() == [*(signed(text) for text in given), None]


def test_bytes_of_one_length():
    column = pa.array([b"abc", None, b"xyz"], pa.binary(3))
    assert hashes_of([column]).to_pylist() == [signed(b"abc"), None, signed(b"xyz")]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.date32(), pa.bool_()])
def test_short_values(kind):
    values = [0, 1] if kind == pa.bool_() else [0, 1, 100]
    column = pa.array([*values, None], pa.int32()).cast(kind)
    assert hashes_of([column]).to_pylist() == [*(signed(struct.pack("<i", value)) for value in values), None]


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.uint32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("us"), pa.duration("us")]
)
def test_long_values(kind):
    values = [0, 1, 86_399_000_000 if kind != pa.uint32() else 2**32 - 1]
    column = pa.array([*values, None], pa.int64()).cast(kind)
    assert hashes_of([column]).to_pylist() == [*(signed(struct.pack("<q", value)) for value in values), None]


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us", "UTC")])
def test_the_same_as_feeders(kind):
    column = pa.array([5, -7, None, 2**31 - 1], pa.int32() if kind != pa.int64() else kind)
    column = column.cast(pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else column.cast(kind)
    assert hashes_of([column]).equals(feeder_hashes(column))


@pytest.mark.parametrize(("kind", "form"), [(pa.float64(), "<d"), (pa.float32(), "<f")])
def test_floats(kind, form):
    odd_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    column = pa.array(np.array([1.5, -0.0, 0.0, np.nan, -np.nan, odd_nan, np.inf]), pa.float64()).cast(kind, safe=False)
    found = hashes_of([column]).to_pylist()
    assert found[0] == signed(struct.pack(form, 1.5))
    assert found[1] == found[2] == signed(struct.pack(form, 0.0))
    assert found[3] == found[4] == found[5]
    assert len(set(found)) == 4


def test_small_decimals_go_by_their_number_without_point():
    column = pa.array([decimal.Decimal("1.25"), decimal.Decimal("-3.00"), None], pa.decimal128(18, 2))
    assert hashes_of([column]).to_pylist() == [signed(struct.pack("<q", 125)), signed(struct.pack("<q", -300)), None]
    assert hashes_of([column.slice(1)]).to_pylist() == hashes_of([column]).to_pylist()[1:]


def test_large_decimals_go_by_all_their_bytes():
    low = decimal.Decimal(5)
    column = pa.array([low, low + 2**64, None, -low], pa.decimal128(38, 0))
    found = hashes_of([column]).to_pylist()
    assert found[0] == signed((5).to_bytes(16, "little"))
    assert found[2] is None
    assert len(set(found)) == 4
    assert hashes_of([column.slice(1)]).to_pylist() == found[1:]


def test_several_columns_are_chained_with_flags_for_nulls():
    names, numbers = pa.array(["a", None, "b", None]), pa.array([1, 2, None, None], pa.int64())
    assert hashes_of([names, numbers]).to_pylist() == [
        signed(b"a", struct.pack("<q", 1), flag(False), flag(False)),
        signed(struct.pack("<q", 2), flag(True), flag(False)),
        signed(b"b", flag(False), flag(True)),
        None,
    ]


def test_a_null_is_not_in_another_place():
    one, other = pa.array(["a", None]), pa.array([None, "a"])
    first, second = hashes_of([one, other]).to_pylist()
    assert first != second


def test_texts_that_differ_in_where_they_end():
    found = hashes_of([pa.array(["ab", "a", "", "abc"]), pa.array(["c", "bc", "abc", ""])]).to_pylist()
    assert len(set(found)) == 4


def test_dictionaries_are_hashed_as_their_values():
    column = pa.array(["a", None, "b", "a"])
    assert hashes_of([column.dictionary_encode()]).equals(hashes_of([column]))


def test_no_rows_and_no_values():
    assert hashes_of([pa.array([], pa.string())]).to_pylist() == []
    assert hashes_of([pa.array([], pa.float64()), pa.array([], pa.decimal128(20, 1))]).type == pa.int64()
    assert hashes_of([pa.nulls(2)]).to_pylist() == [None, None]
    assert hashes_of([pa.nulls(2, pa.string())]).to_pylist() == [None, None]


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64()), pa.decimal256(60, 2)],
)
def test_what_cannot_be_hashed(kind):
    with pytest.raises(InvalidArgument, match=r"key 'k' is .* cannot be hashed: give numbers"):
        check_hashable(pa.field("k", kind), "key 'k'")


@pytest.mark.parametrize("kind", [pa.date64(), pa.time32("s"), pa.decimal32(5, 1), pa.decimal64(12, 3), pa.float16()])
def test_further_types_have_a_hash(kind):
    value = {"date64[ms]": dt.date(2024, 1, 2), "time32[s]": dt.time(1, 2)}.get(str(kind))
    value = value or (decimal.Decimal("1.5") if pa.types.is_decimal(kind) else np.float16(1.5))
    check_hashable(pa.field("k", kind), "key")
    assert hashes_of([pa.array([value, None], kind)]).null_count == 1
