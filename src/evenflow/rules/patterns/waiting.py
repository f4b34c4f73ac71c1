"""All waiting atoms as columns, and the rows of a frame; atoms are compared with rows many at a time."""

from __future__ import annotations

from heapq import heappush
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.compiled import grown
from evenflow.rules.patterns.filters import Filter
from evenflow.rules.patterns.plan import Plan
from evenflow.rules.patterns.rows import KeptRows
from evenflow.rules.patterns.search import LOOSE, OPERATORS, search
from evenflow.rules.patterns.states import Leaf

Longs = npt.NDArray[np.int64]
EARLIEST, LATEST = -(1 << 63), (1 << 63) - 1
EXACT = 1 << 53
"""Whole numbers below this are exact as doubles."""
AHEAD, PAIRS = 16, 8192
"""An atom is compared with AHEAD rows at a time, or with more as long as there are at most PAIRS comparisons."""
BATCH = 16_384
"""Atoms that are compared at a time."""


def doubles(column: pa.Array) -> npt.NDArray[np.float64]:
    """Numbers as doubles; null becomes NaN, which passes no comparison."""
    values = pc.cast(column, pa.float64(), safe=False)
    found: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
    return found


def rounded(numbers: npt.NDArray[np.float64]) -> bool:
    """Whether some numbers may be whole numbers that were rounded when they became doubles."""
    return bool((np.abs(numbers) >= EXACT).any())


class Owner(Protocol):
    """The run of one key, as far as its waiting atoms need it."""

    seen: int
    """The place of its first row in the frame that is not done."""
    end: int
    """The place after its last row in the frame."""
    events: list[tuple[int, int, int, int]]
    """A heap of (place, atom, age, handle): which atom is to take which row."""
    open: set[int]
    """Handles of atoms that must look further."""


class PatternFrame:
    """The rows of a frame that some atom may take, sorted by key: place i is row `rows[i]`, with time `times[i]`.

    `heads` are the first places of the keys.
    """

    def __init__(
        self, batch: pa.RecordBatch, rows: Longs, times: Longs, heads: Longs, masks: list[npt.NDArray[np.bool_]]
    ) -> None:
        self.batch, self.rows, self.times, self.heads = batch, rows, times, heads
        self.places = [np.flatnonzero(mask) for mask in masks]
        """For each atom, the places whose rows pass the local part of its filter."""
        self.checked: set[int] = set()
        """Atoms whose `numbers` have been checked for rounding."""
        self._numbers: dict[int, npt.NDArray[np.float64]] = {}

    def numbers(self, atom: int, filter_: Filter) -> npt.NDArray[np.float64]:
        """The columns that an atom's bounds compare, for all rows of the batch."""
        if atom not in self._numbers:
            columns = [doubles(self.batch.column(bound.own)) for bound in filter_.bounds]
            self._numbers[atom] = np.array(columns).reshape(len(columns), self.batch.num_rows)
        return self._numbers[atom]


class WaitingAtoms:
    """All atoms that wait, as columns; a leaf's `handle` is its index here.

    A leaf may take rows with `since <= time < until`; `match` are the row numbers of its match so far. In a frame, the
    rows that it has not been compared with are at `frame.places[atom][low:high]`, the first of them at place `ahead`.
    `bounds` are the numbers that rows are compared with; they are set when the leaf is `ready`.
    """

    def __init__(self, plan: Plan, kept: KeptRows) -> None:
        self.plan, self.kept = plan, kept
        self.leaves: list[tuple[Owner, Leaf] | None] = []
        self.free: list[int] = []
        self.atom = np.zeros(0, np.int64)
        self.since, self.until = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.low, self.high = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.ahead = np.zeros(0, np.int64)
        self.ready = np.zeros(0, np.int64)
        self.bounds = np.zeros((0, max(len(each.bounds) for each in plan.filters)))
        codes = [[OPERATORS[bound.operator] for bound in each.bounds] for each in plan.filters]
        self._strict = [np.array(each, np.int64) for each in codes]
        self._loose = [np.array([LOOSE[code] for code in each], np.int64) for each in codes]
        self._rounded = [False for _ in plan.filters]  # by atom: whether some numbers were not exact as doubles
        self.match = np.zeros((0, len(set(plan.places.values()))), np.int64)

    def add(self, run: Owner, leaf: Leaf) -> None:
        """A leaf begins to wait."""
        if not self.free:
            self._grow()
        leaf.handle = handle = self.free.pop()
        self.leaves[handle] = run, leaf
        self.atom[handle] = leaf.part.index
        self.match[handle], self.since[handle] = leaf.env
        self.ready[handle] = 0
        self.until[handle] = leaf.until

    def remove(self, leaf: Leaf) -> None:
        """A leaf no longer waits."""
        self.leaves[leaf.handle] = None
        self.free.append(leaf.handle)

    def run(self, handle: int) -> Owner:
        """The run that a leaf belongs to."""
        entry = self.leaves[handle]
        assert entry is not None
        return entry[0]

    def enter(self, frame: PatternFrame, handles: Longs, first: Longs, end: Longs) -> Longs:
        """Let leaves look at the places of the frame from `first` to `end`; returns the leaves that have any."""
        atoms = self.atom[handles]
        for atom, places in enumerate(frame.places):
            which = atoms == atom
            some = handles[which]
            self.low[some], self.high[some] = places.searchsorted(first[which]), places.searchsorted(end[which])
            unknown = some[self.ready[some] == 0]
            for number, bound in enumerate(self.plan.filters[atom].bounds if len(unknown) else ()):
                column = self._fetch(bound.tag, bound.column, unknown)
                self.bounds[unknown, number] = doubles(column)
                self._rounded[atom] |= rounded(self.bounds[unknown, number])
            self.ready[unknown] = 1
        return handles[self.low[handles] < self.high[handles]]

    def settled(self, frame: PatternFrame, run: Owner, leaf: Leaf) -> bool:
        """Whether a leaf depends on nothing but the local filter; then its event, if there is one, is added at once."""
        atom = leaf.part.index
        if self.plan.filters[atom].cross is not None or leaf.env[1] > EARLIEST or leaf.until < LATEST:
            return False
        places = frame.places[atom]
        nth = int(places.searchsorted(run.seen))
        if nth < len(places) and places[nth] < run.end:
            heappush(run.events, (int(places[nth]), atom, leaf.age, leaf.handle))
        return True

    def look(self, frame: PatternFrame, handles: Longs) -> Longs:
        """Compare each leaf with its next rows, and add the rows that pass to the runs' events.

        Returns the leaves that must look further.
        """
        ahead = max(AHEAD, PAIRS // max(1, len(handles)))
        for start in range(0, len(handles), BATCH):
            batch = handles[start : start + BATCH]
            atoms = self.atom[batch]
            for atom in np.unique(atoms).tolist():
                self._look(frame, atom, batch[atoms == atom], ahead)
        left = handles[self.low[handles] < self.high[handles]]
        for atom, places in enumerate(frame.places):
            some = left[self.atom[left] == atom]
            self.ahead[some] = places[self.low[some]]
        return left

    def rehearse(self, frame: PatternFrame) -> None:
        """Compile the code of all atoms by calling it with a frame without rows."""
        none = np.empty(0, np.int64)
        for atom, filter_ in enumerate(self.plan.filters):
            self._look(frame, atom, none, 1)
            if filter_.cross is not None:
                self._compare(filter_, frame, none, none, none)

    def _look(self, frame: PatternFrame, atom: int, handles: Longs, ahead: int) -> None:
        filter_, own = self.plan.filters[atom], frame.numbers(atom, self.plan.filters[atom])
        self._rounded[atom] |= atom not in frame.checked and rounded(own)
        frame.checked.add(atom)
        exact = filter_.simple and not self._rounded[atom]
        most = 1 if exact else ahead
        operators = (self._loose if self._rounded[atom] else self._strict)[atom]
        owner, place = np.empty(len(handles) * most, np.int64), np.empty(len(handles) * most, np.int64)
        rows = frame.places[atom], frame.rows, frame.times, own, operators
        leaves = handles, self.low, self.high, self.since, self.until, self.bounds
        count = search(*rows, *leaves, most, owner, place)
        owner, place = owner[:count], place[:count]
        if not exact and count:
            passing = self._compare(filter_, frame, frame.rows[place], handles, owner)
            owner, first = np.unique(owner[passing], return_index=True)
            place = place[passing][first]
        done = handles[owner]
        self.low[done] = self.high[done]
        for handle, at in zip(done.tolist(), place.tolist(), strict=True):
            entry = self.leaves[handle]
            assert entry is not None
            heappush(entry[0].events, (at, atom, entry[1].age, handle))

    def _compare(
        self, filter_: Filter, frame: PatternFrame, rows: Longs, handles: Longs, owner: Longs
    ) -> npt.NDArray[np.bool_]:
        index = pa.array(owner)

        def fetch(tag: str, column: str) -> pa.Array:
            return self._fetch(tag, column, handles).take(index)

        return filter_.matching(frame.batch, rows, fetch)

    def _fetch(self, tag: str, column: str, handles: Longs) -> pa.Array:
        """A column of a tag's rows in the matches of leaves, one value for each leaf."""
        return self.kept.column(column, self.match[handles, self.plan.places[tag]])

    def _grow(self) -> None:
        old = len(self.leaves)
        length = max(64, 2 * old)
        self.leaves += [None] * (length - old)
        self.free += range(length - 1, old - 1, -1)
        for name in ("atom", "since", "until", "low", "high", "ahead", "ready", "match", "bounds"):
            setattr(self, name, grown(getattr(self, name), length))
