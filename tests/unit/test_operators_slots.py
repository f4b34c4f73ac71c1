import numpy as np
import pytest

from evenflow.errors import InvalidArgument
from evenflow.operators.slots import Slots

EXTREMES = np.array([-(2**63), 2**63 - 1, 0, -1, 1, 2**62, -(2**62)])


def units(*numbers):
    return np.array(numbers, np.int32)


def test_equal_keys_share_a_slot_and_others_do_not():
    slots = Slots()
    found = slots.find(np.zeros(14, np.int32), np.concatenate([EXTREMES, EXTREMES]))
    assert (found[:7] == found[7:]).all()
    assert len(set(found.tolist())) == len(slots) == 7


def test_no_rows():
    assert len(Slots().find(units(), np.empty(0, np.int64))) == 0


@pytest.mark.parametrize("shift", [0, 20, 48])
def test_many_keys_that_look_alike(shift):
    slots = Slots()
    keys = np.arange(10_000) << shift
    found = slots.find(np.zeros(len(keys), np.int32), keys)
    assert len(np.unique(found)) == len(np.unique(keys))
    assert (slots.key[found] == keys).all()
    assert (slots.find(np.zeros(len(keys), np.int32), keys[::-1].copy()) == found[::-1]).all()


def test_a_unit_has_its_slots_oldest_first():
    slots = Slots()
    found = slots.find(units(3, 1, 3, 100_000, 3), np.array([5, 6, 7, 8, 5]))
    assert slots.of(units(3, 2, 100_000)).tolist() == [found[0], found[2], found[3]]
    assert slots.counts(units(3, 1, 2, 100_000, 2_000_000)).tolist() == [2, 1, 0, 1, 0]
    assert slots.per_unit(units(1, 9, 3), np.array([10, 20, 30])).tolist() == [10, 0, 50]


def test_what_is_dropped_is_gone_and_all_else_stays():
    random = np.random.default_rng(1)
    slots, model = Slots(), {}
    for _ in range(300):
        keys = random.integers(0, 3000, 40)
        found = slots.find((keys % 50).astype(np.int32), keys)
        for key, slot in zip(keys.tolist(), found.tolist(), strict=True):
            assert model.setdefault(key, slot) == slot
        assert len(set(model.values())) == len(model) == len(slots)
        for unit in random.integers(0, 60, 3).tolist():
            assert {slot for key, slot in model.items() if key % 50 == unit} == set(slots.of(units(unit)).tolist())
            slots.drop(unit)
            model = {key: slot for key, slot in model.items() if key % 50 != unit}
            assert not slots.counts(units(unit))[0]
    assert slots.capacity <= 4096


def test_freed_slots_are_used_again():
    slots = Slots()
    for unit in range(200):
        slots.find(np.full(60, unit, np.int32), np.arange(60))
        slots.drop(unit)
    assert slots.capacity == 64


def test_a_hundred_thousand_units():
    slots = Slots()
    keys = np.arange(100_001)
    slots.find(keys.astype(np.int32), keys)
    assert (slots.counts(keys) == 1).all()
    for unit in range(0, 100_001, 2):
        slots.drop(unit)
    assert len(slots) == 50_000
    assert (slots.key[slots.of(keys)] == keys[1::2]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda slots: slots.find(units(0, -2), np.array([1, 2])), "unit -2 does not exist"),
        (lambda slots: slots.find(units(0), np.array([1, 2])), "1 units and 2 keys"),
        (lambda slots: slots.add(7, np.array([2])), "unit 7 is installed but has keys here already"),
    ],
)
def test_what_cannot_be(call, message):
    slots = Slots()
    slots.find(units(7), np.array([1]))
    with pytest.raises(InvalidArgument, match=message):
        call(slots)
