"""The window of one side of a join in a rule, and the pairs that later rows make with its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.columns import EVER, locked
from evenflow.operators.compiled import compiled, readable
from evenflow.operators.joins.linked_rows import LinkedRows
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.slots import Longs

BLOCK = 1 << 18
"""Pairs in a block, at most, unless a single row makes more."""


class Lists(NamedTuple):
    """The lists of `LinkedRows` for compiled code."""

    newest: Longs
    latest: Longs
    older: Longs
    clock: Longs


class RowLists(LinkedRows):
    """Lists of rows per key; only the first side of `LinkedRows` is used."""

    def __init__(self, rows: int, span: int) -> None:
        super().__init__(rows, span)
        self.columns: set[str] = set()
        """The columns of the rows that are kept."""

    @property
    def lists(self) -> Lists:
        """The lists as they are now: their arrays are other ones after rows have been added or dropped."""
        return Lists(self.newest, self.latest, self.older, self.clock)

    def tidy(self) -> None:
        """Drop rows that are in no window; row numbers change."""
        self._compact()

    def keep(self, rows: pa.RecordBatch, index: npt.NDArray[np.int64] | None) -> int:
        """Append rows (those at the places `index`; None for all); returns the number of the first."""
        names = sorted(self.columns)
        kept = rows.select(names) if names else pa.record_batch({"": pa.nulls(rows.num_rows, pa.int8())})
        kept = kept if index is None else kept.take(pa.array(index))
        return self._append(pa.Table.from_batches([kept]))

    def table(self, numbers: Longs) -> pa.Table:
        """The rows with these numbers."""
        return self.store.take(numbers)


class Seen(NamedTuple):
    """For each row of a frame, the part of a window that it sees, as the window was when the row came.

    This part is the list from row number `heads` back, without row numbers >= `bounds` and without times <= `cuts`.
    """

    slots: npt.NDArray[np.int32]
    heads: Longs
    bounds: Longs
    cuts: Longs


class Memory(RowLists):
    """The windows of all keys: the last `rows` rows, or those of the last `span` microseconds."""

    def enter(
        self,
        units: Units,
        looks: Keys,
        enters: Keys,
        entering: Longs | None,
        rows: pa.RecordBatch,
        times: Longs,
        latest: Longs,
        itself: bool = False,
    ) -> Seen:
        """Add the rows at the places `entering` (None for all) to the windows of their keys in `enters`.

        Returns what each row sees of the window of its key in `looks`: before it enters any window, or after it if it
        is to see `itself`; then the keys are the same, and the last of `bounds` is the row itself.
        """
        slots = self.slots.find(units, looks)
        own = slots if enters is looks else self.slots.find(units, enters)
        self._fit()
        count = len(units)
        base = self.keep(rows, entering)
        flags = np.ones(count, np.bool_) if entering is None else np.zeros(count, np.bool_)
        if entering is not None:
            flags[entering] = True
        if self.span:
            self.clock[base : base + int(flags.sum())] = times[flags]
        heads, bounds, cuts = (np.empty(count, np.int64) for _ in range(3))
        seen = Seen(slots, heads, bounds, cuts)
        _enter(self.lists, seen, own, flags, locked(latest), base=base, span=self.span, itself=itself)
        return seen

    def pairs(self, seen: Seen, places: npt.NDArray[np.int64]) -> Iterator[tuple[Longs, Longs, pa.Table]]:
        """The pairs of the rows at these places with the rows that they see, in blocks.

        A block has, for each pair, the index in `places` and the row in a table, oldest first; and the table.
        """
        which, numbers = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
        mark = np.zeros(self.store.length, np.int32)
        done = 0
        while done < len(places):
            start = done
            wanted = readable(places, np.int64)
            done, used = _list_pairs(self.lists, seen, wanted, done, which, numbers, most=self.most, span=self.span)
            if done == start:
                which, numbers = np.empty(2 * len(which), np.int64), np.empty(2 * len(which), np.int64)
                continue
            if used:
                met = np.empty(min(used, self.store.length), np.int64)
                count = _localise(numbers[:used], mark, met)
                yield which[:used], numbers[:used], self.table(met[:count])

    def lapse(self, units: Units, now: int) -> None:
        """Time has reached `now` (microseconds): drop empty time windows, and rows that have left the others."""
        slots = self.slots.of(units)
        newest = self.newest[slots, 0]
        held = newest >= 0
        held[held] = self.clock[newest[held]] > now - self.span
        self.latest[slots] = np.maximum(self.latest[slots], now)
        gone = slots[~held]
        if len(gone):
            self.newest[gone], self.latest[gone] = -1, EVER
            self.slots.forget(gone)


@compiled
def _enter(lists, seen, own, flags, latest, base, span, itself):  # type: ignore[no-untyped-def]
    newest, latest_of, older, clock = lists
    slots, heads, bounds, cuts = seen
    number = base
    for row in range(len(slots)):
        slot = slots[row]
        cut = EVER
        if span:
            latest_of[slot] = max(latest_of[slot], latest[row])
            cut = latest[row] - span if latest[row] > EVER + span else EVER
        heads[row], bounds[row], cuts[row] = newest[slot, 0], number + itself, cut
        if not flags[row]:
            continue
        slot = own[row]
        newer, place = -1, newest[slot, 0]
        if span:
            latest_of[slot] = max(latest_of[slot], latest[row])
            if clock[number] <= cut:
                number += 1
                continue
            while place >= 0 and clock[place] > clock[number]:
                newer, place = place, older[place]
        older[number] = place
        if newer < 0:
            newest[slot, 0] = number
        else:
            older[newer] = number
        if itself:
            heads[row] = newest[slot, 0]
        number += 1


@compiled
def _list_pairs(lists, seen, places, at, which, numbers, most, span):  # type: ignore[no-untyped-def]
    """List pairs for places from `at` on. Returns the first place for which there was no room, and the pairs listed."""
    _, _, older, clock = lists
    _, heads, bounds, cuts = seen
    used = 0
    for place in range(at, len(places)):
        row = places[place]
        start = used
        number = heads[row]
        while number >= 0 and used - start < most and not (span and clock[number] <= cuts[row]):
            if number < bounds[row]:
                if used == len(which):
                    return place, start
                which[used], numbers[used] = place, number
                used += 1
            number = older[number]
        low, high = start, used - 1
        while low < high:
            numbers[low], numbers[high] = numbers[high], numbers[low]
            low += 1
            high -= 1
    return len(places), used


@compiled
def _localise(numbers, mark, met):  # type: ignore[no-untyped-def]
    """Replace row numbers by new ones from 0 on, and list the old numbers in `met`; returns how many there are.

    `mark` is all zeros before and after.
    """
    count = 0
    for pair in range(len(numbers)):
        number = numbers[pair]
        if mark[number] == 0:
            met[count] = number
            count += 1
            mark[number] = count
        numbers[pair] = mark[number] - 1
    for which in range(count):
        mark[met[which]] = 0
    return count
