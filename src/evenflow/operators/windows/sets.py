"""A set of 64-bit hashes per slot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenflow.operators.columns import Bools
from evenflow.operators.compiled import compiled
from evenflow.operators.slots import KEY_BYTES, Ints, Longs, Slots, fitted


class Sets:
    """All sets in one hash map, (slot of the key, hash) -> member. To `members`, a slot of `slots` is a unit."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.members = Slots()
        self.seen = np.zeros(self.members.capacity, np.bool_)
        self.count = np.zeros(self.slots.capacity, np.int64)

    def push_slots(self, slots: Ints, hashes: Longs, valid: Bools, times: Longs) -> tuple[Longs, Bools]:
        """The size of its slot's set after each row; there always is one."""
        some = valid if len(valid) else slice(None)
        members = self.members.find(slots[some], hashes[some])
        self._fit()
        out = np.empty(len(slots), np.int64)
        _count(slots, members, valid, self.seen, self.count, out)
        return out, np.ones(len(slots), np.bool_)

    def taken(self, slots: Ints) -> tuple[Longs, Longs]:
        self._fit()
        members = self.members.of(slots)
        state = self.count[slots], self.members.key[members]
        self.seen[members] = False
        self.count[slots] = 0
        self.members.drop_all(slots)
        return state

    def put(self, slots: Ints, state: Sequence[Longs]) -> None:
        count, hashes = state
        members = self.members.find(np.repeat(slots, count), hashes)
        self._fit()
        self.seen[members] = True
        self.count[slots] = count

    def weights(self, slots: Ints) -> Longs:
        weights: Longs = 2 * (8 + 12) + (KEY_BYTES + 2) * self.count[slots]
        return weights

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
