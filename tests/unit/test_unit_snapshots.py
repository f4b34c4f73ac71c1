"""Snapshots of units: what was packed comes back, unit by unit, writable, and no damage passes."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import CorruptState, StoreError
from evenflow.state.checkpoint import unit_snapshots as module
from evenflow.state.checkpoint.unit_snapshots import check_units, load_units, pack_units, read_index

plain = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.floats(allow_nan=False), max_size=3)
arrays = st.lists(st.integers(0, 255), max_size=200).map(lambda values: np.array(values, np.uint8))
state = plain | arrays | st.dictionaries(st.text(max_size=3), arrays, max_size=3)
states = st.dictionaries(st.integers(0, 2**40), state, max_size=6)


def getter(content, log=None):
    """Reads of a blob, as a store does them."""

    def get(start, length):
        if log is not None:
            log.append((start, length))
        return memoryview(bytearray(content[start : start + length]))

    return get


def packed(given, **options):
    return b"".join(pack_units(given, **options))


def same(one, other):
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


@given(states, st.booleans(), st.data())
def test_round_trip(given, copy, data):
    content = packed(given, copy=copy)
    wanted = data.draw(st.sets(st.sampled_from([*given, -1]))) if given else {-1}
    found = load_units(getter(content), wanted, "x")
    assert same(found, {unit: given[unit] for unit in wanted & given.keys()})
    assert check_units(getter(content)).entries.keys() == given.keys()


@given(states, st.data())
def test_any_bit_flipped(given, data):
    content = bytearray(packed(given))
    content[data.draw(st.integers(0, len(content) - 1), "place")] ^= 1 << data.draw(st.integers(0, 7), "bit")
    with pytest.raises(CorruptState, match=r"blob q/units/3\.0\.a\.0 is damaged at byte"):
        check_units(getter(content), "q/units/3.0.a.0")


def test_every_byte_counts():
    content = packed({1: "a", 5: np.arange(3)})
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x40
        with pytest.raises(CorruptState):
            check_units(getter(damaged))


@given(states, st.data())
def test_any_truncation(given, data):
    content = packed(given)
    length = data.draw(st.integers(0, len(content) - 1), "length")
    with pytest.raises(CorruptState, match="is damaged at byte"):
        check_units(getter(content[:length]), "x")


def test_damage_hurts_one_unit_only():
    content = bytearray(packed({1: np.zeros(100), 2: np.ones(100)}))
    content[-20] ^= 1
    assert load_units(getter(content), [1])[1].sum() == 0
    with pytest.raises(CorruptState, match="unit 2 fails its checksum"):
        load_units(getter(content), [2])


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_arrays_can_be_written_to_and_are_aligned(kind):
    content = packed({3: [np.arange(5), np.zeros((3, 4), order="F")], 4: np.array([], np.float64)})
    found = load_units(lambda start, length: kind(content[start : start + length]), [3, 4])
    for array in found[3]:
        assert array.flags.writeable
        assert array.flags.aligned
        array += 1
    assert found[3][0].tolist() == [1, 2, 3, 4, 5]
    assert found[3][1].shape == (3, 4)


def test_arrays_are_not_copied_unless_asked():
    array = np.arange(1000)
    parts = pack_units({0: array})
    assert any(np.shares_memory(np.frombuffer(part, np.uint8), array) for part in parts)
    parts = pack_units({0: array}, copy=True)
    assert not any(np.shares_memory(np.frombuffer(part, np.uint8), array) for part in parts)


def test_a_state_that_changes_before_it_is_put_is_noticed():
    array = np.arange(1000)
    parts = pack_units({0: array})
    array += 1
    with pytest.raises(CorruptState, match="unit 0"):
        load_units(getter(b"".join(parts)), [0])


def test_only_the_units_wanted_are_read():
    content = packed({unit: np.full(1000, unit) for unit in range(100)})
    log = []
    get = getter(content, log)
    index = read_index(get)
    assert log == [(0, module.FIRST)]
    log.clear()
    load_units(get, [10, 11, 12, 50], index=index)
    entries = index.entries
    assert log == [
        (index.start + entries[10].offset, sum(entries[unit].nbytes for unit in (10, 11, 12))),
        (index.start + entries[50].offset, entries[50].nbytes),
    ]


def test_runs_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "RUN", 3 * 8192)
    content = packed({unit: np.full(1000, unit) for unit in range(10)})
    log = []
    found = load_units(getter(content, log), range(10))
    assert [array[0] for array in found.values()] == list(range(10))
    assert len(log) == 1 + 4


def test_a_large_index():
    given = {unit: unit for unit in range(5000)}
    log = []
    assert load_units(getter(packed(given), log), given) == given
    assert len(log) == 3


class Broken:
    def __reduce__(self):
        raise RuntimeError("not today")


def test_a_state_that_cannot_be_pickled():
    with pytest.raises(StoreError, match="the state of unit 7 cannot be pickled: RuntimeError: not today"):
        pack_units({7: Broken()})


def test_code_that_is_not_there_any_more():
    code = (
        "import sys, types; gone = types.ModuleType('gone'); sys.modules['gone'] = gone\n"
        "exec('class State: pass', gone.__dict__)\n"
        "from evenflow.state.checkpoint.unit_snapshots import pack_units\n"
        "sys.stdout.buffer.write(b''.join(pack_units({5: gone.State()})))"
    )
    content = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    with pytest.raises(StoreError, match=r"unit 5 in blob x cannot be unpickled: ModuleNotFoundError: .*'gone'"):
        load_units(getter(content), [5], "x")


def test_through_a_store(tmp_path):
    from evenflow.state.store.opening import open_store

    with open_store(tmp_path) as store:
        store.put("units/1", pack_units({1: np.arange(10)}))
        found = load_units(partial(store.get, "units/1"), [1, 2])
    found[1][0] = 5
    assert found.keys() == {1}


def test_a_snapshot_under_the_name_of_another():
    content = packed({1: "state"}, name="q/units/3.0.a.0")
    assert load_units(getter(content), [1], "q/units/3.0.a.0") == {1: "state"}
    with pytest.raises(CorruptState, match=r"q/units/4\.0\.a\.0 is damaged .* or is of another blob"):
        load_units(getter(content), [1], "q/units/4.0.a.0")
