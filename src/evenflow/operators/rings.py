"""Aggregates over the last rows of each key, exact whatever enters and leaves: no value is ever subtracted.

A key's window is a ring of cells in one arena, oldest first, kept as two stacks. The first `FRONT` cells hold the
aggregates of themselves and all front cells after them; the others, the back, hold single values, and `backs` their
aggregate. The window's aggregate is that of its first cell combined with that of the back. A cell that leaves just
leaves. When the front is used up the back becomes the front, which costs each row one more combination on average.

Rings have room for 4, 8, 16, ... cells, or for as many as a window can have. Room that is given up is kept in lists by
size, each linked through its first cells, and used again; so units come and go without the arena being copied.

What an aggregate is, of doubles or exact, is told in `combining`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.errors import InvalidArgument
from evenflow.operators.combining import combine, load, single, store, tell, width
from evenflow.operators.compiled import compiled, grown, readable
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.slots import KEY_BYTES, Ints, Longs, Slots

Numbers = npt.NDArray[Any]
"""Of float64 or int64: `combining` tells what they are."""

START, ROOM, HEAD, LENGTH, FRONT, LATEST = range(6)
TOP, LIVE = range(2)
EVER = np.iinfo(np.int64).min
ENDLESS = 1 << 62
SMALLEST = 4
AHEAD = 512
SPACIOUS = 1 << 16
"""Cells up to which an arena doubles; larger ones grow by an eighth, which costs no copy."""
IGNORED = 3 * 65536
DOUBLES = "double"
"""What values are that are added and compared as doubles."""


class Kept:
    """Aggregates of the values of one type: `of` names it, `words` are the words of a value (none of a double)."""

    def __init__(self, how: int) -> None:
        self.how = how
        self.slots = Slots()
        self.of, self.words = DOUBLES, 0
        self._make()

    def use(self, of: str, words: int) -> None:
        """Be ready for values of this type; refused where there are aggregates of others."""
        if of == self.of:
            return
        if len(self.slots):
            raise InvalidArgument(
                f"the state is of values of type {self.of}, and the column is {of} now: cast it to what it was, or "
                "start without the state, with a new checkpoint"
            )
        self.of, self.words = of, words
        self._make()

    def _make(self) -> None:
        """Make what holds the aggregates, with nothing in it."""
        raise NotImplementedError

    def _results(self, rows: int) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Room for the results of so many rows, and for which of them exist."""
        known = np.empty(rows, np.bool_)
        return (np.empty((rows, width(self.how, self.words)), np.int64) if self.words else np.empty(rows)), known

    def _rows(self, count: int) -> Numbers:
        """Room for so many aggregates, of nothing."""
        return np.zeros((count, width(self.how, self.words)), np.int64 if self.words else np.float64)


class Totals(Kept):
    """One aggregate per key, of all its values so far."""

    def _make(self) -> None:
        self.totals = self._rows(self.slots.capacity)

    def push(self, units: Units, keys: Keys, values: Numbers, valid: npt.NDArray[np.bool_]) -> tuple[Numbers, Any]:
        """The result after each row, and which of the results exist."""
        slots = self.slots.find(units, keys)
        self.totals = fitted(self.totals, self.slots)
        out, known = self._results(len(keys))
        _run(self.how, slots, values, valid, self.totals, out, known)
        return out, known

    def extract(self, unit: int) -> Any:
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        state = self.slots.key[slots], self.totals[slots], self.of, self.words
        self.totals[slots] = 0
        self.slots.drop(unit)
        return state

    def install(self, unit: int, state: Any) -> None:
        keys, totals, *kind = state
        self.use(*(kind or (DOUBLES, 0)))
        slots = self.slots.add(unit, keys)
        self.totals = fitted(self.totals, self.slots)
        self.totals[slots] = totals[:, : self.totals.shape[1]]

    def sizes(self, units: Units) -> Longs:
        return self.slots.counts(units) * (KEY_BYTES + 2 * 8 * int(self.totals.shape[1]))


class Rings(Kept):
    """A window per key: its last `rows` rows, or those less than `span` microseconds behind its latest."""

    def __init__(self, how: int, rows: int = 0, span: int = 0) -> None:
        self.rows, self.span = rows, span
        super().__init__(how)

    def _make(self) -> None:
        self.rings = np.zeros((self.slots.capacity, 6), np.int64)
        self.rings[:, LATEST] = EVER
        self.backs, self.cells = self._rows(self.slots.capacity), self._rows(1024)
        self.clock = np.empty(1024 if self.span else 0, np.int64)
        self.marks = np.zeros(2, np.int64)
        self.spare = np.full(64, -1, np.int64)

    def push(
        self, units: Units, keys: Keys, values: Numbers, valid: npt.NDArray[np.bool_], times: Longs
    ) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """The result after each row, and which of the results exist."""
        slots = self.slots.find(units, keys)
        self._fit()
        return self._pushed(slots, values, valid, times)

    def _pushed(
        self, slots: Ints, values: Numbers, valid: npt.NDArray[np.bool_], times: Longs
    ) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        out, known = self._results(len(slots))
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
        cells, clock = self._rows(length), np.empty(length if self.span else 0, np.int64)
        _dump(slots, self.rings, self.cells, self.clock, cells, clock)
        state = self.slots.key[slots], shape, self.backs[slots], cells, clock, self.of, self.words
        self._empty(slots)
        self.slots.drop(unit)
        return state

    def forget(self, slots: Ints) -> None:
        """Let some windows go, with their keys."""
        self._empty(slots)
        self.slots.forget(slots)

    def install(self, unit: int, state: Any) -> None:
        keys, shape, backs, cells, clock, *kind = state
        self.use(*(kind or (DOUBLES, 0)))
        slots = self.slots.add(unit, keys)
        self._fit()
        shape, clock = readable(shape, np.int64), readable(clock, np.int64)
        cells = readable(cells, self.cells.dtype.type)
        self.backs[slots] = backs[:, : self.backs.shape[1]]
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
    def _arena(self) -> tuple[Numbers, Longs, Longs, Longs]:
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
            held = self._rows(longest), np.empty(longest if self.span else 0, np.int64)
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
def _copy(source, at, target, to):  # type: ignore[no-untyped-def]
    for part in range(source.shape[1]):
        target[to, part] = source[at, part]


@compiled
def _run(how, slots, values, valid, totals, out, known):  # type: ignore[no-untyped-def]
    for row in range(len(slots)):
        slot = slots[row]
        total = load(how, totals, slot)
        if len(valid) == 0 or valid[row]:
            total = combine(how, total, single(how, values, row, True))
            store(how, totals, slot, total)
        tell(how, out, known, row, total)


@compiled
def _slide(how, most, span, slots, values, valid, times, at, rings, backs, cells, clock, marks, spare, out, known):  # type: ignore[no-untyped-def]
    """Push rows from `at` on; the row for which the arena had no room, or the number of rows; and a mere number."""
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
            if ring[LENGTH] == ring[ROOM] and not _enlarge(most, ring, cells, clock, marks, spare):
                return row, read
            one = single(how, values, row, here)
            place = _open(how, ring, cells, clock, times[row], one) if span else ring[LENGTH]
            if place >= ring[FRONT]:
                store(how, cells, _where(ring, place), one)
                store(how, backs, slot, combine(how, load(how, backs, slot), one))
            ring[LENGTH] += 1
        whole = load(how, backs, slot)
        if ring[FRONT]:
            whole = combine(how, load(how, cells, ring[START] + ring[HEAD]), whole)
        tell(how, out, known, row, whole)
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
def _pop(how, ring, backs, slot, cells):  # type: ignore[no-untyped-def]
    """Let the oldest cell go; if the front is used up, make the back the front first."""
    if ring[FRONT] == 0:
        backs[slot] = 0
        total = load(how, backs, slot)
        for place in range(ring[LENGTH] - 1, -1, -1):
            at = _where(ring, place)
            total = combine(how, load(how, cells, at), total)
            store(how, cells, at, total)
        ring[FRONT] = ring[LENGTH]
    ring[HEAD] += 1
    if ring[HEAD] == ring[ROOM]:
        ring[HEAD] = 0
    ring[LENGTH] -= 1
    ring[FRONT] -= 1


@compiled
def _open(how, ring, cells, clock, time, one):  # type: ignore[no-untyped-def]
    """Make way for a row by its time; its place. One that belongs into the front is entered there."""
    place = ring[LENGTH]
    while place and clock[_where(ring, place - 1)] > time:
        source, target = _where(ring, place - 1), _where(ring, place)
        _copy(cells, source, cells, target)
        clock[target] = clock[source]
        place -= 1
    clock[_where(ring, place)] = time
    if place < ring[FRONT]:
        ring[FRONT] += 1
        _copy(cells, _where(ring, place + 1), cells, _where(ring, place))
        for before in range(place + 1):
            at = _where(ring, before)
            store(how, cells, at, combine(how, load(how, cells, at), one))
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
