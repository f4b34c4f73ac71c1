"""A slot for each key: a small whole number, the index into the arrays in which operators keep their state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.errors import InvalidArgument
from evenflow.operators.compiled import Element, compiled, grown, readable
from evenflow.operators.keyed import Keys, Units

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

SPREAD = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xD6E8FEB86659FD93)
HALF = np.uint64(32)

KEY_BYTES = 2 * 28
"""Bytes that a key takes here at most: arrays are half empty after they have doubled."""


class KeyArrays(NamedTuple):
    """The arrays of `Slots`, as compiled code takes them."""

    table: Ints
    unit: Ints
    key: Longs
    after: Ints
    first: Ints
    counts: Longs
    free: Ints
    left: Longs


class Slots:
    """An open-addressing hash map (unit, key) -> slot, and the list of each unit's slots.

    `table` holds slot + 1, or 0 where empty, and is at most half full. The slots of a unit are linked: `first[unit]`,
    then `after[slot]`, until -1. A key keeps its slot until it is dropped; then the slot is free for another key.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.table = np.zeros(2 * capacity, np.int32)
        self.unit = np.zeros(capacity, np.int32)
        self.key = np.zeros(capacity, np.int64)
        self.after = np.full(capacity, -1, np.int32)
        self.free = np.arange(capacity, dtype=np.int32)[::-1].copy()
        self.left = np.array([capacity], np.int64)
        self.first = np.full(1, -1, np.int32)
        self.count = np.zeros(1, np.int64)
        self._bind()

    def __len__(self) -> int:
        return self.capacity - int(self.left[0])

    @property
    def capacity(self) -> int:
        """How many slots there are, free ones included."""
        return len(self.key)

    def find(self, units: Units, keys: Keys) -> Ints:
        """The slot of each key; a new key gets a free slot."""
        found = np.empty(len(keys), np.int32)
        if len(units) != len(keys):
            raise InvalidArgument(f"there are {len(units)} units and {len(keys)} keys: give one of each for every row")
        if not len(keys):
            return found
        if units.min() < 0:
            raise InvalidArgument(f"unit {units.min()} does not exist: units are counted from 0")
        self._reach(int(units.max()))
        units, keys = readable(units, np.int32), readable(keys, np.int64)
        done = _find(units, keys, 0, found, self._arrays)
        while done < len(keys):
            self._grow()
            done = _find(units, keys, done, found, self._arrays)
        return found

    def add(self, unit: int, keys: Keys) -> Ints:
        """Slots for the keys of a unit that has none yet."""
        if self.counts(np.array([unit], np.int32))[0]:
            raise InvalidArgument(f"unit {unit} is installed but has keys here already: extract it first")
        return self.find(np.full(len(keys), unit, np.int32), keys)

    def counts(self, units: npt.NDArray[np.integer]) -> Longs:
        """How many slots each of the units has."""
        known = units < len(self.count)
        counts: Longs = np.where(known, self.count[np.where(known, units, 0)], 0)
        return counts

    def of(self, units: npt.NDArray[np.integer]) -> Ints:
        """The slots of the units, one unit after the other, oldest first."""
        counts = self.counts(units)
        slots = np.empty(counts.sum(), np.int32)
        _walk(readable(units, np.int32), counts, self.first, self.after, slots)
        return slots

    def per_unit(self, units: Units, weights: npt.NDArray[np.integer]) -> Longs:
        """The sum of `weights` for each unit; there is one weight for each slot in `of(units)`."""
        owner = np.repeat(np.arange(len(units)), self.counts(units))
        return np.bincount(owner, weights, len(units)).astype(np.int64)

    def drop(self, unit: int) -> None:
        """Forget a unit's keys and free their slots."""
        self.drop_all(np.array([unit], np.int32))

    def drop_all(self, units: npt.NDArray[np.integer]) -> None:
        """Forget the keys of the units; no unit may be named twice."""
        slots = self.of(units)
        if len(slots):
            _drop(slots, self._arrays)
            units = units[units < len(self.first)]
            self.first[units], self.count[units] = -1, 0

    def forget(self, slots: Ints) -> None:
        """Forget some keys and free their slots."""
        gone = np.zeros(self.capacity, np.bool_)
        gone[slots] = True
        _unlink(np.unique(self.unit[slots]), gone, self.first, self.after, self.count)
        _drop(slots, self._arrays)

    def _bind(self) -> None:
        """Make the record of the arrays anew; after each change of one."""
        self._arrays = KeyArrays(
            table=self.table,
            unit=self.unit,
            key=self.key,
            after=self.after,
            first=self.first,
            counts=self.count,
            free=self.free,
            left=self.left,
        )

    def _reach(self, unit: int) -> None:
        if unit >= len(self.first):
            length = max(unit + 1, 2 * len(self.first))
            self.first, self.count = grown(self.first, length, -1), grown(self.count, length)
            self._bind()

    def _grow(self) -> None:
        old, capacity = self.capacity, 2 * self.capacity
        self.unit, self.key = grown(self.unit, capacity), grown(self.key, capacity)
        self.after, self.free = grown(self.after, capacity, -1), grown(self.free, capacity)
        self.free[:old] = np.arange(old, capacity)[::-1]  # no slot is free when this is called
        self.left[0] = old
        self.table = np.zeros(2 * capacity, np.int32)
        self._bind()
        _enter(np.arange(old, dtype=np.int32), self._arrays)


def fitted(array: npt.NDArray[Element], slots: Slots, fill: float = 0) -> npt.NDArray[Element]:
    """`array` with a row for every slot; new rows hold `fill`. Nothing else may refer to `array`."""
    return array if len(array) == slots.capacity else grown(array, slots.capacity, fill)


@compiled
def _home(unit, key, size):  # type: ignore[no-untyped-def]
    """The index at which the search for a key starts in a table of `size`, a power of two."""
    mixed = np.uint64(key) ^ (np.uint64(unit) * MIX)
    mixed = (mixed ^ (mixed >> HALF)) * SPREAD
    return np.int64((mixed >> HALF) & np.uint64(size - 1))


@compiled
def _find(units, keys, at, found, arrays):  # type: ignore[no-untyped-def]
    """Fill `found` from row `at` on; returns the row at which no slot was free, or the number of rows."""
    table, unit_of, key_of, after, first, count, free, left = arrays
    mask = len(table) - 1
    for row in range(at, len(keys)):
        unit, key = units[row], keys[row]
        place = _home(unit, key, len(table))
        slot = table[place] - 1
        while slot >= 0 and not (key_of[slot] == key and unit_of[slot] == unit):
            place = (place + 1) & mask
            slot = table[place] - 1
        if slot < 0:
            if left[0] == 0:
                return row
            left[0] -= 1
            slot = free[left[0]]
            table[place] = slot + 1
            unit_of[slot], key_of[slot] = unit, key
            after[slot] = first[unit]
            first[unit] = slot
            count[unit] += 1
        found[row] = slot
    return len(keys)


@compiled
def _enter(slots, arrays):  # type: ignore[no-untyped-def]
    """Add slots to a table that does not have them yet."""
    table, unit_of, key_of = arrays.table, arrays.unit, arrays.key
    for slot in slots:
        place = _home(unit_of[slot], key_of[slot], len(table))
        while table[place]:
            place = (place + 1) & (len(table) - 1)
        table[place] = slot + 1


@compiled
def _walk(units, counts, first, after, slots):  # type: ignore[no-untyped-def]
    """Fill `slots` with those of the units, oldest first; the linked lists go from the newest to the oldest."""
    end = 0
    for which in range(len(units)):
        end += counts[which]
        place = end
        if counts[which]:
            slot = first[units[which]]
            while slot >= 0:
                place -= 1
                slots[place] = slot
                slot = after[slot]


@compiled
def _unlink(units, gone, first, after, count):  # type: ignore[no-untyped-def]
    """Remove slots that are `gone` from the lists of these units."""
    for unit in units:
        before, slot = -1, first[unit]
        while slot >= 0:
            if not gone[slot]:
                before = slot
            else:
                count[unit] -= 1
                if before < 0:
                    first[unit] = after[slot]
                else:
                    after[before] = after[slot]
            slot = after[slot]


@compiled
def _drop(slots, arrays):  # type: ignore[no-untyped-def]
    """Remove slots from the table. Later entries move up into the hole, so that a search may stop at an empty entry."""
    table, unit_of, key_of, free, left = arrays.table, arrays.unit, arrays.key, arrays.free, arrays.left
    size = len(table)
    mask = size - 1
    for slot in slots:
        hole = _home(unit_of[slot], key_of[slot], size)
        while table[hole] != slot + 1:
            hole = (hole + 1) & mask
        place = (hole + 1) & mask
        while table[place]:
            other = table[place] - 1
            if ((place - _home(unit_of[other], key_of[other], size)) & mask) >= ((place - hole) & mask):
                table[hole] = other + 1
                hole = place
            place = (place + 1) & mask
        table[hole] = 0
        free[left[0]] = slot
        left[0] += 1
