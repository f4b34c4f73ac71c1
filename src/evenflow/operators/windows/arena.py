"""One array of cells in which all keys' rings have their room, and how rooms are given out and taken back.

A ring is a row of numbers: its room is the cells from START on, ROOM of them; its content is LENGTH cells from HEAD on
(counted from START, and going on at the start of the room where it ends), oldest first. FRONT and LATEST are explained
in `rings`. `marks` tells how many cells have been given out (TOP), and how many of these rings still have (LIVE).

Rooms have 4, 8, 16, ... cells, or as many as a window can have at most. Rooms that are given up are kept in one list
per size (`spare`), linked through their first cells, and used again: units come and go without the array being copied.

Where numba keeps its code on disk it does not notice changes of this file: touch the files that use it.
"""

from __future__ import annotations

import numpy as np

from evenflow.operators.compiled import compiled

START, ROOM, HEAD, LENGTH, FRONT, LATEST = range(6)
TOP, LIVE = range(2)
SMALLEST = 4
"""Cells of the smallest room."""


@compiled
def cell_of(ring, place):  # type: ignore[no-untyped-def]
    """The index in the arena of a ring's cell; `place` 0 is the oldest."""
    place += ring[HEAD]
    return ring[START] + (place if place < ring[ROOM] else place - ring[ROOM])


@compiled
def copy_cell(source, at, target, to):  # type: ignore[no-untyped-def]
    """Copy the aggregate in cell `at` to cell `to` of another array, or of the same."""
    for part in range(source.shape[1]):
        target[to, part] = source[at, part]


@compiled
def fitting_room(length, most):  # type: ignore[no-untyped-def]
    """The size of the room for a ring of `length` cells; windows have at most `most`."""
    room = SMALLEST
    while room < length:
        room *= 2
    return min(room, most)


@compiled
def _grade(room):  # type: ignore[no-untyped-def]
    """The number of the list of spare rooms of this size; the sizes that occur in one arena have different lists."""
    grade = 0
    while 1 << grade < room:
        grade += 1
    return grade


@compiled
def reserve(room, cells, marks, spare):  # type: ignore[no-untyped-def]
    """Take a room of this size, a spare one if there is any; returns its start, or -1 if the arena is full."""
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
def give_up(ring, cells, marks, spare):  # type: ignore[no-untyped-def]
    """Put a ring's room into the list of spare rooms."""
    if ring[ROOM]:
        grade = _grade(ring[ROOM])
        cells[ring[START], 0] = spare[grade]
        spare[grade] = ring[START]
        marks[LIVE] -= ring[ROOM]
        ring[ROOM] = 0


@compiled
def free_rings(slots, rings, cells, marks, spare):  # type: ignore[no-untyped-def]
    """Put the rooms of some slots' rings into the lists of spare rooms."""
    for slot in slots:
        give_up(rings[slot], cells, marks, spare)


@compiled
def enlarge(most, ring, cells, clock, marks, spare):  # type: ignore[no-untyped-def]
    """Move a full ring to a room of twice the size; False if the arena is full."""
    room = fitting_room(ring[LENGTH] + 1, most)
    start = reserve(room, cells, marks, spare)
    if start < 0:
        return False
    old = ring.copy()
    _move(ring, cells, clock, start, cells, clock)
    give_up(old, cells, marks, spare)
    ring[ROOM] = room
    return True


@compiled
def _move(ring, cells, clock, start, new_cells, new_clock):  # type: ignore[no-untyped-def]
    """Copy a ring's cells, oldest first, to `start` of the new arrays, which becomes the start of the ring."""
    for place in range(ring[LENGTH]):
        source = cell_of(ring, place)
        copy_cell(cells, source, new_cells, start + place)
        if len(new_clock):
            new_clock[start + place] = clock[source]
    ring[START], ring[HEAD] = start, 0


@compiled
def pack_rings(most, order, rings, cells, clock, held_cells, held_clock):  # type: ignore[no-untyped-def]
    """Close all gaps between rings, which are given in the order of their starts; shrink rooms that are mostly empty.

    Returns the new TOP and LIVE. Each ring goes through the `held` arrays, since its old and new room may overlap.
    """
    top = 0
    for slot in order:
        ring = rings[slot]
        _move(ring, cells, clock, 0, held_cells, held_clock)
        for place in range(ring[LENGTH]):
            copy_cell(held_cells, place, cells, top + place)
            if len(clock):
                clock[top + place] = held_clock[place]
        ring[START] = top
        if ring[LENGTH] * 4 < ring[ROOM]:
            ring[ROOM] = fitting_room(2 * ring[LENGTH], most)
        top += ring[ROOM]
    return top, top


@compiled
def list_cells(slots, rings, found):  # type: ignore[no-untyped-def]
    """Fill `found` with the cells of some slots' rings."""
    top = 0
    for slot in slots:
        for place in range(rings[slot, LENGTH]):
            found[top] = cell_of(rings[slot], place)
            top += 1


@compiled
def dump_rings(slots, rings, cells, clock, out_cells, out_clock):  # type: ignore[no-untyped-def]
    """Copy the cells of some slots' rings, one ring after the other, each oldest first."""
    top = 0
    for slot in slots:
        ring = rings[slot]
        for place in range(ring[LENGTH]):
            source = cell_of(ring, place)
            copy_cell(cells, source, out_cells, top)
            if len(out_clock):
                out_clock[top] = clock[source]
            top += 1


@compiled
def load_rings(slots, at, read, shape, most, rings, cells, clock, marks, spare, in_cells, in_clock):  # type: ignore[no-untyped-def]
    """The reverse of `dump_rings`, from slot `at` and cell `read` on.

    Returns the slot for which there was no room and its first cell, or the number of slots and of cells.
    """
    for which in range(at, len(slots)):
        ring = rings[slots[which]]
        room = fitting_room(shape[which, 0], most)
        start = reserve(room, cells, marks, spare)
        if start < 0:
            return which, read
        ring[START], ring[ROOM], ring[HEAD] = start, room, 0
        ring[LENGTH], ring[FRONT], ring[LATEST] = shape[which, 0], shape[which, 1], shape[which, 2]
        for place in range(ring[LENGTH]):
            copy_cell(in_cells, read, cells, start + place)
            if len(in_clock):
                clock[start + place] = in_clock[read]
            read += 1
    return len(slots), read
