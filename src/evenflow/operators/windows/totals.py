"""One aggregate per key of all its values so far, and what aggregates with and without windows have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from evenflow.errors import InvalidArgument
from evenflow.operators.aggregates.measures import DOUBLES
from evenflow.operators.columns import NO_TIMES, Array, Bools
from evenflow.operators.compiled import compiled
from evenflow.operators.keyed import Keys, Units, UnitState
from evenflow.operators.slots import KEY_BYTES, Ints, Longs, Slots, fitted
from evenflow.operators.windows.combining import How, combine, load, single, store, tell, width

Numbers: TypeAlias = Array
"""Values, aggregates or results, as float64 or int64; `combining` explains both."""


class SlotAggregates:
    """An aggregate per slot, of values of one kind: `of` is its name, `words` the 64-bit words of a value (0: doubles).

    It has slots of its own, or shares those of others: then only `push_slots`, `taken`, `put` and `weights` are called.
    """

    held: ClassVar[tuple[int, ...]]
    """Which of the arrays that `taken` returns hold aggregates."""
    arrays: ClassVar[int]
    """How many arrays `taken` returns."""

    def __init__(self, how: int, slots: Slots | None = None, of: str = DOUBLES, words: int = 0) -> None:
        self.how: How = how
        """The aggregate, as `combining` knows it."""
        self.slots = Slots() if slots is None else slots
        self.of, self.words = of, words
        self._make()

    def use(self, of: str, words: int) -> None:
        """Prepare for values of this kind; InvalidArgument if there are aggregates of another kind."""
        if of == self.of:
            return
        if len(self.slots):
            raise InvalidArgument(changed(self.of, of))
        self.of, self.words = of, words
        self._make()

    def push_slots(self, slots: Ints, values: Numbers, valid: Bools, times: Longs) -> tuple[Numbers, Bools]:
        """The result of its slot after each row, and which of the results exist."""
        raise NotImplementedError

    def taken(self, slots: Ints) -> tuple[Array, ...]:
        """Remove the aggregates of some slots, and return them."""
        raise NotImplementedError

    def put(self, slots: Ints, state: Sequence[Array]) -> None:
        """Add what `taken` returned; the slots have no aggregates yet."""
        raise NotImplementedError

    def weights(self, slots: Ints) -> Longs:
        """About how many bytes the state of each slot takes; a slot is the place of one key."""
        raise NotImplementedError

    def values_of(self, slots: Ints) -> Longs:
        """How many values each slot's state may hold."""
        raise NotImplementedError

    def live(self) -> list[tuple[Numbers, Longs]]:
        """All arrays with aggregates, and the rows of each that are aggregates of a value."""
        raise NotImplementedError

    def extract(self, unit: int) -> UnitState:
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        state = self.slots.key[slots], *self.taken(slots), self.of, self.words
        self.slots.drop(unit)
        return state

    def install(self, unit: int, state: UnitState) -> None:
        keys, content, kind = state[0], state[1 : 1 + self.arrays], state[1 + self.arrays :]
        self.use(*(kind or (DOUBLES, 0)))
        self.put(self.slots.add(unit, keys), content)

    def sizes(self, units: Units) -> Longs:
        slots = self.slots.of(units)
        return self.slots.per_unit(units, KEY_BYTES + self.weights(slots))

    def _make(self) -> None:
        """Create the empty arrays that hold the aggregates."""
        raise NotImplementedError

    def _results(self, rows: int) -> tuple[Numbers, Bools]:
        """Uninitialised arrays for the results of `rows` rows, and for which of the results exist."""
        known = np.empty(rows, np.bool_)
        return (np.empty((rows, self._width), np.int64) if self.words else np.empty(rows)), known

    def _rows(self, count: int) -> Numbers:
        """`count` aggregates of no value."""
        return np.zeros((count, self._width), np.int64 if self.words else np.float64)

    @property
    def _width(self) -> int:
        return width(self.how[0] if isinstance(self.how, tuple) else self.how, self.words)


class Totals(SlotAggregates):
    """One aggregate per key, of all its values so far."""

    held, arrays = (0,), 1

    def _make(self) -> None:
        self.totals = self._rows(self.slots.capacity)

    def push(self, units: Units, keys: Keys, values: Numbers, valid: Bools) -> tuple[Numbers, Bools]:
        """The result after each row, and which of the results exist."""
        return self.push_slots(self.slots.find(units, keys), values, valid, NO_TIMES)

    def push_slots(self, slots: Ints, values: Numbers, valid: Bools, times: Longs) -> tuple[Numbers, Bools]:
        self.totals = fitted(self.totals, self.slots)
        out, known = self._results(len(slots))
        _run(self.how, slots, values, valid, self.totals, out, known)
        return out, known

    def taken(self, slots: Ints) -> tuple[Array, ...]:
        self.totals = fitted(self.totals, self.slots)
        totals = self.totals[slots]
        self.totals[slots] = 0
        return (totals,)

    def put(self, slots: Ints, state: Sequence[Array]) -> None:
        self.totals = fitted(self.totals, self.slots)
        self.totals[slots] = state[0][:, : self.totals.shape[1]]

    def weights(self, slots: Ints) -> Longs:
        return np.full(len(slots), 2 * 8 * self.totals.shape[1], np.int64)

    def values_of(self, slots: Ints) -> Longs:
        return np.ones(len(slots), np.int64)

    def live(self) -> list[tuple[Numbers, Longs]]:
        return [(self.totals, np.flatnonzero(self.totals[:, 0]))]


def changed(before: str, now: str) -> str:
    """The message that a column is of another kind than the state."""
    return (
        f"the state is of values of type {before}, and the column is {now} now: cast it to what it was, or start "
        "without the state, with a new checkpoint"
    )


@compiled
def _run(how, slots, values, valid, totals, out, known):  # type: ignore[no-untyped-def]
    for row in range(len(slots)):
        slot = slots[row]
        total = load(how, totals, slot)
        if len(valid) == 0 or valid[row]:
            total = combine(how, total, single(how, values, row, True))
            store(how, totals, slot, total)
        tell(how, out, known, row, total)
