"""Aggregates over the last rows of each key. They stay exact because no value is ever subtracted.

A key's window is a ring of cells (see `arena`), oldest first, kept as two stacks. Each of the first `FRONT` cells holds
the aggregate of itself and all front cells after it. The other cells, the back, hold single values, and `backs` holds
their aggregate. The window's aggregate is that of the first cell combined with that of the back. A cell that leaves
changes no other. When the front is used up the back becomes the front, which costs one more combination per row on
average. LATEST is the key's latest time.

`combining` explains what an aggregate is, of doubles or exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenflow.operators.aggregates.measures import DOUBLES
from evenflow.operators.columns import EVER, Array, Bools
from evenflow.operators.compiled import compiled_in_place, grown, readable
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.slots import Ints, Longs, Slots, fitted
from evenflow.operators.windows.arena import (
    FRONT,
    HEAD,
    LATEST,
    LENGTH,
    LIVE,
    ROOM,
    SMALLEST,
    START,
    TOP,
    Arena,
    DumpedRings,
    cell_of,
    copy_cell,
    dump_rings,
    enlarge,
    free_rings,
    list_cells,
    load_rings,
    pack_rings,
)
from evenflow.operators.windows.combining import combine, load, single, store, tell
from evenflow.operators.windows.totals import Numbers, SlotAggregates

ENDLESS = 1 << 62
"""Rows that no window reaches."""
AHEAD = 512
"""Rows whose cells are read ahead of use."""
SPACIOUS = 1 << 16
"""Cells up to which an arena doubles; larger ones grow by an eighth, which costs no copy."""
IGNORED = 3 * 65536
"""Unused cells that are not worth closing gaps for."""


class Reach(NamedTuple):
    """How far windows reach."""

    most: int
    """Rows at most; ENDLESS for windows in time."""
    span: int
    """Microseconds; 0 for windows in rows."""


class SlotRows(NamedTuple):
    """Rows to be pushed to windows."""

    slots: Ints
    values: Array
    valid: Bools
    """Which rows have a value; all if it is empty."""
    times: Longs


class Rings(SlotAggregates):
    """A window per key: its last `rows` rows, or those less than `span` microseconds behind its latest."""

    held, arrays = (1, 2), 4

    def __init__(
        self,
        how: int,
        rows: int = 0,
        span: int = 0,
        slots: Slots | None = None,
        of: str = DOUBLES,
        words: int = 0,
    ) -> None:
        self.rows, self.span = rows, span
        self._reach = Reach(rows or ENDLESS, span)
        super().__init__(how, slots, of, words)

    def _make(self) -> None:
        self.rings = np.zeros((self.slots.capacity, 6), np.int64)
        self.rings[:, LATEST] = EVER
        self.backs, self.cells = self._rows(self.slots.capacity), self._rows(1024)
        self.clock = np.empty(1024 if self.span else 0, np.int64)
        self.marks = np.zeros(2, np.int64)
        self.spare = np.full(64, -1, np.int64)
        self._bind()

    def push(self, units: Units, keys: Keys, values: Numbers, valid: Bools, times: Longs) -> tuple[Numbers, Bools]:
        """The result after each row, and which of the results exist."""
        return self.push_slots(self.slots.find(units, keys), values, valid, times)

    def push_slots(self, slots: Ints, values: Numbers, valid: Bools, times: Longs) -> tuple[Numbers, Bools]:
        self._fit()
        return self._pushed(slots, values, valid, times)

    def _pushed(self, slots: Ints, values: Numbers, valid: Bools, times: Longs) -> tuple[Numbers, Bools]:
        out, known = self._results(len(slots))
        rows, done = SlotRows(slots, values, valid, times), 0
        while True:
            done, _ = _slide(self.how, self._reach, rows, done, self._arena, out, known)
            if done == len(slots):
                return out, known
            self._repack(2 * int(self.rings[slots[done], ROOM]) + SMALLEST)

    def taken(self, slots: Ints) -> tuple[Array, ...]:
        self._fit()
        shape = self.rings[slots, LENGTH:]
        length = int(shape[:, 0].sum())
        cells, clock = self._rows(length), np.empty(length if self.span else 0, np.int64)
        dump_rings(slots, self._arena, cells, clock)
        state = shape, self.backs[slots], cells, clock
        self._empty(slots)
        return state

    def forget(self, slots: Ints) -> None:
        """Drop the windows of some slots, with their keys."""
        self._empty(slots)
        self.slots.forget(slots)

    def put(self, slots: Ints, state: Sequence[Array]) -> None:
        shape, backs, cells, clock = state
        self._fit()
        dumped = DumpedRings(
            readable(shape, np.int64), readable(cells, self.cells.dtype.type), readable(clock, np.int64)
        )
        self.backs[slots] = backs[:, : self.backs.shape[1]]
        done = read = 0
        while True:
            done, read = load_rings(slots, done, read, self._reach.most, self._arena, dumped)
            if done == len(slots):
                return
            self._repack(int(2 * shape[done:, 0].sum()) + SMALLEST * (len(slots) - done))

    def weights(self, slots: Ints) -> Longs:
        cell = 8 * (self.cells.shape[1] + bool(self.span))
        weights: Longs = 2 * 72 + cell * self.rings[slots, ROOM]
        return weights

    def values_of(self, slots: Ints) -> Longs:
        lengths: Longs = self.rings[slots, LENGTH]
        return lengths

    def live(self) -> list[tuple[Numbers, Longs]]:
        slots = np.flatnonzero(self.rings[:, LENGTH])
        cells = np.empty(self.rings[slots, LENGTH].sum(), np.int64)
        list_cells(slots, self.rings, cells)
        return [(self.backs, np.flatnonzero(self.backs[:, 0])), (self.cells, cells[self.cells[cells, 0] != 0])]

    def _bind(self) -> None:
        """Make the record of the arrays anew; after each change of one."""
        self._arena = Arena(
            rings=self.rings,
            backs=self.backs,
            cells=self.cells,
            clock=self.clock,
            marks=self.marks,
            spare=self.spare,
        )

    def _fit(self) -> None:
        old = len(self.rings)
        if old < self.slots.capacity:
            self.rings, self.backs = fitted(self.rings, self.slots), fitted(self.backs, self.slots)
            self.rings[old:, LATEST] = EVER
            self._bind()

    def _empty(self, slots: Ints) -> None:
        free_rings(slots, self._arena)
        self.rings[slots], self.backs[slots] = (0, 0, 0, 0, 0, EVER), 0
        if 3 * self.marks[TOP] > 4 * self.marks[LIVE] + IGNORED:
            self._repack(0)

    def _repack(self, more: int) -> None:
        """Make room for at least `more` cells: close gaps if there are many, then let the arena grow or shrink.

        Gaps are closed in place: a copy would take twice the memory for a while.
        """
        if 4 * self.marks[LIVE] < 3 * self.marks[TOP]:
            order = np.flatnonzero(self.rings[:, ROOM])
            order = order[np.argsort(self.rings[order, START])]
            longest = int(self.rings[order, LENGTH].max(initial=0))
            held = self._rows(longest), np.empty(longest if self.span else 0, np.int64)
            self.marks[:] = pack_rings(self._reach.most, order, self._arena, *held)
            self.spare[:] = -1
        used = int(self.marks[TOP]) + more
        size = max(1024, used + (used >> 3 if used > SPACIOUS else used))
        self.cells = grown(self.cells, size)
        if self.span:
            self.clock = grown(self.clock, size)
        self._bind()


@compiled_in_place
def _slide(how, reach, rows, at, arena, out, known):  # type: ignore[no-untyped-def]
    """Push rows from `at` on. Returns the first row for which the arena had no room, or the number of rows.

    The second number has no meaning: it keeps `_touch` from being optimised away.
    """
    most, span = reach
    slots, values, valid, times = rows
    rings, backs, cells, clock, marks, spare = arena
    read = 0.0
    for row in range(at, len(slots)):
        if (row - at) % AHEAD == 0:
            read += _touch(slots[row : row + AHEAD], rings, cells, clock)
        slot = slots[row]
        ring = rings[slot]
        here = len(valid) == 0 or valid[row]
        keep = True
        if span:
            time = times[row]
            ring[LATEST] = max(ring[LATEST], time)
            cut = ring[LATEST] - span if ring[LATEST] > EVER + span else EVER
            keep = here and time > cut
            while ring[LENGTH] and clock[ring[START] + ring[HEAD]] <= cut:
                _pop(how, ring, backs, slot, cells)
        elif ring[LENGTH] == most:
            _pop(how, ring, backs, slot, cells)
        if keep:
            if ring[LENGTH] == ring[ROOM] and not enlarge(most, ring, cells, clock, marks, spare):
                return row, read
            one = single(how, values, row, here)
            place = open_cell(how, ring, cells, clock, times[row], one) if span else ring[LENGTH]
            if place >= ring[FRONT]:
                store(how, cells, cell_of(ring, place), one)
                store(how, backs, slot, combine(how, load(how, backs, slot), one))
            ring[LENGTH] += 1
        whole = load(how, backs, slot)
        if ring[FRONT]:
            whole = combine(how, load(how, cells, ring[START] + ring[HEAD]), whole)
        tell(how, out, known, row, whole)
    return len(slots), read


@compiled_in_place
def _touch(slots, rings, cells, clock):  # type: ignore[no-untyped-def]
    """Read the cells that the next rows need, so that they are fetched from memory together and not one by one."""
    read = 0.0
    for slot in slots:
        ring = rings[slot]
        if ring[ROOM]:
            first, free = ring[START] + ring[HEAD], cell_of(ring, ring[LENGTH])
            read += cells[first, 0] + cells[free, 0]
            if len(clock):
                read += clock[first] + clock[free]
    return read


@compiled_in_place
def _pop(how, ring, backs, slot, cells):  # type: ignore[no-untyped-def]
    """Remove the oldest cell; if the front is used up, make the back the front first."""
    if ring[FRONT] == 0:
        backs[slot] = 0
        total = load(how, backs, slot)
        for place in range(ring[LENGTH] - 1, -1, -1):
            at = cell_of(ring, place)
            total = combine(how, load(how, cells, at), total)
            store(how, cells, at, total)
        ring[FRONT] = ring[LENGTH]
    ring[HEAD] += 1
    if ring[HEAD] == ring[ROOM]:
        ring[HEAD] = 0
    ring[LENGTH] -= 1
    ring[FRONT] -= 1


@compiled_in_place
def open_cell(how, ring, cells, clock, time, one):  # type: ignore[no-untyped-def]
    """Move later cells up to make room for a row of this time; returns its place.

    A row that belongs into the front is added to the aggregates there, and -1 is returned.
    """
    place = ring[LENGTH]
    while place and clock[cell_of(ring, place - 1)] > time:
        source, target = cell_of(ring, place - 1), cell_of(ring, place)
        copy_cell(cells, source, cells, target)
        clock[target] = clock[source]
        place -= 1
    clock[cell_of(ring, place)] = time
    if place < ring[FRONT]:
        ring[FRONT] += 1
        copy_cell(cells, cell_of(ring, place + 1), cells, cell_of(ring, place))
        for before in range(place + 1):
            at = cell_of(ring, before)
            store(how, cells, at, combine(how, load(how, cells, at), one))
        return np.int64(-1)
    return place
