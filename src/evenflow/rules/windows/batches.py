"""Batch windows, which give all their rows at once: n rows at a time, or the rows of a stretch of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.operators.columns import EVER
from evenflow.operators.compiled import compiled, grown, readable
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.slots import Longs, fitted
from evenflow.rules.windows.clock import UnitState
from evenflow.rules.windows.memory import RowLists

NEVER = np.iinfo(np.int64).max
"""The number of no batch, and the time at which all batches have ended."""


@dataclass(frozen=True)
class Released:
    """The rows of batches that have ended, and the batch of each row, counted from 0.

    `ends` has for each batch the place of the row that ended it, or the time in microseconds at which it ended.
    `starts` are the times at which time batches began; empty for batches of n rows.
    """

    table: pa.Table
    batch: Longs
    ends: Longs
    starts: Longs


class OpenBatches(RowLists):
    """The rows of each key's batches that have not ended.

    Time batches are numbered: batch n holds the rows with n * span <= time < (n + 1) * span, and `clock` holds the
    number of each row's batch. `oldest` is the number of each slot's first open batch. `soonest` of a unit is at most
    the least `oldest` of its slots, so that units with nothing due are skipped. For batches of n rows, `latest` counts
    the rows of the open batch.
    """

    def __init__(self, rows: int, span: int) -> None:
        super().__init__(0, 1 if span else 0)
        self.length, self.stretch = rows, span
        self.oldest = np.full(self.slots.capacity, NEVER, np.int64)
        self.soonest = np.full(1, NEVER, np.int64)

    def enter(
        self, units: Units, keys: Keys, rows: pa.RecordBatch, index: Longs | None, times: Longs, marks: Longs
    ) -> Released | None:
        """Add rows; returns the batches that end with them. `marks` are the times before which no row will come."""
        slots = self.slots.find(units, keys)
        self._fit()
        if not len(slots):
            return None
        base = self.keep(rows, index)
        closed = np.empty(0, np.int64)
        if self.stretch:
            closed = marks // self.stretch
            self.clock[base : base + len(slots)] = np.maximum(times, marks) // self.stretch
        out = np.empty((self.store.length, 2), np.int64)
        ends = np.empty(self.store.length, np.int64)
        lists = self.newest, self.latest, self.older, self.clock, self.oldest, self.soonest, self.slots.unit
        used, batches = _release(slots, base, self.length, readable(closed, np.int64), *lists, out, ends)
        if not used:
            return None
        self.gone += used
        rows, batch = out[:used, 0].copy(), out[:used, 1].copy()
        starts = np.empty(batches if self.stretch else 0, np.int64)
        if self.stretch:
            starts[batch] = self.clock[rows] * self.stretch
        return Released(self.table(rows), batch, ends[:batches].copy(), starts)

    def leave(self, units: Units, now: int) -> Released | None:
        """The time batches of these units that have ended by `now`, in the order of their ends.

        Batches that end together are in the order of units and keys, so that the order does not depend on the worker.
        """
        limit = NEVER if now == NEVER else now // self.stretch
        known = units[units < len(self.soonest)]
        known = known[self.soonest[known] < limit]
        slots = self.slots.of(known)
        slots = slots[self.oldest[slots] < limit]
        if not len(slots):
            self._count_units(known)  # the first batch has ended with a row before
            return None
        out = np.empty((self.store.length, 2), np.int64)
        used = _expire(slots, limit, self.newest, self.older, self.clock, self.oldest, out)
        rows, owners = out[:used, 0].copy(), out[:used, 1].copy()
        numbers = self.clock[rows]
        order = np.lexsort((self.slots.key[owners], self.slots.unit[owners], numbers))
        rows, owners, numbers = rows[order], owners[order], numbers[order]
        first = np.append(True, (np.diff(numbers) != 0) | (np.diff(owners) != 0))
        starts = numbers[first] * self.stretch
        found = Released(self.table(rows), np.cumsum(first) - 1, starts + self.stretch, starts)
        self.gone += used
        gone = slots[self.newest[slots, 0] < 0]
        if len(gone):
            self.latest[gone] = EVER
            self.slots.forget(gone)
        self._count_units(known)
        return found

    def extract(self, unit: int) -> UnitState:
        slots = self.slots.of(np.array([unit]))
        state = super().extract(unit)
        self.oldest[slots] = NEVER
        if unit < len(self.soonest):
            self.soonest[unit] = NEVER
        return state

    def install(self, unit: int, state: UnitState) -> None:
        super().install(unit, state)
        if self.stretch:
            units = np.array([unit], np.int32)
            slots = self.slots.of(units)
            _date(slots, self.newest, self.older, self.clock, self.oldest)
            self._count_units(units)

    def _count_units(self, units: Units) -> None:
        """Find the first open batch of each of these units."""
        slots = self.slots.of(units)
        self.soonest[units] = NEVER
        np.minimum.at(self.soonest, self.slots.unit[slots], self.oldest[slots])

    def _fit(self) -> None:
        super()._fit()
        self.oldest = fitted(self.oldest, self.slots, NEVER)
        if len(self.soonest) < len(self.slots.first):
            self.soonest = grown(self.soonest, len(self.slots.first), NEVER)


@compiled
def _release(slots, base, length, closed, newest, latest, older, clock, oldest, soonest, unit_of, out, ends):  # type: ignore[no-untyped-def]
    """Add rows; write (row, batch) of rows that come out, and the place that ended each batch. Returns both counts."""
    counts = 0, 0
    for row in range(len(slots)):
        slot, number = slots[row], base + row
        if len(closed):
            if oldest[slot] < closed[row]:
                place = _cut_off(slot, closed[row], newest, older, clock, oldest)
                counts = _give(place, row, older, clock, out, ends, counts)
            if clock[number] < oldest[slot]:
                oldest[slot] = clock[number]
                soonest[unit_of[slot]] = min(soonest[unit_of[slot]], clock[number])
            newer, place = -1, newest[slot, 0]
            while place >= 0 and clock[place] > clock[number]:
                newer, place = place, older[place]
            older[number] = place
            if newer < 0:
                newest[slot, 0] = number
            else:
                older[newer] = number
        else:
            older[number] = newest[slot, 0]
            newest[slot, 0] = number
            latest[slot] = max(latest[slot], 0) + 1
            if latest[slot] == length:
                newest[slot, 0], latest[slot] = -1, 0
                counts = _give(number, row, older, clock, out, ends, counts)
    return counts


@compiled
def _cut_off(slot, limit, newest, older, clock, oldest):  # type: ignore[no-untyped-def]
    """Cut the batches before `limit` off a slot's list; returns the newest of their rows."""
    newer, place = -1, newest[slot, 0]
    while place >= 0 and clock[place] >= limit:
        newer, place = place, older[place]
    if newer < 0:
        newest[slot, 0], oldest[slot] = -1, NEVER
    else:
        older[newer], oldest[slot] = -1, clock[newer]
    return place


@compiled
def _expire(slots, limit, newest, older, clock, oldest, out):  # type: ignore[no-untyped-def]
    """Write (row, slot) of all batches before `limit`, the rows of a slot oldest first; returns their count."""
    used = 0
    for slot in slots:
        start, used = used, _list(_cut_off(slot, limit, newest, older, clock, oldest), older, out, used)
        out[start:used, 1] = slot
    return used


@compiled
def _date(slots, newest, older, clock, oldest):  # type: ignore[no-untyped-def]
    """Find the first open batch of each slot."""
    for slot in slots:
        place, oldest[slot] = newest[slot, 0], NEVER
        while place >= 0:
            oldest[slot] = clock[place]
            place = older[place]


@compiled
def _give(place, row, older, clock, out, ends, counts):  # type: ignore[no-untyped-def]
    """Write (row, batch) for the list from `place` back, oldest first; rows of one `clock` are one batch.

    `counts` are the rows and batches written so far; returns them with the new ones.
    """
    start, batches = counts
    used = _list(place, older, out, start)
    for which in range(start, used):
        if which == start or (len(clock) and clock[out[which, 0]] != clock[out[which - 1, 0]]):
            ends[batches] = row
            batches += 1
        out[which, 1] = batches - 1
    return used, batches


@compiled
def _list(place, older, out, used):  # type: ignore[no-untyped-def]
    """Write the rows of a list from `place` back to `out[used:, 0]`, oldest first; returns where they end."""
    low = used
    while place >= 0:
        out[used, 0] = place
        used += 1
        place = older[place]
    high = used - 1
    while low < high:
        out[low, 0], out[high, 0] = out[high, 0], out[low, 0]
        low += 1
        high -= 1
    return used
