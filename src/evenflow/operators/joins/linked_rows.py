"""The rows in the windows of keys, which stay while they are in a window: what joins and rules keep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.columns import EVER, Array
from evenflow.operators.compiled import compiled, grown
from evenflow.operators.keyed import Units, UnitState
from evenflow.operators.slots import KEY_BYTES, Longs, Slots, fitted
from evenflow.operators.windows.row_store import RowStore, from_bytes, to_bytes

NOTHING = to_bytes(pa.table({}))
ENDLESS = 1 << 62
"""Rows that no window reaches."""


class LinkedRows:
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

    def extract(self, unit: int) -> UnitState:
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        rows, counts = self._rows(slots)
        content = self._packed(rows)
        clock = self.clock[rows] if self.span else self.clock[:0]
        state = self.slots.key[slots], self.latest[slots], counts, clock, content, *self._more(slots)
        self._clear(slots)
        self.slots.drop(unit)
        self.gone += len(rows)
        self._compact()
        return state

    def install(self, unit: int, state: UnitState) -> None:
        keys, latest, counts, clock, content, *more = state
        slots = self.slots.add(unit, keys)
        self._fit()
        base = self._unpacked(content, counts)
        if self.span:
            self.clock[base : base + len(clock)] = clock
        self.latest[slots] = latest
        self._relink(slots, counts, base)
        self._install_more(slots, more)

    def sizes(self, units: Units) -> Longs:
        slots = self.slots.of(units)
        counts = self._counts(slots)
        row = 2 * self.store.row_bytes() + (64 if self.span else 32)  # half of the rows may be out of their windows
        return self.slots.per_unit(units, KEY_BYTES + 2 * 24 + row * counts.sum(axis=1))

    def _counts(self, slots: npt.NDArray[np.int32]) -> Longs:
        """The number of rows in the window of each side of each slot."""
        counts: Longs = _tally(slots, self.most, self.span, self.newest, self.latest, self.older, self.clock)
        return counts

    def _relink(self, slots: npt.NDArray[np.int32], counts: Longs, base: int) -> None:
        """Make the rows from `base` on, so many of each slot and side, their lists."""
        _link(slots, counts, base, self.newest, self.older)

    def _clear(self, slots: npt.NDArray[np.int32]) -> None:
        """Forget the lists of slots."""
        self.newest[slots], self.latest[slots] = -1, EVER

    def _more(self, slots: npt.NDArray[np.int32]) -> tuple[Array, ...]:
        """Further arrays that belong to the state of slots."""
        return ()

    def _install_more(self, slots: npt.NDArray[np.int32], more: Sequence[Array]) -> None:
        """Install the arrays of `_more`; there are none if an earlier version has stored the state."""

    def _packed(self, rows: Longs) -> UnitState:
        """The rows with these numbers, for another copy."""
        return to_bytes(self.store.take(rows)) if self.store.length else NOTHING

    def _unpacked(self, content: UnitState, counts: Longs) -> int:
        """Add what `_packed` returned; the number of the first row. `counts` has the rows of each slot and side."""
        return self._append(from_bytes(content))

    def _append(self, rows: pa.Table) -> int:
        base = self.store.append(rows)
        self._reach()
        return base

    def _reach(self) -> None:
        """Make the arrays that have an element for each row as long as the store."""
        if self.store.length > len(self.older):
            length = 2 * self.store.length
            self.older, self.clock = grown(self.older, length), grown(self.clock, length if self.span else 0)

    def _rows(self, slots: npt.NDArray[np.int32]) -> tuple[Longs, Longs]:
        """The numbers of the rows in the windows of some slots, and how many each side of each slot has.

        They come slot by slot, the left side first, the oldest row first.
        """
        counts = self._counts(slots)
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
        self._relink(slots, counts, 0)
        self.full, self.gone = 2 * len(rows) + 1024, 0

    def _fit(self) -> None:
        self.newest = fitted(self.newest, self.slots, -1)
        self.latest = fitted(self.latest, self.slots, EVER)


@compiled
def _cut(latest, span):  # type: ignore[no-untyped-def]
    """The time up to which rows have left the window."""
    return latest - span if span and latest > EVER + span else EVER


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
