"""A set of 64-bit hashes per key."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.operators.compiled import compiled
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.slots import KEY_BYTES, Longs, Slots, fitted


class Sets:
    """All sets in one hash map, (slot of the key, hash) -> member. To `members`, a slot of `slots` is a unit."""

    def __init__(self) -> None:
        self.slots = Slots()
        self.members = Slots()
        self.seen = np.zeros(self.members.capacity, np.bool_)
        self.count = np.zeros(self.slots.capacity, np.int64)

    def push(self, units: Units, keys: Keys, hashes: Longs, valid: npt.NDArray[np.bool_]) -> Longs:
        """The size of the key's set after each row."""
        slots = self.slots.find(units, keys)
        some = valid if len(valid) else slice(None)
        members = self.members.find(slots[some], hashes[some])
        self._fit()
        out = np.empty(len(slots), np.int64)
        _count(slots, members, valid, self.seen, self.count, out)
        return out

    def extract(self, unit: int) -> Any:
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        members = self.members.of(slots)
        state = self.slots.key[slots], self.count[slots], self.members.key[members]
        self.seen[members] = False
        self.count[slots] = 0
        self.members.drop_all(slots)
        self.slots.drop(unit)
        return state

    def install(self, unit: int, state: Any) -> None:
        keys, count, hashes = state
        slots = self.slots.add(unit, keys)
        members = self.members.find(np.repeat(slots, count), hashes)
        self._fit()
        self.seen[members] = True
        self.count[slots] = count

    def sizes(self, units: Units) -> Longs:
        key, member = KEY_BYTES + 2 * (8 + 12), KEY_BYTES + 2
        return self.slots.per_unit(units, key + member * self.count[self.slots.of(units)])

    def _fit(self) -> None:
        self.seen = fitted(self.seen, self.members)
        self.count = fitted(self.count, self.slots)


@compiled
def _count(slots, members, valid, seen, count, out):  # type: ignore[no-untyped-def]
    """Count each member once. `members` has one entry for each valid row."""
    at = 0
    for row in range(len(slots)):
        slot = slots[row]
        if len(valid) == 0 or valid[row]:
            if not seen[members[at]]:
                seen[members[at]] = True
                count[slot] += 1
            at += 1
        out[row] = count[slot]
