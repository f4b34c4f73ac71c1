"""What of an operator's state is in memory: how much it takes, how it grows, and who has been there longest.

A unit's weight is what its operator says (`sizes`), times how much more states turned out to be whenever one was taken
out, or what the unit itself turned out to be, whichever is more. Of operators that say nothing units are taken out to
be weighed, each again when it has had a quarter more rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from evenflow.state.paging.operator import Operator, Units
from evenflow.state.paging.sizing import bytes_of
from evenflow.state.paging.spill import Part

Longs = npt.NDArray[np.int64]

FIXED = 1024
"""Bytes by which a state on its own is larger than inside its operator."""
SUDDEN = 1024
"""Bytes a row may add where rows have not added any for long, without the budget being exceeded by much."""
FADING = 16_384
"""Rows after which half the growth that was seen before is expected, if there was less since."""


class Residents:
    """Weights of all units, also of those on disk; and the queue of those in memory."""

    def __init__(self, operator: Operator, units: int) -> None:
        self.operator = operator
        self.here = np.ones(units, np.bool_)
        """Units that are not on disk."""
        self.weight = np.zeros(units, np.int64)
        self.total = 0
        """Weight of what is in memory, as last measured."""
        self.expected = 0.0
        """What has been added since, as far as can be foretold."""
        self._real = np.zeros(units, np.int64)
        self._turn = np.zeros(units, np.int64)
        """When the unit came into memory, counted from 1; 0 if there is nothing of it."""
        self._turns = 0
        self._touched = np.zeros(units, np.bool_)
        self._seen = np.zeros(units, np.int64)
        self._weighed = np.zeros(units, np.int64)
        self._rows = 0
        self._ratio = 1.0
        self._first: float | None = None
        """Bytes a new unit takes, beside the bytes a row adds; None before anything was measured."""
        self._rate = 0.0

    @property
    def known(self) -> bool:
        """Whether growth can be foretold."""
        return self._first is not None

    def due(self, budget: int) -> bool:
        """Whether it is time to measure, however little growth is expected."""
        return self._rows >= budget // SUDDEN

    def foretell(self, units: Units) -> tuple[Longs, npt.NDArray[np.float64]]:
        """The units among those of the rows, and what each may grow by."""
        counts = np.bincount(units, minlength=len(self.here))
        present = np.flatnonzero(counts)
        if self._first is None:
            return present, np.full(len(present), np.inf)
        return present, counts[present] * self._rate + (self._turn[present] == 0) * self._first

    def note(self, units: Units) -> None:
        """Rows have been processed."""
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
        """These came into memory just now, in this order."""
        self._turn[units] = self._turns + 1 + np.arange(len(units))
        self._turns += len(units)

    def measure(self) -> None:
        """Weigh what has had rows."""
        units = np.flatnonzero(self._touched & self.here).astype(np.int32)
        self._touched[:] = False
        self.expected = 0.0
        if not len(units):
            return
        claims = np.asarray(self.operator.sizes(units), np.int64)
        for unit in units[(claims <= 0) & (4 * self._seen[units] >= 5 * self._weighed[units])].tolist():
            self._weigh(unit)
        before = self.weight[units]
        now = np.maximum((claims * self._ratio).astype(np.int64), self._real[units])
        self.weight[units] = now
        growth = now - before
        self.total += int(growth.sum())
        self._learn(growth, before == 0)

    def oldest(self, amount: int, but: Iterable[int] = ()) -> list[int]:
        """Units that have been in memory longest, and weigh so much together; all there are, if they do not."""
        able = self.here & (self._turn > 0)
        able[np.asarray(but, np.int64)] = False
        queue = np.flatnonzero(able)
        queue = queue[np.argsort(self._turn[queue])]
        enough = int(np.searchsorted(np.cumsum(self.weight[queue]), amount)) + 1
        found: list[int] = queue[:enough].tolist()
        return found

    def gone(self, unit: int, parts: list[Part] | None = None, state: object = None) -> None:
        """A unit has been taken out of memory; its parts tell what it really was, if it had any state."""
        self.total -= int(self.weight[unit])
        self._turn[unit] = 0
        self._touched[unit] = False
        claim = int(self.weight[unit])
        real = 0
        if parts is not None:
            real = max(sum(memoryview(part).nbytes for part in parts), bytes_of(state))
            if claim:
                self._ratio = max(1.0, 0.9 * self._ratio + 0.1 * self._ratio * (real - FIXED) / claim)
        else:
            self._seen[unit] = self._weighed[unit] = 0
        self._real[unit] = real
        self.weight[unit] = max(real, claim) if parts is not None else 0

    def landed(self, units: list[int]) -> None:
        """Units are back in memory."""
        self.enqueue(np.array(units, np.int64))
        self.here[units] = True
        self.total += int(self.weight[units].sum())

    def arrived(self, unit: int, state: object) -> None:
        """A unit has been installed that was not on disk here."""
        self.enqueue(np.array([unit]))
        claim = int(self.operator.sizes(np.array([unit], np.int32))[0])
        self._real[unit] = bytes_of(state)
        self.weight[unit] = max(int(claim * self._ratio), int(self._real[unit]))
        self.total += int(self.weight[unit])

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
