"""Hashes of keys in feeders are those of xxhash64 with Spark's seed, by an implementation that is not ours."""

import struct

import pyarrow as pa
import pytest
import xxhash

from evenflow.runtime.feeder.hashing import SEED, hashes

SHORT = [0, 1, -1, 2**31 - 1, -(2**31)]
LONG = [*SHORT, 2**63 - 1, -(2**63), 86_400_000_000]


def signed(packed):
    return struct.unpack("<q", xxhash.xxh64(packed, seed=SEED).digest()[::-1])[0]


@pytest.mark.parametrize("kind", [pa.int32(), pa.date32()])
def test_short_keys(kind):
    column = pa.array([*SHORT, None], pa.int32()).cast(kind)
    assert hashes(column).to_pylist() == [*(signed(struct.pack("<i", value)) for value in SHORT), None]


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_long_keys(kind):
    column = pa.array([*LONG, None], pa.int64()).cast(kind)
    assert hashes(column).to_pylist() == [*(signed(struct.pack("<q", value)) for value in LONG), None]


def test_narrow_keys_are_hashed_as_ints():
    assert hashes(pa.array([-3, 7], pa.int8())).equals(hashes(pa.array([-3, 7], pa.int32())))
