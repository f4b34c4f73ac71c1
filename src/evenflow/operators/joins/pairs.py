"""The windows of a join: for each key, the rows of both sides, and the pairs that new rows make with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.columns import EVER, Array
from evenflow.operators.compiled import compiled_in_place, grown, readable
from evenflow.operators.joins.linked_rows import LinkedRows
from evenflow.operators.keyed import Keys, Origin, Units
from evenflow.operators.slots import Longs, fitted

LAST = np.iinfo(np.int64).max
OLDEST, NEAR = 0, 1


class PairLists(NamedTuple):
    """The arrays of `Pairs`, as compiled code takes them."""

    heads: Longs
    newest: Longs
    held: Longs
    left: Longs
    older: Longs
    newer: Longs
    clock: Longs
    latest: Longs
    missed: Longs


class PairWindow(NamedTuple):
    """Which rows of the other side a row meets."""

    most: int
    span: int
    told: bool


class NewRows(NamedTuple):
    """Rows to be paired; row n of them has number `base + n` in the store."""

    slots: npt.NDArray[np.int32]
    sides: npt.NDArray[np.int32]
    base: int


class Pairs(LinkedRows):
    """Rows that meet those of the other side; lists are linked in both directions, and hold what is in the window.

    A window is the last `rows` rows of a side, or all rows less than `span` microseconds apart. Rows leave a window in
    time when no row can come any more that is so near to them. If `told`, `pass_time` makes them leave; otherwise each
    row of the key, of either side, makes rows leave that are `span` older.
    """

    def __init__(self, rows: int, span: int, told: bool = False) -> None:
        super().__init__(rows, span)
        self.told = told
        capacity = self.slots.capacity
        self.heads = np.full((capacity, 2, 2), -1, np.int64)
        """By slot and side: the first row of the list, and the one where the last search ended."""
        self.held = np.zeros((capacity, 2), np.int64)
        self.left = np.full((capacity, 2), EVER, np.int64)
        """By slot and side: the latest time of a row that has left the window."""
        self.newer = np.empty(len(self.older), np.int64)
        self.missed = np.zeros(2, np.int64)
        """By side, the rows that came too late: rows of the other side that they would have met had left the window."""

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

    def pass_time(self, units: Units, now: int | Longs) -> None:
        """No row of these units from before `now` comes any more: rows leave that only such rows would have met.

        `now` is one time, or one for each of the units.
        """
        if self.span:
            cuts = np.maximum(now, EVER + self.span) - self.span
            slots, each = self.slots.of(units), np.repeat(np.broadcast_to(cuts, len(units)), self.slots.counts(units))
            self.gone += _expire(readable(slots, np.int32), readable(each, np.int64), self._lists)
            self._compact()

    def tallies(self, left: str = "left", right: str = "right") -> dict[str, int]:
        """Rows that may lack pairs because they came too late, together and by side."""
        if not self.span:
            return {}
        one, other = self.missed.tolist()
        return {"late": one + other, f"late of {left}": one, f"late of {right}": other}

    @property
    def _lists(self) -> PairLists:
        return PairLists(
            heads=self.heads,
            newest=self.newest,
            held=self.held,
            left=self.left,
            older=self.older,
            newer=self.newer,
            clock=self.clock,
            latest=self.latest,
            missed=self.missed,
        )

    def _matched(
        self, slots: npt.NDArray[np.int32], sides: npt.NDArray[np.int32], times: Longs, base: int
    ) -> tuple[Longs, Longs, Origin]:
        """The pairs of new rows, which have the numbers from `base` on: left, right, and which row completed each."""
        if self.span:
            self.clock[base : base + len(slots)] = times
        rows, window, lists = NewRows(slots, sides, base), PairWindow(self.most, self.span, self.told), self._lists
        pairs = np.empty((max(1024, len(slots)), 3), np.int64)
        done, used = _match(rows, 0, window, lists, pairs, 0)
        while done < len(slots):
            pairs = grown(pairs, 2 * len(pairs))
            done, used = _match(rows, done, window, lists, pairs, used)
        left, right, origin = (np.ascontiguousarray(part) for part in pairs[:used].T)
        return left, right, origin

    def _compact(self) -> None:
        if not (self.told and self.span) or 2 * self.gone > self.store.length + 1024:  # else all rows are in windows
            super()._compact()

    def _reach(self) -> None:
        super()._reach()
        if len(self.newer) < len(self.older):
            self.newer = grown(self.newer, len(self.older))

    def _counts(self, slots: npt.NDArray[np.int32]) -> Longs:
        return self.held[slots]

    def _relink(self, slots: npt.NDArray[np.int32], counts: Longs, base: int) -> None:
        super()._relink(slots, counts, base)
        self.held[slots] = counts
        _link_back(slots, self.heads, self.newest, self.older, self.newer)

    def _clear(self, slots: npt.NDArray[np.int32]) -> None:
        super()._clear(slots)
        self.heads[slots], self.held[slots], self.left[slots] = -1, 0, EVER

    def _more(self, slots: npt.NDArray[np.int32]) -> tuple[Array, ...]:
        return (self.left[slots],)

    def _install_more(self, slots: npt.NDArray[np.int32], more: Sequence[Array]) -> None:
        if more:
            self.left[slots] = more[0]

    def _fit(self) -> None:
        super()._fit()
        self.heads = fitted(self.heads, self.slots, -1)
        self.held = fitted(self.held, self.slots)
        self.left = fitted(self.left, self.slots, EVER)


@compiled_in_place
def _leave(slot, side, cut, lists):  # type: ignore[no-untyped-def]
    """Rows of a list up to time `cut` leave it; how many there were."""
    heads, newest, held, left, older, newer, clock, _, _ = lists
    count, row = 0, heads[slot, side, OLDEST]
    while row >= 0 and clock[row] <= cut:
        left[slot, side] = max(left[slot, side], clock[row])
        row = newer[row]
        count += 1
    if count:
        near = heads[slot, side, NEAR]
        if near >= 0 and clock[near] <= cut:
            heads[slot, side, NEAR] = row
        heads[slot, side, OLDEST] = row
        held[slot, side] -= count
        if row < 0:
            newest[slot, side] = -1
        else:
            older[row] = -1
    return count


@compiled_in_place
def _expire(slots, cuts, lists):  # type: ignore[no-untyped-def]
    """Rows of some slots up to the time in `cuts` leave; how many there were."""
    heads, clock = lists.heads, lists.clock
    count = 0
    for which, slot in enumerate(slots):
        for side in range(2):
            row = heads[slot, side, OLDEST]
            if row >= 0 and clock[row] <= cuts[which]:
                count += _leave(slot, side, cuts[which], lists)
    return count


@compiled_in_place
def _first_after(slot, side, low, lists):  # type: ignore[no-untyped-def]
    """The first row of a list that is not empty after time `low`, from where the last search ended; -1 if none is."""
    heads, older, newer, clock = lists.heads, lists.older, lists.newer, lists.clock
    near = heads[slot, side, NEAR]
    row = near if near >= 0 else heads[slot, side, OLDEST]
    while older[row] >= 0 and clock[older[row]] > low:
        row = older[row]
    while clock[row] <= low and newer[row] >= 0:
        row = newer[row]
    heads[slot, side, NEAR] = row
    return row if clock[row] > low else -1


@compiled_in_place
def _keep(slot, side, number, most, span, lists):  # type: ignore[no-untyped-def]
    """Put a row into its list, which is sorted by time; the oldest row leaves a full window in rows."""
    heads, newest, held, _, older, newer, clock, _, _ = lists
    behind, place = -1, newest[slot, side]
    while span and place >= 0 and clock[place] > clock[number]:
        behind, place = place, older[place]
    older[number], newer[number] = place, behind
    if place < 0:
        heads[slot, side, OLDEST] = number
    else:
        newer[place] = number
    if behind < 0:
        newest[slot, side] = number
    else:
        older[behind] = number
    held[slot, side] += 1
    if held[slot, side] > most:
        first = newer[heads[slot, side, OLDEST]]
        heads[slot, side, OLDEST], older[first] = first, -1
        held[slot, side] -= 1


@compiled_in_place
def _match(rows, at, window, lists, pairs, used):  # type: ignore[no-untyped-def]
    """Pair rows from `at` on, and keep them.

    Returns the first row for which `pairs` had no room, or the number of rows; and how much of `pairs` is used.
    """
    slots, sides, base = rows
    most, span, told = window
    heads, _, _, left, _, newer, clock, latest, missed = lists
    for row in range(at, len(slots)):
        slot, side, number, start = slots[row], sides[row], base + row, used
        low, high = EVER, LAST
        if span:
            time = clock[number]
            low = time - span if time > EVER + span else EVER
            high = time + span if time < LAST - span else LAST
            if not told and time > latest[slot]:
                latest[slot] = time
                for each in range(2):
                    first = heads[slot, each, OLDEST]
                    if first >= 0 and clock[first] <= low:
                        _leave(slot, each, low, lists)
            elif not told and latest[slot] > EVER + span and time <= latest[slot] - span:
                missed[side] += 1
                left[slot, side] = max(left[slot, side], time)
                continue
        other = heads[slot, 1 - side, OLDEST]
        if span and other >= 0:
            other = _first_after(slot, 1 - side, low, lists)
        while other >= 0 and not (span and clock[other] >= high):  # oldest first
            if used == len(pairs):
                return row, start
            pairs[used, side], pairs[used, 1 - side], pairs[used, 2] = number, other, row
            used += 1
            other = newer[other]
        if span and left[slot, 1 - side] > low:
            missed[side] += 1
        _keep(slot, side, number, most, span, lists)
    return len(slots), used


@compiled_in_place
def _link_back(slots, heads, newest, older, newer):  # type: ignore[no-untyped-def]
    """Link lists from the oldest row to the newest, which are linked from the newest to the oldest."""
    for slot in slots:
        for side in range(2):
            behind, row = -1, newest[slot, side]
            while row >= 0:
                newer[row] = behind
                behind, row = row, older[row]
            heads[slot, side, OLDEST], heads[slot, side, NEAR] = behind, -1
