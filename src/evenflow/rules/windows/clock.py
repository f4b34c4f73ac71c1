"""One number per key: its latest time, or how many rows it has had."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenflow.operators.columns import EVER
from evenflow.operators.compiled import compiled, readable
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.slots import KEY_BYTES, Longs, Slots, fitted

UnitState: TypeAlias = Any
"""A unit's state between `extract` and `install`: only the class that made it knows its form."""


class KeyNumbers:
    """One number per key, which is `first` at the beginning."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.slots = Slots()
        self.values = np.full(self.slots.capacity, first, np.int64)

    def find(self, units: Units, keys: Keys) -> npt.NDArray[np.int32]:
        """The slots of the keys."""
        slots = self.slots.find(units, keys)
        self.values = fitted(self.values, self.slots, self.first)
        return slots

    def forget(self, slots: npt.NDArray[np.int32]) -> None:
        """Forget the keys of some slots, with their numbers."""
        self.values[slots] = self.first
        self.slots.forget(slots)

    def extract(self, unit: int) -> tuple[Keys, Longs] | None:
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        state = self.slots.key[slots], self.values[slots]
        self.values[slots] = self.first
        self.slots.drop(unit)
        return state

    def install(self, unit: int, state: tuple[Keys, Longs]) -> None:
        keys, values = state
        slots = self.slots.add(unit, keys)
        self.values = fitted(self.values, self.slots, self.first)
        self.values[slots] = values

    def sizes(self, units: Units) -> Longs:
        return (KEY_BYTES + 2 * 8) * self.slots.counts(units)


class KeyClocks(KeyNumbers):
    """The latest time of each key. A row more than `lateness` microseconds behind it is late; if negative, none is."""

    def __init__(self, lateness: int) -> None:
        super().__init__(EVER)
        self.lateness = lateness

    def push(self, units: Units, keys: Keys, times: Longs) -> tuple[Longs, npt.NDArray[np.bool_]]:
        """The latest time after each row, and which rows are late."""
        slots = self.find(units, keys)
        latest, late = np.empty(len(keys), np.int64), np.zeros(len(keys), np.bool_)
        _advance(slots, readable(times, np.int64), self.lateness, self.values, latest, late)
        return latest, late


class Paces(KeyClocks):
    """For each key, the end of the last stretch of `span` microseconds that it had a row in."""

    def __init__(self, span: int) -> None:
        super().__init__(-1)
        self.span = span

    def begins(self, units: Units, keys: Keys, times: Longs) -> npt.NDArray[np.bool_]:
        """Which rows are the first of their stretch."""
        slots = self.find(units, keys)
        first = np.zeros(len(keys), np.bool_)
        _begin(slots, readable(times, np.int64), self.span, self.values, first)
        return first


class Counter(KeyNumbers):
    """The number of rows that each key has had."""

    def __init__(self) -> None:
        super().__init__(0)

    def push(self, units: Units, keys: Keys) -> Longs:
        """The number of each row among the rows of its key, counted from 1."""
        slots = self.find(units, keys)
        numbers = np.empty(len(keys), np.int64)
        _number(slots, self.values, numbers)
        return numbers


@compiled
def _advance(slots, times, lateness, values, latest, late):  # type: ignore[no-untyped-def]
    for row in range(len(slots)):
        last = values[slots[row]]
        if lateness >= 0 and last > EVER + lateness and times[row] < last - lateness:
            late[row] = True
        elif times[row] > last:
            last = times[row]
            values[slots[row]] = last
        latest[row] = last


@compiled
def _begin(slots, times, span, values, first):  # type: ignore[no-untyped-def]
    for row in range(len(slots)):
        end = (times[row] // span + 1) * span
        if end > values[slots[row]]:
            values[slots[row]], first[row] = end, True


@compiled
def _number(slots, values, numbers):  # type: ignore[no-untyped-def]
    for row in range(len(slots)):
        values[slots[row]] += 1
        numbers[row] = values[slots[row]]
