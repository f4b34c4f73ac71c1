"""One aggregate per key of all its values so far, and what running and windowed aggregates have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.errors import InvalidArgument
from evenflow.operators.combining import combine, load, single, store, tell, width
from evenflow.operators.compiled import compiled
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.measures import DOUBLES
from evenflow.operators.slots import KEY_BYTES, Longs, Slots, fitted

Numbers = npt.NDArray[Any]
"""Values, aggregates or results, as float64 or int64; `combining` explains both."""


class Aggregates:
    """Aggregates of values of one kind: `of` is its name, `words` the 64-bit words of a value (0 for doubles)."""

    def __init__(self, how: int) -> None:
        self.how = how
        self.slots = Slots()
        self.of, self.words = DOUBLES, 0
        self._make()

    def use(self, of: str, words: int) -> None:
        """Prepare for values of this kind; InvalidArgument if there are aggregates of another kind."""
        if of == self.of:
            return
        if len(self.slots):
            raise InvalidArgument(
                f"the state is of values of type {self.of}, and the column is {of} now: cast it to what it was, or "
                "start without the state, with a new checkpoint"
            )
        self.of, self.words = of, words
        self._make()

    def _make(self) -> None:
        """Create the empty arrays that hold the aggregates."""
        raise NotImplementedError

    def _results(self, rows: int) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Uninitialised arrays for the results of `rows` rows, and for which of the results exist."""
        known = np.empty(rows, np.bool_)
        return (np.empty((rows, width(self.how, self.words)), np.int64) if self.words else np.empty(rows)), known

    def _rows(self, count: int) -> Numbers:
        """`count` aggregates of no value."""
        return np.zeros((count, width(self.how, self.words)), np.int64 if self.words else np.float64)


class Totals(Aggregates):
    """One aggregate per key, of all its values so far."""

    def _make(self) -> None:
        self.totals = self._rows(self.slots.capacity)

    def push(self, units: Units, keys: Keys, values: Numbers, valid: npt.NDArray[np.bool_]) -> tuple[Numbers, Any]:
        """The result after each row, and which of the results exist."""
        slots = self.slots.find(units, keys)
        self.totals = fitted(self.totals, self.slots)
        out, known = self._results(len(keys))
        _run(self.how, slots, values, valid, self.totals, out, known)
        return out, known

    def extract(self, unit: int) -> Any:
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        state = self.slots.key[slots], self.totals[slots], self.of, self.words
        self.totals[slots] = 0
        self.slots.drop(unit)
        return state

    def install(self, unit: int, state: Any) -> None:
        keys, totals, *kind = state
        self.use(*(kind or (DOUBLES, 0)))
        slots = self.slots.add(unit, keys)
        self.totals = fitted(self.totals, self.slots)
        self.totals[slots] = totals[:, : self.totals.shape[1]]

    def sizes(self, units: Units) -> Longs:
        return self.slots.counts(units) * (KEY_BYTES + 2 * 8 * int(self.totals.shape[1]))


@compiled
def _run(how, slots, values, valid, totals, out, known):  # type: ignore[no-untyped-def]
    for row in range(len(slots)):
        slot = slots[row]
        total = load(how, totals, slot)
        if len(valid) == 0 or valid[row]:
            total = combine(how, total, single(how, values, row, True))
            store(how, totals, slot, total)
        tell(how, out, known, row, total)
