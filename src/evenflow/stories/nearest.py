"""The last vectors of each key, and the similarity of the nearest of them to a new one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.operators.columns import locked
from evenflow.operators.compiled import compiled, grown
from evenflow.operators.keyed import Keys, Units, UnitState
from evenflow.operators.slots import KEY_BYTES, Longs, Slots, fitted
from evenflow.stories.vectors import CELL, Cells, Sparse

START, ROOM, HEAD, TAIL, COUNT = range(5)
TOP, LIVE = range(2)
SMALLEST = 64
"""Cells of the smallest room."""
IGNORED = 1 << 16
"""Unused cells that are not worth closing gaps for."""
DIGITS = 1e6
"""Cosines are rounded to six digits, the precision of float32 weights, so that 1/5 is 0.2 in any order of summing."""


class Histories:
    """The last `history` vectors of each key, in one arena of cells.

    A key has ROOM cells from START on. Its vectors are in `cells[START + HEAD : START + TAIL]`, oldest first; each is a
    cell whose word is the vector's length, then its words. New vectors are added at the end. When the room is full, the
    vectors move to its beginning, or to a larger room if they fill most of it. Room that is given up is used again when
    the arena is packed. `marks` are the cells given out (TOP), and those of them that keys still have (LIVE).

    A vector is compared with all cells of its key. They are consecutive, so memory delivers them at full speed. With an
    index by word there are fewer cells to look at, but it took five times as long with many keys: each is a cache miss.
    """

    def __init__(self, history: int) -> None:
        self.history = history
        self.slots = Slots()
        self.rings = np.zeros((self.slots.capacity, 5), np.int64)
        self.cells = np.zeros(1024, CELL)
        self.marks = np.zeros(2, np.int64)
        self.scratch = np.zeros(1, np.float32)

    def push(self, units: Units, keys: Keys, vectors: Sparse) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """The greatest cosine of each vector with its key's last vectors before it, and whether it has any words.

        A vector without words is not kept.
        """
        slots = self.slots.find(units, keys)
        self.rings = fitted(self.rings, self.slots)
        self._reach(vectors.cells)
        found = np.zeros(len(slots))
        offsets, given = vectors.offsets, vectors.cells
        done = 0
        while True:
            arena = self.rings, self.cells, self.marks
            done = _compare(self.history, slots, offsets, given, done, *arena, self.scratch, found)
            if done == len(slots):
                return found, np.diff(offsets) > 0
            self._make_room(2 * int(self.rings[slots[done], TAIL] + offsets[done + 1] - offsets[done] + SMALLEST))

    def snapshot(self, unit: int) -> UnitState:
        """A unit's keys, the number of vectors and of cells of each key, and the cells."""
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        rings = self.rings[slots]
        lengths = rings[:, TAIL] - rings[:, HEAD]
        cells = np.empty(int(lengths.sum()), CELL)
        _dump(slots, self.rings, self.cells, cells)
        return self.slots.key[slots], rings[:, COUNT], lengths, cells

    def extract(self, unit: int) -> UnitState:
        state = self.snapshot(unit)
        if state is not None:
            slots = self.slots.of(np.array([unit]))
            self.marks[LIVE] -= self.rings[slots, ROOM].sum()
            self.rings[slots] = 0
            self.slots.drop(unit)
            if 3 * self.marks[TOP] > 4 * self.marks[LIVE] + IGNORED:
                self._make_room(0)
        return state

    def install(self, unit: int, state: UnitState) -> None:
        keys, counts, lengths, cells = state
        slots = self.slots.add(unit, keys)
        self.rings = fitted(self.rings, self.slots)
        self._reach(cells)
        rooms = np.where(lengths > 0, np.maximum(lengths + (lengths >> 1), SMALLEST), 0)
        total = int(rooms.sum())
        if self.marks[TOP] + total > len(self.cells):
            self._make_room(total)
        starts = self.marks[TOP] + np.cumsum(rooms) - rooms
        self.rings[slots] = np.stack([starts, rooms, np.zeros_like(rooms), lengths, counts], axis=1)
        self.marks += total
        _load(slots, self.rings, self.cells, locked(cells))

    def pack(self) -> None:
        """Close the gaps between the rooms of keys."""
        order = np.flatnonzero(self.rings[:, ROOM])
        order = order[np.argsort(self.rings[order, START])]
        self.marks[:] = _pack(order, self.rings, self.cells)

    def sizes(self, units: Units) -> Longs:
        weights = KEY_BYTES + 2 * 40 + CELL.itemsize * self.rings[self.slots.of(units), ROOM]
        return self.slots.per_unit(units, weights)

    def _reach(self, cells: Cells) -> None:
        """Let `scratch` have an element for every word in the cells."""
        most = int(cells["word"].max(initial=0))
        if most >= len(self.scratch):
            self.scratch = np.zeros(most + 1, np.float32)

    def _make_room(self, more: int) -> None:
        """Make room for at least `more` cells: close gaps if there are many, then let the arena grow or shrink."""
        if 4 * self.marks[LIVE] < 3 * self.marks[TOP]:
            self.pack()
        used = int(self.marks[TOP]) + more
        self.cells = grown(self.cells, max(1024, used + (used >> 3)))


@compiled
def _copy(source, at, target, to, count):  # type: ignore[no-untyped-def]
    """Copy cells in rising order; within one array, only to lower places."""
    for place in range(count):
        target[to + place].word = source[at + place].word
        target[to + place].weight = source[at + place].weight


@compiled
def _nearest(ring, cells, scratch):  # type: ignore[no-untyped-def]
    """The greatest cosine of a ring's vectors with the one whose weights by word are in `scratch`; 0 if none."""
    best, at, end = 0.0, ring[START] + ring[HEAD], ring[START] + ring[TAIL]
    while at < end:
        last = at + cells[at].word
        total = 0.0
        for place in range(at + 1, last + 1):
            total += np.float64(cells[place].weight) * np.float64(scratch[cells[place].word])
        best = max(best, total)
        at = last + 1
    return np.rint(best * DIGITS) / DIGITS


@compiled
def _compare(history, slots, offsets, given, at, rings, cells, marks, scratch, found):  # type: ignore[no-untyped-def]
    """Compare and keep vectors from `at` on; returns the first for which the arena had no room, or their number."""
    for row in range(at, len(slots)):
        first, length = offsets[row], offsets[row + 1] - offsets[row]
        if length == 0:
            continue
        ring = rings[slots[row]]
        if not _open(ring, length + 1, cells, marks):
            return row
        for place in range(first, first + length):
            scratch[given[place].word] = given[place].weight
        found[row] = _nearest(ring, cells, scratch)
        for place in range(first, first + length):
            scratch[given[place].word] = 0.0
        if ring[COUNT] == history:
            ring[HEAD] += 1 + cells[ring[START] + ring[HEAD]].word
            ring[COUNT] -= 1
        end = ring[START] + ring[TAIL]
        cells[end].word, cells[end].weight = length, 0.0
        _copy(given, first, cells, end + 1, length)
        ring[TAIL] += length + 1
        ring[COUNT] += 1
    return len(slots)


@compiled
def _open(ring, more, cells, marks):  # type: ignore[no-untyped-def]
    """Make room for `more` cells at the end of a ring; False if the arena is full."""
    if ring[TAIL] + more <= ring[ROOM]:
        return True
    live = ring[TAIL] - ring[HEAD]
    start, room = ring[START], ring[ROOM]
    if 4 * (live + more) > 3 * room:
        room = max(np.int64(SMALLEST), 2 * (live + more))
        if marks[TOP] + room > len(cells):
            return False
        start = marks[TOP]
        marks[TOP] += room
        marks[LIVE] += room - ring[ROOM]
    _copy(cells, ring[START] + ring[HEAD], cells, start, live)
    ring[START], ring[ROOM], ring[HEAD], ring[TAIL] = start, room, 0, live
    return True


@compiled
def _pack(order, rings, cells):  # type: ignore[no-untyped-def]
    """Close all gaps between rings, given in the order of their starts; returns the new TOP and LIVE."""
    top = 0
    for slot in order:
        ring = rings[slot]
        live = ring[TAIL] - ring[HEAD]
        _copy(cells, ring[START] + ring[HEAD], cells, top, live)
        ring[START], ring[HEAD], ring[TAIL] = top, 0, live
        top += ring[ROOM]
    return top, top


@compiled
def _dump(slots, rings, cells, out):  # type: ignore[no-untyped-def]
    """Copy the cells of some slots' rings, one ring after the other."""
    top = 0
    for slot in slots:
        ring = rings[slot]
        _copy(cells, ring[START] + ring[HEAD], out, top, ring[TAIL] - ring[HEAD])
        top += ring[TAIL] - ring[HEAD]


@compiled
def _load(slots, rings, cells, given):  # type: ignore[no-untyped-def]
    """The reverse of `_dump`, for rings that have room."""
    top = 0
    for slot in slots:
        ring = rings[slot]
        _copy(given, top, cells, ring[START], ring[TAIL])
        top += ring[TAIL]
