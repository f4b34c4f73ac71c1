"""One array of cells in which all keys' rings have their room, and how rooms are given out and taken back.

A ring is a row of numbers: its room is the cells from START on, ROOM of them; its content is LENGTH cells from HEAD on
(counted from START, and going on at the start of the room where it ends), oldest first. FRONT and LATEST are explained
in `rings`. `marks` tells how many cells have been given out (TOP), and how many of these rings still have (LIVE).

Rooms have 4, 8, 16, ... cells, or as many as a window can have at most. Rooms that are given up are kept in one list
per size (`spare`), linked through their first cells, and used again: units come and go without the array being copied.

Where numba keeps its code on disk it does not notice changes of this file: touch the files that use it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenflow.operators.columns import Array
from evenflow.operators.compiled import compiled_in_place
from evenflow.operators.slots import Longs

START, ROOM, HEAD, LENGTH, FRONT, LATEST = range(6)
TOP, LIVE = range(2)
SMALLEST = 4
"""Cells of the smallest room."""


class Arena(NamedTuple):
    """All rings and their cells, for compiled code."""

    rings: Longs
    """By slot, the numbers of its ring."""
    backs: Array
    """By slot, the aggregate of the back of its ring (see `rings`)."""
    cells: Array
    clock: Longs
    """By cell, the time of its row; empty if windows are in rows."""
    marks: Longs
    spare: Longs


class DumpedRings(NamedTuple):
    """Some slots' rings, taken out of the arena."""

    shape: Longs
    """By slot, LENGTH, FRONT and LATEST."""
    cells: Array
    """The cells of all rings, one ring after the other, each oldest first."""
    clock: Longs


@compiled_in_place
def cell_of(ring, place):  # type: ignore[no-untyped-def]
    """The index in the arena of a ring's cell; `place` 0 is the oldest."""
    place += ring[HEAD]
    return ring[START] + (place if place < ring[ROOM] else place - ring[ROOM])


@compiled_in_place
def copy_cell(source, at, target, to):  # type: ignore[no-untyped-def]
    """Copy the aggregate in cell `at` to cell `to` of another array, or of the same."""
    for part in range(source.shape[1]):
        target[to, part] = source[at, part]


@compiled_in_place
def fitting_room(length, most):  # type: ignore[no-untyped-def]
    """The size of the room for a ring of `length` cells; windows have at most `most`."""
    room = SMALLEST
    while room < length:
        room *= 2
    return min(room, most)


@compiled_in_place
def _grade(room):  # type: ignore[no-untyped-def]
    """The number of the list of spare rooms of this size; the sizes that occur in one arena have different lists."""
    grade = 0
    while 1 << grade < room:
        grade += 1
    return grade


@compiled_in_place
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


@compiled_in_place
def _give_up(start, room, cells, marks, spare):  # type: ignore[no-untyped-def]
    """Put a room into the list of spare rooms."""
    if room:
        grade = _grade(room)
        cells[start, 0] = spare[grade]
        spare[grade] = start
        marks[LIVE] -= room


@compiled_in_place
def free_rings(slots, arena):  # type: ignore[no-untyped-def]
    """Put the rooms of some slots' rings into the lists of spare rooms."""
    rings, _, cells, _, marks, spare = arena
    for slot in slots:
        _give_up(rings[slot, START], rings[slot, ROOM], cells, marks, spare)
        rings[slot, ROOM] = 0


@compiled_in_place
def enlarge(most, ring, cells, clock, marks, spare):  # type: ignore[no-untyped-def]
    """Move a full ring to a room of twice the size; False if the arena is full."""
    room = fitting_room(ring[LENGTH] + 1, most)
    start = reserve(room, cells, marks, spare)
    if start < 0:
        return False
    old = ring[START]
    _move(ring, cells, clock, start, cells, clock)
    _give_up(old, ring[ROOM], cells, marks, spare)
    ring[ROOM] = room
    return True


@compiled_in_place
def _move(ring, cells, clock, start, new_cells, new_clock):  # type: ignore[no-untyped-def]
    """Copy a ring's cells, oldest first, to `start` of the new arrays, which becomes the start of the ring."""
    for place in range(ring[LENGTH]):
        source = cell_of(ring, place)
        copy_cell(cells, source, new_cells, start + place)
        if len(new_clock):
            new_clock[start + place] = clock[source]
    ring[START], ring[HEAD] = start, 0


@compiled_in_place
def pack_rings(most, order, arena, held_cells, held_clock):  # type: ignore[no-untyped-def]
    """Close all gaps between rings, which are given in the order of their starts; shrink rooms that are mostly empty.

    Returns the new TOP and LIVE. Each ring goes through the `held` arrays, since its old and new room may overlap.
    """
    rings, _, cells, clock, _, _ = arena
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


@compiled_in_place
def list_cells(slots, rings, found):  # type: ignore[no-untyped-def]
    """Fill `found` with the cells of some slots' rings."""
    top = 0
    for slot in slots:
        for place in range(rings[slot, LENGTH]):
            found[top] = cell_of(rings[slot], place)
            top += 1


@compiled_in_place
def dump_rings(slots, arena, out_cells, out_clock):  # type: ignore[no-untyped-def]
    """Copy the cells of some slots' rings, one ring after the other, each oldest first."""
    rings, _, cells, clock, _, _ = arena
    top = 0
    for slot in slots:
        ring = rings[slot]
        for place in range(ring[LENGTH]):
            source = cell_of(ring, place)
            copy_cell(cells, source, out_cells, top)
            if len(out_clock):
                out_clock[top] = clock[source]
            top += 1


@compiled_in_place
def load_rings(slots, at, read, most, arena, dumped):  # type: ignore[no-untyped-def]
    """The reverse of `dump_rings`, from slot `at` and cell `read` on.

    Returns the slot for which there was no room and its first cell, or the number of slots and of cells.
    """
    rings, _, cells, clock, marks, spare = arena
    shape, in_cells, in_clock = dumped
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
