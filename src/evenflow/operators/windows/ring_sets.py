"""The number of distinct 64-bit hashes in each slot's window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenflow.operators.columns import EVER, Array, Bools, locked
from evenflow.operators.compiled import compiled_in_place
from evenflow.operators.slots import KEY_BYTES, Ints, Longs, Slots, fitted
from evenflow.operators.windows.arena import HEAD, LATEST, LENGTH, ROOM, SMALLEST, START, cell_of, enlarge
from evenflow.operators.windows.combining import COUNT, single, store
from evenflow.operators.windows.rings import Rings, SlotRows, open_cell
from evenflow.operators.windows.totals import Numbers

FEW = 1024
"""Members without rows that are not worth dropping."""


class RingSets(Rings):
    """A window per slot, as in `Rings`; a cell holds whether there is a value, and the value's member.

    Members are the distinct values of each slot, in a hash map (slot, hash) -> member. `rows_of[member]` counts the
    window's rows with this value, `count[slot]` the members that have any. Members without rows are dropped
    when they may be more than half of all.
    """

    def __init__(self, rows: int, span: int, slots: Slots) -> None:
        super().__init__(COUNT, rows, span, slots, "hash", 1)
        self.members = Slots()
        self.rows_of = np.zeros(self.members.capacity, np.int64)
        self.count = np.zeros(self.slots.capacity, np.int64)
        self.full = 0  # the first rows are enough, so that nothing is left to be compiled later

    def push_slots(self, slots: Ints, values: Numbers, valid: Bools, times: Longs) -> tuple[Numbers, Bools]:
        """The number of distinct hashes in its slot's window after each row; `values` are hashes."""
        self._fit()
        members = np.zeros((len(slots), 1), np.int64)
        some = valid if len(valid) else slice(None)
        members[some, 0] = self.members.find(slots[some], values[some])
        self._fit_sets()
        out = np.empty(len(slots), np.int64)
        rows, done = SlotRows(slots, locked(members), valid, times), 0
        while True:
            done = _slide(self._reach, rows, done, self._arena, self.rows_of, self.count, out)
            if done == len(slots):
                break
            self._repack(2 * int(self.rings[slots[done], ROOM]) + SMALLEST)
        self._tidy()
        return out, np.ones(len(slots), np.bool_)

    def taken(self, slots: Ints) -> tuple[Array, ...]:
        self._fit_sets()
        shape, backs, cells, clock = super().taken(slots)
        cells[:, 1] = self.members.key[cells[:, 1]]
        self.rows_of[self.members.of(slots)] = 0
        self.members.drop_all(slots)
        self.count[slots] = 0
        return shape, backs, cells, clock

    def put(self, slots: Ints, state: Sequence[Array]) -> None:
        shape, backs, given, clock = state
        cells, there = np.array(given), given[:, 0] != 0
        members = self.members.find(np.repeat(slots, shape[:, 0])[there], cells[there, 1])
        cells[there, 1], cells[~there, 1] = members, 0
        super().put(slots, (shape, backs, cells, clock))
        self._fit_sets()
        np.add.at(self.rows_of, members, 1)
        self.count[slots] = self.members.counts(slots)

    def weights(self, slots: Ints) -> Longs:
        return super().weights(slots) + 2 * (8 + 12) + 2 * (KEY_BYTES + 8) * self.count[slots]

    def _fit_sets(self) -> None:
        self.rows_of, self.count = fitted(self.rows_of, self.members), fitted(self.count, self.slots)

    def _tidy(self) -> None:
        if len(self.members) > self.full:
            members = self.members.of(np.flatnonzero(self.members.count))
            self.members.forget(members[self.rows_of[members] == 0])
            self.full = 2 * len(self.members) + FEW


@compiled_in_place
def _slide(reach, rows, at, arena, rows_of, count, out):  # type: ignore[no-untyped-def]
    """Push rows from `at` on. Returns the first row for which the arena had no room, or the number of rows."""
    most, span = reach
    slots, members, valid, times = rows
    rings, _, cells, clock, marks, spare = arena
    for row in range(at, len(slots)):
        slot = slots[row]
        ring = rings[slot]
        here = len(valid) == 0 or valid[row]
        keep = True
        if span:
            ring[LATEST] = max(ring[LATEST], times[row])
            cut = ring[LATEST] - span if ring[LATEST] > EVER + span else EVER
            keep = here and times[row] > cut
            while ring[LENGTH] and clock[ring[START] + ring[HEAD]] <= cut:
                _leave(ring, slot, cells, rows_of, count)
        elif ring[LENGTH] == most:
            _leave(ring, slot, cells, rows_of, count)
        if keep:
            if ring[LENGTH] == ring[ROOM] and not enlarge(most, ring, cells, clock, marks, spare):
                return row
            one = single(COUNT, members, row, here)
            place = open_cell(COUNT, ring, cells, clock, times[row], one) if span else ring[LENGTH]
            store(COUNT, cells, cell_of(ring, place), one)
            ring[LENGTH] += 1
            if here:
                rows_of[members[row, 0]] += 1
                count[slot] += rows_of[members[row, 0]] == 1
        out[row] = count[slot]
    return len(slots)


@compiled_in_place
def _leave(ring, slot, cells, rows_of, count):  # type: ignore[no-untyped-def]
    """Remove the oldest cell of a ring, which has no front."""
    oldest = ring[START] + ring[HEAD]
    if cells[oldest, 0]:
        rows_of[cells[oldest, 1]] -= 1
        count[slot] -= rows_of[cells[oldest, 1]] == 0
    ring[HEAD] += 1
    if ring[HEAD] == ring[ROOM]:
        ring[HEAD] = 0
    ring[LENGTH] -= 1
