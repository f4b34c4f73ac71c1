"""The event core of data planes, compiled: a binary heap of events by (time, priority, counter).

An event is a time in seconds and 64 bits that say what happens (`pack`). Events of one time come by priority, then in
the order in which they were pushed: so the same pushes always give the same pops, on any machine. The heap has a fixed
capacity; a data plane knows how many events it can have at once, and pushing more is an error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.model.compiled import compiled_in_place

FIELD = 28
"""Bits of each of the two numbers that an event has beside its kind."""
MASK = (1 << FIELD) - 1
COUNTER_BITS = 56
COUNT, PUSHED = 0, 1


class EventHeap(NamedTuple):
    """The arrays of a heap; entry 0 is the next event."""

    times: npt.NDArray[np.float64]
    orders: npt.NDArray[np.int64]
    """Priority in the top 7 bits, below it the number of the push."""
    whats: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    """How many events there are, and how many were ever pushed."""


def event_heap(capacity: int) -> EventHeap:
    """An empty heap for at most so many events at once."""
    return EventHeap(
        np.zeros(capacity), np.zeros(capacity, np.int64), np.zeros(capacity, np.int64), np.zeros(2, np.int64)
    )


@compiled_in_place
def pack(kind: int, one: int, other: int) -> np.int64:
    """What happens, as 64 bits: a kind below 128, and two numbers of 28 bits."""
    return (np.int64(kind) << (2 * FIELD)) | (np.int64(one) << FIELD) | np.int64(other)


@compiled_in_place
def unpack(what: int) -> tuple[int, int, int]:
    """The kind and the two numbers of `pack`."""
    return what >> (2 * FIELD), (what >> FIELD) & MASK, what & MASK


@compiled_in_place
def push(heap: EventHeap, time: float, priority: int, what: int) -> None:
    """Add an event; a lower priority comes first among events of one time."""
    times, orders, whats, counts = heap
    size = counts[0]
    if size >= len(times):
        raise OverflowError("the event heap of a data plane is full")
    order = (np.int64(priority) << COUNTER_BITS) | counts[1]
    counts[1] += 1
    counts[0] = size + 1
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if times[above] < time or (times[above] == time and orders[above] < order):
            break
        times[at], orders[at], whats[at] = times[above], orders[above], whats[above]
        at = above
    times[at], orders[at], whats[at] = time, order, what


@compiled_in_place
def pop(heap: EventHeap) -> tuple[float, int]:
    """Take out the next event: its time, and what happens. There must be one: `heap.counts[0] > 0`."""
    times, orders, whats, counts = heap
    first, what = times[0], whats[0]
    size = counts[0] - 1
    counts[0] = size
    time, order, last = times[size], orders[size], whats[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        right = below + 1
        if right < size and (
            times[right] < times[below] or (times[right] == times[below] and orders[right] < orders[below])
        ):
            below = right
        if time < times[below] or (time == times[below] and order < orders[below]):
            break
        times[at], orders[at], whats[at] = times[below], orders[below], whats[below]
        at = below
    if size > 0:
        times[at], orders[at], whats[at] = time, order, last
    return first, what


@compiled_in_place
def next_time(heap: EventHeap) -> float:
    """The time of the next event; infinite if there is none."""
    return heap.times[0] if heap.counts[0] > 0 else np.inf
