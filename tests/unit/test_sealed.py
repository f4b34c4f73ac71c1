"""Checkpoints with a key: what was not written with it is not read, let alone unpickled."""

import itertools
import os
import pickle
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import CorruptState, InvalidArgument, StoreError
from evenflow.state.checkpoint.unit_snapshots import load_units, pack_units
from evenflow.state.store.opening import open_store
from evenflow.state.store.sealed import CHUNK, KEY_BLOB, TAG, Place, SealedStore, key_of
from evenflow.testing import check_store
from tests.support.state_memory import Memory

KEY = key_of("correct horse battery staple")


def sealed(inner=None):
    return SealedStore(inner if inner is not None else Memory(), KEY, "here")


def test_the_laws(tmp_path):
    numbers = itertools.count()
    check_store(sealed, large=2 * 1024 * 1024 + 17)
    check_store(lambda: open_store(Place(tmp_path / f"{next(numbers)}", KEY)), large=CHUNK * 3)


SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 5]


@given(size=st.sampled_from(SIZES), cuts=st.lists(st.integers(0, 3 * CHUNK), max_size=4), ranges=st.data())
def test_any_range_of_any_blob(size, cuts, ranges):
    whole = Random(size).randbytes(size)
    ends = sorted({min(cut, size) for cut in cuts} | {size})
    inner = Memory()
    store = sealed(inner)
    store.put("a", [whole[start:end] for start, end in itertools.pairwise([0, *ends])])
    assert store.names() == [("a", size)]
    assert len(inner.blobs["a"]) == size + TAG * max(1, -(-size // CHUNK))
    start = ranges.draw(st.integers(0, size + 10))
    length = ranges.draw(st.none() | st.integers(0, size + 10))
    assert bytes(store.get("a", start, length)) == whole[start : None if length is None else start + length]


@given(at=st.integers(0, 10**9), size=st.sampled_from(SIZES))
def test_a_byte_that_is_changed(at, size):
    inner = Memory()
    store = sealed(inner)
    store.put("a", [bytes(size)])
    changed = bytearray(inner.blobs["a"])
    changed[at % len(changed)] ^= 1
    inner.blobs["a"] = bytes(changed)
    with pytest.raises(CorruptState, match=r"blob a is damaged at byte .*: it was not written with this"):
        store.get("a")


@pytest.mark.parametrize("cut", [1, TAG, TAG + 1, CHUNK + TAG, CHUNK + 2 * TAG, 3 * CHUNK])
def test_what_is_cut_off(cut):
    inner = Memory()
    store = sealed(inner)
    store.put("a", [bytes(3 * CHUNK)])
    inner.blobs["a"] = inner.blobs["a"][:-cut]
    for ask in [(), (0, 10), (2 * CHUNK, 10), (3 * CHUNK, 5)]:
        with_end = not ask or ask[0] >= 2 * CHUNK or cut >= 2 * CHUNK
        try:
            found = bytes(store.get("a", *ask))
        except CorruptState:
            continue
        assert not with_end
        assert found == bytes(10)


def test_another_blobs_bytes():
    inner = Memory()
    store = sealed(inner)
    store.put("a", [b"1"])
    store.put("b", [b"2"])
    store.put("c", [bytes(CHUNK), bytes([1]) * CHUNK, b"end"])
    inner.blobs["a"] = inner.blobs["b"]
    with pytest.raises(CorruptState):
        store.get("a")
    whole = CHUNK + TAG
    chunks = inner.blobs["c"]
    inner.blobs["c"] = chunks[whole : 2 * whole] + chunks[:whole] + chunks[2 * whole :]
    with pytest.raises(CorruptState):
        store.get("c")


ran = []


def explode():
    ran.append(True)


class Bomb:
    """What somebody with a bucket would write: code that runs when it is unpickled."""

    def __reduce__(self):
        return explode, ()


def test_a_pickle_from_outside_is_not_run():
    inner = Memory()
    store = sealed(inner)
    units = pack_units({3: {"sum": 1}})
    store.put("r/q/units/1.0.7.0", units)
    assert load_units(partial(store.get, "r/q/units/1.0.7.0"), [3]) == {3: {"sum": 1}}
    inner.put("r/q/units/1.0.7.0", pack_units({3: Bomb()}))
    load_units(partial(inner.get, "r/q/units/1.0.7.0"), [3])
    assert ran, "without a key it runs"
    ran.clear()
    with pytest.raises(CorruptState, match="not written with this checkpoint_key"):
        load_units(partial(store.get, "r/q/units/1.0.7.0"), [3])
    other = SealedStore(Memory(), key_of(b"some other key, of 30 bytes ..."), "there")
    other.put("r/q/units/1.0.7.0", pack_units({3: Bomb()}))
    inner.blobs["r/q/units/1.0.7.0"] = other._store.blobs["r/q/units/1.0.7.0"]
    with pytest.raises(CorruptState):
        load_units(partial(store.get, "r/q/units/1.0.7.0"), [3])
    assert not ran


def test_keys_and_places(tmp_path):
    place = Place(tmp_path / "s", KEY)
    open_store(place).put("a", [b"x"])
    assert bytes(open_store(place, create=False).get("a")) == b"x"
    with pytest.raises(StoreError, match=r"/s was written with a checkpoint_key: give it .*EVENFLOW_CHECKPOINT_KEY"):
        open_store(tmp_path / "s")
    with pytest.raises(StoreError, match=r"the checkpoint_key is not the one that .*/s was written with"):
        open_store(Place(tmp_path / "s", key_of(b"another key, and long enough")))
    open_store(tmp_path / "t").put("a", [b"x"])
    for where in ("t", "u"):
        if where == "u":
            open_store(tmp_path / "u")
        with pytest.raises(StoreError, match=r"was written without a checkpoint_key.*: leave the key out, or give a"):
            open_store(Place(tmp_path / where, KEY), create=where == "t")
    assert KEY_BLOB not in [name for name, _ in open_store(place).names()]


def test_what_can_be_a_key():
    assert key_of(None) == b""
    assert key_of("x" * 16) == key_of(b"x" * 16) != key_of(b"y" * 16)
    assert len(key_of(os.urandom(1000))) == 32
    with pytest.raises(
        InvalidArgument, match=r"checkpoint_key has 9 bytes: give at least 16, .*token_hex\(32\)"
    ) as said:
        key_of("hunter222")
    assert "hunter222" not in str(said.value)
    with pytest.raises(InvalidArgument, match="checkpoint_key is a int: give bytes or a string"):
        key_of(1234567890123456)


def test_a_key_is_not_shown():
    place = Place("s3://me:secret@bucket/x", KEY)
    assert str(place) == "s3://bucket/x"
    assert repr(KEY) not in repr(place)
    assert pickle.loads(pickle.dumps(place)) == place
