"""Aggregates over the last rows of each key, exact whatever enters and leaves: no value is ever subtracted.

A key's window is a ring of cells in one arena, oldest first, kept as two stacks. The first `FRONT` cells hold the
aggregates of themselves and all front cells after them; the others, the back, hold single values, and `backs` their
aggregate. The window's aggregate is that of its first cell combined with that of the back. A cell that leaves just
leaves. When the front is used up the back becomes the front, which costs each row one more combination on average.

Rings have room for 4, 8, 16, ... cells, or for as many as a window can have. Room that is given up is kept in lists by
size, each linked through its first cells, and used again; so units come and go without the arena being copied.

An aggregate is (count, a, b): count of non-null values; a: sum, minimum, maximum or mean; b: sum of squared deviations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.operators.compiled import compiled, grown, readable
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.slots import KEY_BYTES, Ints, Longs, Slots

Floats = npt.NDArray[np.float64]

COUNT, SUM, MEAN, MIN, MAX, STD = range(6)
START, ROOM, HEAD, LENGTH, FRONT, LATEST = range(6)
TOP, LIVE = range(2)
EVER = np.iinfo(np.int64).min
ENDLESS = 1 << 62
SMALLEST = 4
AHEAD = 512
SPACIOUS = 1 << 16
"""Cells up to which an arena doubles; larger ones grow by an eighth, which costs no copy."""
IGNORED = 3 * 65536


class Totals:
    """One aggregate per key, of all its values so far."""

    def __init__(self, how: int) -> None:
        self.how = how
        self.slots = Slots()
        self.totals = np.zeros((self.slots.capacity, 3))

    def push(self, units: Units, keys: Keys, values: Floats, valid: npt.NDArray[np.bool_]) -> tuple[Floats, Any]:
        """The result after each row, and which of the results exist."""
        slots = self.slots.find(units, keys)
        self.totals = fitted(self.totals, self.slots)
        out, known = np.empty(len(keys)), np.empty(len(keys), np.bool_)
        _run(self.how, slots, values, valid, self.totals, out, known)
        return out, known

    def extract(self, unit: int) -> Any:
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        state = self.slots.key[slots], self.totals[slots]
        self.totals[slots] = 0
        self.slots.drop(unit)
        return state

    def install(self, unit: int, state: Any) -> None:
        keys, totals = state
        slots = self.slots.add(unit, keys)
        self.totals = fitted(self.totals, self.slots)
        self.totals[slots] = totals

    def sizes(self, units: Units) -> Longs:
        return (KEY_BYTES + 2 * 24) * self.slots.counts(units)


class Rings:
    """A window per key: its last `rows` rows, or those less than `span` microseconds behind its latest."""

    def __init__(self, how: int, rows: int = 0, span: int = 0) -> None:
        self.how, self.rows, self.span = how, rows, span
        self.slots = Slots()
        self.rings = np.zeros((self.slots.capacity, 6), np.int64)
        self.rings[:, LATEST] = EVER
        self.backs = np.zeros((self.slots.capacity, 3))
        self.cells = np.empty((1024, 3 if how == STD else 2))
        self.clock = np.empty(1024 if span else 0, np.int64)
        self.marks = np.zeros(2, np.int64)
        self.spare = np.full(64, -1, np.int64)

    def push(
        self, units: Units, keys: Keys, values: Floats, valid: npt.NDArray[np.bool_], times: Longs
    ) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """The result after each row, and which of the results exist."""
        slots = self.slots.find(units, keys)
        self._fit()
        return self._pushed(slots, values, valid, times)

    def _pushed(
        self, slots: Ints, values: Floats, valid: npt.NDArray[np.bool_], times: Longs
    ) -> tuple[Floats, npt.NDArray[np.bool_]]:
        out, known = np.empty(len(slots)), np.empty(len(slots), np.bool_)
        done = 0
        while True:
            window = self.rings, self.backs, *self._arena
            done, _ = _slide(self.how, self._most, self.span, slots, values, valid, times, done, *window, out, known)
            if done == len(slots):
                return out, known
            self._repack(2 * int(self.rings[slots[done], ROOM]) + SMALLEST)

    def extract(self, unit: int) -> Any:
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        shape = self.rings[slots, LENGTH:]
        length = int(shape[:, 0].sum())
        cells, clock = np.empty((length, self.cells.shape[1])), np.empty(length if self.span else 0, np.int64)
        _dump(slots, self.rings, self.cells, self.clock, cells, clock)
        state = self.slots.key[slots], shape, self.backs[slots], cells, clock
        self._empty(slots)
        self.slots.drop(unit)
        return state

    def forget(self, slots: Ints) -> None:
        """Let some windows go, with their keys."""
        self._empty(slots)
        self.slots.forget(slots)

    def install(self, unit: int, state: Any) -> None:
        keys, shape, backs, *contents = state
        slots = self.slots.add(unit, keys)
        self._fit()
        shape, cells, clock = (
            readable(shape, np.int64),
            readable(contents[0], np.float64),
            readable(contents[1], np.int64),
        )
        self.backs[slots] = backs
        done = read = 0
        while True:
            done, read = _load(slots, done, read, shape, self._most, self.rings, *self._arena, cells, clock)
            if done == len(slots):
                return
            self._repack(int(2 * shape[done:, 0].sum()) + SMALLEST * (len(slots) - done))

    def sizes(self, units: Units) -> Longs:
        cell = 8 * (self.cells.shape[1] + bool(self.span))
        return self.slots.per_unit(units, KEY_BYTES + 2 * 72 + cell * self.rings[self.slots.of(units), ROOM])

    @property
    def _most(self) -> int:
        return self.rows or ENDLESS

    @property
    def _arena(self) -> tuple[Floats, Longs, Longs, Longs]:
        return self.cells, self.clock, self.marks, self.spare

    def _fit(self) -> None:
        old = len(self.rings)
        self.rings, self.backs = fitted(self.rings, self.slots), fitted(self.backs, self.slots)
        self.rings[old:, LATEST] = EVER

    def _empty(self, slots: Ints) -> None:
        _free(slots, self.rings, self.cells, self.marks, self.spare)
        self.rings[slots], self.backs[slots] = (0, 0, 0, 0, 0, EVER), 0
        if 3 * self.marks[TOP] > 4 * self.marks[LIVE] + IGNORED:
            self._repack(0)

    def _repack(self, more: int) -> None:
        """Make room for `more` cells and some: close the gaps if they are many, and let the arena grow or shrink.

        All of it in place: with a copy there would be twice the memory for a while.
        """
        if 4 * self.marks[LIVE] < 3 * self.marks[TOP]:
            order = np.flatnonzero(self.rings[:, ROOM])
            order = order[np.argsort(self.rings[order, START])]
            longest = int(self.rings[order, LENGTH].max(initial=0))
            held = np.empty((longest, self.cells.shape[1])), np.empty(longest if self.span else 0, np.int64)
            self.marks[:] = _pack(self._most, order, self.rings, self.cells, self.clock, *held)
            self.spare[:] = -1
        used = int(self.marks[TOP]) + more
        size = max(1024, used + (used >> 3 if used > SPACIOUS else used))
        self.cells = grown(self.cells, size)
        if self.span:
            self.clock = grown(self.clock, size)


def fitted(array: npt.NDArray[Any], slots: Slots) -> npt.NDArray[Any]:
    """`array` with a row for every slot."""
    return array if len(array) == slots.capacity else grown(array, slots.capacity)


@compiled
def _combine(how, c1, a1, b1, c2, a2, b2):  # type: ignore[no-untyped-def]
    """The aggregate of two aggregates. NaN is the greatest number, as in Spark."""
    if c1 == 0:
        return c2, a2, b2
    if c2 == 0:
        return c1, a1, b1
    count = c1 + c2
    if how == MIN:
        return count, (a1 if a1 < a2 or a2 != a2 else a2), 0.0
    if how == MAX:
        return count, (a1 if a1 > a2 or a1 != a1 else a2), 0.0
    if how == STD:
        delta = a2 - a1
        return count, a1 + delta * (c2 / count), b1 + b2 + delta * delta * (c1 * c2 / count)
    return count, a1 + a2, 0.0


@compiled
def _result(how, count, a, b):  # type: ignore[no-untyped-def]
    """The number asked for, and whether there is one."""
    if how == COUNT:
        return count, True
    if how == MEAN:
        return a / count, count > 0
    if how == STD:
        return np.sqrt(b / (count - 1)), count > 1
    return a, count > 0


@compiled
def _copy(source, at, target, to):  # type: ignore[no-untyped-def]
    for part in range(source.shape[1]):
        target[to, part] = source[at, part]


@compiled
def _run(how, slots, values, valid, totals, out, known):  # type: ignore[no-untyped-def]
    for row in range(len(slots)):
        total = totals[slots[row]]
        c, a, b = total[0], total[1], total[2]
        if len(valid) == 0 or valid[row]:
            value = values[row]
            c, a, b = _combine(how, c, a, b, 1.0, value, value - value)  # NaN, of what is not finite
            total[0], total[1], total[2] = c, a, b
        out[row], known[row] = _result(how, c, a, b)


@compiled
def _slide(how, most, span, slots, values, valid, times, at, rings, backs, cells, clock, marks, spare, out, known):  # type: ignore[no-untyped-def]
    """Push rows from `at` on; the row for which the arena had no room, or the number of rows; and a mere number."""
    read = 0.0
    for row in range(at, len(slots)):
        if (row - at) % AHEAD == 0:
            read += _touch(slots[row : row + AHEAD], rings, cells, clock)
        slot = slots[row]
        ring, back = rings[slot], backs[slot]
        here = len(valid) == 0 or valid[row]
        keep = True
        if span:
            time = times[row]
            ring[LATEST] = max(ring[LATEST], time)
            cut = ring[LATEST] - span if ring[LATEST] > EVER + span else EVER
            keep = here and time > cut
            while ring[LENGTH] and clock[ring[START] + ring[HEAD]] <= cut:
                _pop(how, ring, back, cells)
        elif ring[LENGTH] == most:
            _pop(how, ring, back, cells)
        if keep:
            if ring[LENGTH] == ring[ROOM] and not _enlarge(most, ring, cells, clock, marks, spare):
                return row, read
            value = values[row] if here else 0.0
            count = 1.0 if here else 0.0
            place = _open(how, ring, back, cells, clock, times[row], count, value) if span else ring[LENGTH]
            if place >= ring[FRONT]:
                cell = cells[_where(ring, place)]
                cell[0], cell[1] = count, value
                if how == STD:
                    cell[2] = value - value
                back[0], back[1], back[2] = _combine(how, back[0], back[1], back[2], count, value, value - value)
            ring[LENGTH] += 1
        c, a, b = back[0], back[1], back[2]
        if ring[FRONT]:
            first = cells[ring[START] + ring[HEAD]]
            c, a, b = _combine(how, first[0], first[1], first[2] if how == STD else 0.0, c, a, b)
        out[row], known[row] = _result(how, c, a, b)
    return len(slots), read


@compiled
def _touch(slots, rings, cells, clock):  # type: ignore[no-untyped-def]
    """Read the cells that rows will need, so that memory fetches many at a time and not one after the other."""
    read = 0.0
    for slot in slots:
        ring = rings[slot]
        if ring[ROOM]:
            first, free = ring[START] + ring[HEAD], _where(ring, ring[LENGTH])
            read += cells[first, 0] + cells[free, 0]
            if len(clock):
                read += clock[first] + clock[free]
    return read


@compiled
def _where(ring, place):  # type: ignore[no-untyped-def]
    """The index in the arena of the ring's cell at `place`, counted from the oldest."""
    place += ring[HEAD]
    return ring[START] + (place if place < ring[ROOM] else place - ring[ROOM])


@compiled
def _pop(how, ring, back, cells):  # type: ignore[no-untyped-def]
    """Let the oldest cell go; if the front is used up, make the back the front first."""
    if ring[FRONT] == 0:
        c, a, b = 0.0, 0.0, 0.0
        for place in range(ring[LENGTH] - 1, -1, -1):
            cell = cells[_where(ring, place)]
            c, a, b = _combine(how, cell[0], cell[1], cell[2] if how == STD else 0.0, c, a, b)
            cell[0], cell[1] = c, a
            if how == STD:
                cell[2] = b
        ring[FRONT] = ring[LENGTH]
        back[:] = 0.0
    ring[HEAD] += 1
    if ring[HEAD] == ring[ROOM]:
        ring[HEAD] = 0
    ring[LENGTH] -= 1
    ring[FRONT] -= 1


@compiled
def _open(how, ring, back, cells, clock, time, count, value):  # type: ignore[no-untyped-def]
    """Make way for a row by its time; its place. One that belongs into the front is entered there."""
    place = ring[LENGTH]
    while place and clock[_where(ring, place - 1)] > time:
        source, target = _where(ring, place - 1), _where(ring, place)
        _copy(cells, source, cells, target)
        clock[target] = clock[source]
        place -= 1
    clock[_where(ring, place)] = time
    if place < ring[FRONT]:
        spread = value - value
        ring[FRONT] += 1
        _copy(cells, _where(ring, place + 1), cells, _where(ring, place))
        for before in range(place + 1):
            cell = cells[_where(ring, before)]
            b = cell[2] if how == STD else 0.0
            c, a, b = _combine(how, cell[0], cell[1], b, count, value, spread)
            cell[0], cell[1] = c, a
            if how == STD:
                cell[2] = b
        return np.int64(-1)
    return place


@compiled
def _fitting(length, most):  # type: ignore[no-untyped-def]
    """The room for a ring of so many cells."""
    room = SMALLEST
    while room < length:
        room *= 2
    return min(room, most)


@compiled
def _grade(room):  # type: ignore[no-untyped-def]
    """The number of the list of spare rooms of this size: no two sizes that rings have in one arena share one."""
    grade = 0
    while 1 << grade < room:
        grade += 1
    return grade


@compiled
def _reserve(room, cells, marks, spare):  # type: ignore[no-untyped-def]
    """Where there is room; -1 if nowhere."""
    grade = _grade(room)
    start = spare[grade]
    if start >= 0:
        spare[grade] = np.int64(cells[start, 0])
    elif marks[TOP] + room <= len(cells):
        start = marks[TOP]
        marks[TOP] += room
    else:
        return np.int64(-1)
    marks[LIVE] += room
    return start


@compiled
def _give_up(ring, cells, marks, spare):  # type: ignore[no-untyped-def]
    """Let others have a ring's room."""
    if ring[ROOM]:
        grade = _grade(ring[ROOM])
        cells[ring[START], 0] = spare[grade]
        spare[grade] = ring[START]
        marks[LIVE] -= ring[ROOM]
        ring[ROOM] = 0


@compiled
def _enlarge(most, ring, cells, clock, marks, spare):  # type: ignore[no-untyped-def]
    """Move a full ring to where it has twice the room; whether there was space."""
    room = _fitting(ring[LENGTH] + 1, most)
    start = _reserve(room, cells, marks, spare)
    if start < 0:
        return False
    old = ring.copy()
    _move(ring, cells, clock, start, cells, clock)
    _give_up(old, cells, marks, spare)
    ring[ROOM] = room
    return True


@compiled
def _move(ring, cells, clock, start, new_cells, new_clock):  # type: ignore[no-untyped-def]
    """Copy a ring's cells in order to `start`, where it is from then on."""
    for place in range(ring[LENGTH]):
        source = _where(ring, place)
        _copy(cells, source, new_cells, start + place)
        if len(new_clock):
            new_clock[start + place] = clock[source]
    ring[START], ring[HEAD] = start, 0


@compiled
def _pack(most, order, rings, cells, clock, held_cells, held_clock):  # type: ignore[no-untyped-def]
    """Move all rings up, in the order of their places; those mostly empty get less room. How much is used then, twice.

    A ring is held elsewhere on its way: its old and its new place may overlap.
    """
    top = 0
    for slot in order:
        ring = rings[slot]
        _move(ring, cells, clock, 0, held_cells, held_clock)
        for place in range(ring[LENGTH]):
            _copy(held_cells, place, cells, top + place)
            if len(clock):
                clock[top + place] = held_clock[place]
        ring[START] = top
        if ring[LENGTH] * 4 < ring[ROOM]:
            ring[ROOM] = _fitting(2 * ring[LENGTH], most)
        top += ring[ROOM]
    return top, top


@compiled
def _dump(slots, rings, cells, clock, out_cells, out_clock):  # type: ignore[no-untyped-def]
    """Copy the cells of some rings, in order, one ring after the other."""
    top = 0
    for slot in slots:
        ring = rings[slot]
        for place in range(ring[LENGTH]):
            source = _where(ring, place)
            _copy(cells, source, out_cells, top)
            if len(out_clock):
                out_clock[top] = clock[source]
            top += 1


@compiled
def _free(slots, rings, cells, marks, spare):  # type: ignore[no-untyped-def]
    """Let others have the room of some rings."""
    for slot in slots:
        _give_up(rings[slot], cells, marks, spare)


@compiled
def _load(slots, at, read, shape, most, rings, cells, clock, marks, spare, in_cells, in_clock):  # type: ignore[no-untyped-def]
    """The reverse of `_dump`, from slot `at` and cell `read` on; the slot for which there was no room, and its cell."""
    for which in range(at, len(slots)):
        ring = rings[slots[which]]
        room = _fitting(shape[which, 0], most)
        start = _reserve(room, cells, marks, spare)
        if start < 0:
            return which, read
        ring[START], ring[ROOM], ring[HEAD] = start, room, 0
        ring[LENGTH], ring[FRONT], ring[LATEST] = shape[which, 0], shape[which, 1], shape[which, 2]
        for place in range(ring[LENGTH]):
            _copy(in_cells, read, cells, start + place)
            if len(in_clock):
                clock[start + place] = in_clock[read]
            read += 1
    return len(slots), read
