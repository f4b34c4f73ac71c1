"""Windows whose rows come out all at a time: so many rows, or those of one stretch of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.operators.compiled import compiled, readable
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.slots import Longs
from evenflow.rules.memory import Rows


@dataclass(frozen=True)
class Released:
    """Rows of batches that ended; the batch of each, from 0 on, and for each batch the place of what ended it."""

    table: pa.Table
    batch: Longs
    ends: Longs


class Batches(Rows):
    """The rows of each key's batches that have not ended.

    A batch of time is known by its number, which is the row's time here. `latest`, of which there is no other use for
    batches of rows, counts the rows of a batch.
    """

    def __init__(self, rows: int, span: int) -> None:
        super().__init__(0, 1 if span else 0)
        self.length, self.stretch = rows, span

    def enter(
        self, units: Units, keys: Keys, rows: pa.RecordBatch, index: Any, times: Longs, marks: Longs
    ) -> Released | None:
        """Take rows in; those of batches that end with them. `marks` are the times before which no row will come."""
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
        lists = self.newest, self.latest, self.older, self.clock
        used, batches = _release(slots, base, self.length, readable(closed, np.int64), *lists, out, ends)
        if not used:
            return None
        self.gone += used
        return Released(self.table(out[:used, 0].copy()), out[:used, 1].copy(), ends[:batches].copy())

    def tidy(self) -> None:
        """Let go of rows that have been given out."""
        self._compact()


@compiled
def _release(slots, base, length, closed, newest, latest, older, clock, out, ends):  # type: ignore[no-untyped-def]
    """Enter rows; list (row, batch) of those given out, and the place that ended each batch. How many of both."""
    used, batches = 0, 0
    for row in range(len(slots)):
        slot, number = slots[row], base + row
        if len(closed):
            newer, place = -1, newest[slot, 0]
            while place >= 0 and clock[place] >= closed[row]:
                newer, place = place, older[place]
            if place >= 0:
                if newer < 0:
                    newest[slot, 0] = -1
                else:
                    older[newer] = -1
                used, batches = _give(place, row, older, clock, out, ends, used, batches)
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
                used, batches = _give(number, row, older, clock, out, ends, used, batches)
    return used, batches


@compiled
def _give(place, row, older, clock, out, ends, used, batches):  # type: ignore[no-untyped-def]
    """List the rows from `place` back, oldest first, in batches by their times."""
    start = used
    while place >= 0:
        out[used, 0] = place
        used += 1
        place = older[place]
    low, high = start, used - 1
    while low < high:
        out[low, 0], out[high, 0] = out[high, 0], out[low, 0]
        low += 1
        high -= 1
    for which in range(start, used):
        if which == start or (len(clock) and clock[out[which, 0]] != clock[out[which - 1, 0]]):
            ends[batches] = row
            batches += 1
        out[which, 1] = batches - 1
    return used, batches
