"""Windows that are split by GROUP BY or std:groupwin: a group is kept while it has rows in its window."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.operators.columns import EVER
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.slots import Longs, fitted
from evenflow.operators.windows.arena import LATEST
from evenflow.operators.windows.rings import Rings
from evenflow.operators.windows.totals import Numbers
from evenflow.rules.windows.clock import KeyNumbers, UnitState

FEW = 1024
"""Rows between two searches for groups to drop, at least."""


class Grouped(Rings):
    """A ring for each group. `home` is the key of the group's window, `reached` the latest time of each window.

    A later row comes with the latest time of its window; so a group whose latest row is a span behind that holds
    nothing a later row could see, and is dropped. Such groups are searched for when as many rows have come as there
    were groups after the last search.
    """

    def __init__(self, how: int, span: int, reached: KeyNumbers) -> None:
        super().__init__(how, span=span)
        self.reached = reached
        self.home = np.zeros(self.slots.capacity, np.int64)
        self.pushed, self.left = 0, 0

    def enter(
        self, units: Units, keys: Keys, values: Numbers, homes: Keys, valid: npt.NDArray[np.bool_], times: Longs
    ) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Like `push`, with the key of each row's window in `homes`."""
        slots = self.slots.find(units, keys)
        self._fit()
        self.home[slots] = homes
        self.pushed += len(slots)
        return self._pushed(slots, values, valid, times)

    def tidy(self) -> None:
        """Drop groups that have no rows left in their windows."""
        if self.pushed < max(FEW, self.left):
            return
        slots = self.slots.of(np.flatnonzero(self.slots.count))
        homes = self.reached.find(self.slots.unit[slots], self.home[slots])  # this may add keys to `reached`
        latest = self.reached.values[homes]
        cut = np.where(latest > EVER + self.span, latest - self.span, EVER)
        gone = slots[self.rings[slots, LATEST] <= cut]
        if len(gone):
            self.forget(gone)
        self.pushed, self.left = 0, len(self.slots)

    def extract(self, unit: int) -> UnitState:
        homes = self.home[self.slots.of(np.array([unit]))]
        state = super().extract(unit)
        return None if state is None else (homes, state)

    def install(self, unit: int, state: UnitState) -> None:
        homes, rings = state
        super().install(unit, rings)
        self.home[self.slots.of(np.array([unit]))] = homes

    def sizes(self, units: Units) -> Longs:
        return super().sizes(units) + 2 * 8 * self.slots.counts(units)

    def _fit(self) -> None:
        super()._fit()
        self.home = fitted(self.home, self.slots)
