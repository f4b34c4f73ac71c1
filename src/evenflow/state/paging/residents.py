"""Units in memory: how many bytes they take, how they grow, and which have been there longest.

The weight of a unit is the larger of two: what its operator says (`sizes`), times a ratio; and what the unit itself
turned out to weigh when it was last taken out. The ratio is how much larger the unit turned out then than the operator
had said, or of a unit that was never taken out, what others have taught; it is at least 1. Where the operator says
nothing, units are taken out to be weighed, each again after a quarter more rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from evenflow.scratch.files import Part
from evenflow.state.paging.operator import Operator, Units, sizes_of
from evenflow.state.paging.sizing import bytes_of

Longs = npt.NDArray[np.int64]

FIXED = 1024
"""Bytes by which a pickled state is larger than the same state inside its operator."""
SUDDEN = 1024
"""Bytes that a row may suddenly add, after rows have added none for long, without exceeding the budget by much."""
FADING = 16_384
"""Rows after which only half of an earlier growth is still expected, if growth was smaller since."""


class Residents:
    """The weight in bytes of every unit, also of those on disk; and the order in which units came into memory."""

    def __init__(self, operator: Operator, units: int) -> None:
        self.operator = operator
        self.here = np.ones(units, np.bool_)
        """Marks units that are not on disk."""
        self.fixed = np.zeros(units, np.bool_)
        """Marks units that never go to disk."""
        self.weight = np.zeros(units, np.int64)
        self.total = 0
        """Bytes of the units in memory, as last measured."""
        self.expected = 0.0
        """Bytes added since, by what rows and new units have added before."""
        self._real = np.zeros(units, np.int64)
        self._turn = np.zeros(units, np.int64)
        """The turn, counted from 1, in which the unit came into memory; 0 if it has no state there."""
        self._turns = 0
        self._touched = np.zeros(units, np.bool_)
        self._seen = np.zeros(units, np.int64)
        self._weighed = np.zeros(units, np.int64)
        self._rows = 0
        self._claims = np.zeros(units, np.int64)
        """What the operator said of each unit, as last measured."""
        self._claimed = np.zeros(units, np.int64)
        """What it had said of units when they were last taken out; 0 if they never were."""
        self._ratio = 1.0
        """How much larger units turn out than the operator says, by the last of them."""
        self._first: float | None = None
        """Bytes that a new unit takes beside what its rows add; None before anything was measured."""
        self._rate = 0.0

    @property
    def known(self) -> bool:
        """Whether growth can be foretold."""
        return self._first is not None

    def due(self, budget: int) -> bool:
        """Whether so many rows came since the last measurement that it is time for the next."""
        return self._rows >= budget // SUDDEN

    def foretell(self, units: Units) -> tuple[Longs, npt.NDArray[np.float64]]:
        """The units of some rows, each once, and by how many bytes each may grow with these rows."""
        counts = np.bincount(units, minlength=len(self.here))
        present = np.flatnonzero(counts)
        if self._first is None:
            return present, np.full(len(present), np.inf)
        return present, counts[present] * self._rate + (self._turn[present] == 0) * self._first

    def note(self, units: Units) -> None:
        """Rows of these units have been processed."""
        counts = np.bincount(units, minlength=len(self.here))
        present = np.flatnonzero(counts)
        fresh = present[self._turn[present] == 0]
        if self._first is not None:
            self.expected += len(units) * self._rate + len(fresh) * self._first
        self.enqueue(fresh)
        self._touched[present] = True
        self._seen += counts
        self._rows += len(units)

    def enqueue(self, units: Longs) -> None:
        """Units came into memory just now, in this order."""
        self._turn[units] = self._turns + 1 + np.arange(len(units))
        self._turns += len(units)

    def measure(self) -> None:
        """Weigh the units that have had rows since the last time."""
        units = np.flatnonzero(self._touched & self.here).astype(np.int32)
        self._touched[:] = False
        self.expected = 0.0
        if not len(units):
            return
        claims = sizes_of(self.operator, units)
        for unit in units[(claims <= 0) & (4 * self._seen[units] >= 5 * self._weighed[units])].tolist():
            self._weigh(unit)
        before = self.weight[units]
        self._claims[units] = claims
        now = self._estimated(units)
        self.weight[units] = now
        growth = now - before
        self.total += int(growth.sum())
        self._learn(growth, before == 0)

    def oldest(self, amount: int, but: Iterable[int] = ()) -> list[int]:
        """The units longest in memory, without `but`, that weigh `amount` together; all of them if they weigh less."""
        able = self.here & ~self.fixed & (self._turn > 0)
        able[np.asarray(but, np.int64)] = False
        queue = np.flatnonzero(able)
        queue = queue[np.argsort(self._turn[queue])]
        enough = int(np.searchsorted(np.cumsum(self.weight[queue]), amount)) + 1
        found: list[int] = queue[:enough].tolist()
        return found

    def gone(self, unit: int, parts: list[Part] | None = None, state: object = None) -> None:
        """A unit has been taken out of memory; the parts of its state, if given, tell what it really weighed."""
        self.total -= int(self.weight[unit])
        self._turn[unit] = 0
        self._touched[unit] = False
        claim, real = int(self._claims[unit]), 0
        if parts is not None:
            real = max(sum(memoryview(part).nbytes for part in parts), bytes_of(state))
            if claim:
                self._ratio = max(1.0, 0.9 * self._ratio + 0.1 * (real - FIXED) / claim)
        else:
            claim = self._seen[unit] = self._weighed[unit] = 0
        self._real[unit], self._claimed[unit] = real, claim
        self.weight[unit] = max(real, claim)

    def landed(self, units: list[int]) -> None:
        """Units are back in memory."""
        self.enqueue(np.array(units, np.int64))
        self.here[units] = True
        self.total += int(self.weight[units].sum())

    def arrived(self, unit: int, state: object) -> None:
        """A unit has been installed that has come from another worker."""
        self.enqueue(np.array([unit]))
        self._claims[unit] = self._claimed[unit] = sizes_of(self.operator, np.array([unit], np.int32))[0]
        self._real[unit] = bytes_of(state)
        self.weight[unit] = max(self._claims[unit], self._real[unit])
        self.total += int(self.weight[unit])

    def weigh(self, unit: int) -> int:
        """Take a unit in memory out and put it back: what it weighs in truth."""
        before = int(self.weight[unit])
        self._weigh(unit)
        self._claimed[unit] = self._claims[unit]
        self.weight[unit] = max(self._claims[unit], self._real[unit])
        self.total += int(self.weight[unit]) - before
        return int(self.weight[unit])

    def _estimated(self, units: Units) -> Longs:
        """The weight of units by what the operator says of them now, and what each has turned out to weigh before."""
        claimed = self._claimed[units]
        own = np.where(claimed > 0, (self._real[units] - FIXED) / np.maximum(claimed, 1), self._ratio)
        found: Longs = np.maximum((self._claims[units] * np.maximum(own, 1.0)).astype(np.int64), self._real[units])
        return found

    def _weigh(self, unit: int) -> None:
        state = self.operator.extract(unit)
        self._real[unit] = bytes_of(state)
        self._weighed[unit] = self._seen[unit]
        if state is not None:
            self.operator.install(unit, state)

    def _learn(self, growth: Longs, fresh: npt.NDArray[np.bool_]) -> None:
        rows, self._rows = max(1, self._rows), 0
        if self._first is None:
            self._first = float(growth.mean())
            self._rate = float(growth.sum()) / rows
            return
        fading = 0.5 ** (rows / FADING)
        if fresh.any():
            self._first = max(float(growth[fresh].mean()), fading * self._first)
        self._rate = max(float(growth.sum()) / rows, fading * self._rate)
