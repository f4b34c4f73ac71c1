"""The windows of a join: for each key, the rows of both sides, and the pairs that new rows make with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.columns import EVER
from evenflow.operators.compiled import compiled, grown
from evenflow.operators.keyed import Keys, Origin, Units
from evenflow.operators.row_store import RowStore, from_bytes, to_bytes
from evenflow.operators.slots import KEY_BYTES, Longs, Slots, fitted

NOTHING = to_bytes(pa.table({}))
ENDLESS = 1 << 62
"""Rows that no window reaches."""


class Pairs:
    """Rows in a store; each slot has a list of row numbers per side: `newest[slot, side]`, then `older[row]`, until -1.

    A window is the last `rows` rows of a side, or those of the last `span` microseconds; then lists are sorted by time.
    Rows that have left the window stay in list and store until the store has doubled; then they are dropped.
    """

    def __init__(self, rows: int, span: int) -> None:
        self.most, self.span = rows or ENDLESS, span
        self.slots = Slots()
        self.newest = np.full((self.slots.capacity, 2), -1, np.int64)
        self.latest = np.full(self.slots.capacity, EVER, np.int64)
        self.store = RowStore()
        self.older = np.empty(1024, np.int64)
        self.clock = np.empty(1024 if span else 0, np.int64)
        self.full, self.gone = 1024, 0

    def push(
        self, units: Units, keys: Keys, sides: npt.NDArray[np.int32], times: Longs, rows: pa.RecordBatch
    ) -> tuple[pa.Table, pa.Table, Origin]:
        """The left rows and the right rows of all pairs, and the position of the row that completed each pair."""
        slots = self.slots.find(units, keys)
        self._fit()
        table = pa.Table.from_batches([rows])
        if not len(slots):
            return table, table, np.empty(0, np.int64)
        left, right, origin = self._matched(slots, sides, times, self._append(table))
        result = self.store.take(left), self.store.take(right), origin
        self._compact()
        return result

    def _matched(
        self, slots: npt.NDArray[np.int32], sides: npt.NDArray[np.int32], times: Longs, base: int
    ) -> tuple[Longs, Longs, Origin]:
        """The pairs of new rows, which have the numbers from `base` on: left, right, and which row completed each."""
        if self.span:
            self.clock[base : base + len(slots)] = times
        window = self.most, self.span, self.newest, self.latest, self.older, self.clock
        pairs = np.empty((max(1024, len(slots)), 3), np.int64)
        done, used = 0, 0
        while True:
            done, used = _match(slots, sides, base, done, used, *window, pairs)
            if done == len(slots):
                break
            pairs = grown(pairs, 2 * len(pairs))
        left, right, origin = (np.ascontiguousarray(part) for part in pairs[:used].T)
        return left, right, origin

    def extract(self, unit: int) -> Any:
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        rows, counts = self._rows(slots)
        content = self._packed(rows)
        clock = self.clock[rows] if self.span else self.clock[:0]
        state = self.slots.key[slots], self.latest[slots], counts, clock, content
        self.newest[slots], self.latest[slots] = -1, EVER
        self.slots.drop(unit)
        self.gone += len(rows)
        self._compact()
        return state

    def install(self, unit: int, state: Any) -> None:
        keys, latest, counts, clock, content = state
        slots = self.slots.add(unit, keys)
        self._fit()
        base = self._unpacked(content, counts)
        if self.span:
            self.clock[base : base + len(clock)] = clock
        self.latest[slots] = latest
        _link(slots, counts, base, self.newest, self.older)

    def sizes(self, units: Units) -> Longs:
        slots = self.slots.of(units)
        counts = _tally(slots, self.most, self.span, self.newest, self.latest, self.older, self.clock)
        row = 2 * self.store.row_bytes() + (64 if self.span else 32)  # half of the rows may be out of their windows
        return self.slots.per_unit(units, KEY_BYTES + 2 * 24 + row * counts.sum(axis=1))

    def _packed(self, rows: Longs) -> Any:
        """The rows with these numbers, for another copy."""
        return to_bytes(self.store.take(rows)) if self.store.length else NOTHING

    def _unpacked(self, content: Any, counts: Longs) -> int:
        """Add what `_packed` returned; the number of the first row. `counts` has the rows of each slot and side."""
        return self._append(from_bytes(content))

    def _append(self, rows: pa.Table) -> int:
        base = self.store.append(rows)
        self._reach()
        return base

    def _reach(self) -> None:
        """Make room for what is told of each row in the store."""
        if self.store.length > len(self.older):
            length = 2 * self.store.length
            self.older, self.clock = grown(self.older, length), grown(self.clock, length if self.span else 0)

    def _rows(self, slots: npt.NDArray[np.int32]) -> tuple[Longs, Longs]:
        """The rows in the windows of the slots, left before right and oldest first; and the count of each side."""
        counts = _tally(slots, self.most, self.span, self.newest, self.latest, self.older, self.clock)
        rows = np.empty(counts.sum(), np.int64)
        _list(slots, counts, self.newest, self.older, rows)
        return rows, counts

    def _compact(self) -> None:
        if self.store.length <= self.full and 2 * self.gone <= self.store.length + 1024:
            return
        slots = np.flatnonzero((self.newest >= 0).any(axis=1)).astype(np.int32)
        rows, counts = self._rows(slots)
        self.store.keep(rows)
        if self.span:
            self.clock[: len(rows)] = self.clock[rows]
        _link(slots, counts, 0, self.newest, self.older)
        self.full, self.gone = 2 * len(rows) + 1024, 0

    def _fit(self) -> None:
        self.newest = fitted(self.newest, self.slots, -1)
        self.latest = fitted(self.latest, self.slots, EVER)


@compiled
def _cut(latest, span):  # type: ignore[no-untyped-def]
    """The time up to which rows have left the window."""
    return latest - span if span and latest > EVER + span else EVER


@compiled
def _match(slots, sides, base, at, used, most, span, newest, latest, older, clock, pairs):  # type: ignore[no-untyped-def]
    """Pair rows from `at` on, and keep them.

    Returns the first row for which `pairs` had no room, or the number of rows; and how much of `pairs` is used.
    """
    for row in range(at, len(slots)):
        slot, side, number = slots[row], sides[row], base + row
        if span:
            latest[slot] = max(latest[slot], clock[number])
        cut = _cut(latest[slot], span)
        if span and clock[number] <= cut:
            continue
        start = used
        other = newest[slot, 1 - side]
        while other >= 0 and used - start < most and not (span and clock[other] <= cut):
            if used == len(pairs):
                return row, start
            pairs[used, side], pairs[used, 1 - side], pairs[used, 2] = number, other, row
            used += 1
            other = older[other]
        low, high = start, used - 1
        while low < high:  # oldest first; the new row is the same in all these pairs
            pairs[low, 1 - side], pairs[high, 1 - side] = pairs[high, 1 - side], pairs[low, 1 - side]
            low += 1
            high -= 1
        newer, place = -1, newest[slot, side]  # as a function of its own this is not inlined, and costs a third
        while span and place >= 0 and clock[place] > clock[number]:
            newer, place = place, older[place]
        older[number] = place
        if newer < 0:
            newest[slot, side] = number
        else:
            older[newer] = number
    return len(slots), used


@compiled
def _tally(slots, most, span, newest, latest, older, clock):  # type: ignore[no-untyped-def]
    """The number of rows in the window of each side of each slot."""
    counts = np.zeros((len(slots), 2), np.int64)
    for which in range(len(slots)):
        cut = _cut(latest[slots[which]], span)
        for side in range(2):
            row = newest[slots[which], side]
            while row >= 0 and counts[which, side] < most and not (span and clock[row] <= cut):
                counts[which, side] += 1
                row = older[row]
    return counts


@compiled
def _list(slots, counts, newest, older, rows):  # type: ignore[no-untyped-def]
    """Fill `rows` with the newest `counts` rows of each side of each slot, oldest first."""
    end = 0
    for which in range(len(slots)):
        for side in range(2):
            end += counts[which, side]
            row = newest[slots[which], side]
            for back in range(counts[which, side]):
                rows[end - 1 - back] = row
                row = older[row]


@compiled
def _link(slots, counts, base, newest, older):  # type: ignore[no-untyped-def]
    """The reverse of `_list`: link the rows from `base` on into the lists of the slots."""
    row = base
    for which in range(len(slots)):
        for side in range(2):
            before = -1
            for _ in range(counts[which, side]):
                older[row] = before
                before = row
                row += 1
            newest[slots[which], side] = before
