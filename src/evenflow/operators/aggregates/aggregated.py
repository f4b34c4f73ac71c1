"""The state of operators that add aggregates to their rows: any number of them, of one window per key.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.aggregates.argument import DISTINCT, NUMBERS, TEXTS, VALUES, Argument
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.slots import KEY_BYTES, Ints, Longs, Slots
from evenflow.operators.windows.combining import COUNT, MAX, MEAN, MIN, STD, SUM, VAR
from evenflow.operators.windows.numbered import Numbered
from evenflow.operators.windows.ring_sets import RingSets
from evenflow.operators.windows.rings import Rings
from evenflow.operators.windows.row_store import RowStore
from evenflow.operators.windows.sets import Sets
from evenflow.operators.windows.text_store import TextStore
from evenflow.operators.windows.totals import SlotAggregates, Totals, changed

HOW = {
    "count": COUNT,
    "sum": SUM,
    "mean": MEAN,
    "min": MIN,
    "max": MAX,
    "std": STD,
    "var": VAR,
    "first": MIN,
    "first_known": MIN,
    "last": MAX,
    "last_known": MAX,
    "distinct": COUNT,
}
"""What compiled code is told: of a first or last value, the least or greatest number that it has in a store."""


NAME_BYTES = 64
"""Bytes of an aggregate's name in the state of a unit."""


class Aggregated:
    """One aggregate, for each slot. How its state is kept depends on the type of the column, which rows bring."""

    def __init__(self, how: str, rows: int, span: int, slots: Slots) -> None:
        self.how, self.rows, self.span, self.slots = how, rows, span, slots
        self.form = ""
        self.state: Any = None

    def use(self, form: str) -> None:
        """Prepare for values of this form (`Argument.form`); InvalidArgument if there is state of another one."""
        if form == self.form:
            return
        kept, words, of = form.split("/", 2)
        if self.form and len(self.slots):
            raise InvalidArgument(changed(self.form.split("/", 2)[2], of))
        self.form, self.state = form, self._made(kept, of, int(words))

    def add(self, slots: Ints, given: Argument, times: Longs) -> pa.Array:
        """The result after each row."""
        if given.kept in (VALUES, TEXTS):
            return self.state.push_slots(slots, given.column, given.valid, times)
        if given.measure is None:
            hashes = given.column.to_numpy(zero_copy_only=False)
            return pa.array(self.state.push_slots(slots, hashes, given.valid, times)[0])
        values = given.measure.values(given.column)
        return given.measure.column(*self.state.push_slots(slots, values, given.valid, times))

    def _made(self, kept: str, of: str, words: int) -> Any:
        if kept == DISTINCT:
            return RingSets(self.rows, self.span, self.slots) if self.rows or self.span else Sets(self.slots)
        if kept == VALUES and self.span:
            words = 2  # the time and the number
        inner: SlotAggregates
        if self.rows or self.span:
            inner = Rings(HOW[self.how], self.rows, self.span, self.slots, of, words)
        else:
            inner = Totals(HOW[self.how], self.slots, of, words)
        return inner if kept == NUMBERS else Numbered(inner, TextStore() if kept == TEXTS else RowStore())


class AggregateSet:
    """Several aggregates of the same rows, over all rows of a key or one window. They share the keys' slots."""

    def __init__(self, hows: Mapping[str, str], rows: int = 0, span: int = 0, grows: bool = False) -> None:
        """`hows` has the aggregates by their names; if there may be more later, state is found by these."""
        self.slots = Slots()
        self._grows = grows
        self.parts = {name: Aggregated(how, rows, span, self.slots) for name, how in hows.items()}

    def push(self, units: Units, keys: Keys, given: Mapping[str, Argument], times: Longs) -> dict[str, pa.Array]:
        """The results of the aggregates for which something is given, after each row."""
        for name, argument in given.items():
            self.parts[name].use(argument.form)
        slots = self.slots.find(units, keys)
        return {name: self.parts[name].add(slots, argument, times) for name, argument in given.items()}

    def extract(self, unit: int) -> Any:
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        made = {name: part for name, part in self.parts.items() if part.form}  # the others have had no row yet
        contents = [(part.form, *part.state.taken(slots)) for part in made.values()]
        state = self.slots.key[slots], *([tuple(made)] if self._grows else []), *contents
        self.slots.drop(unit)
        return state

    def install(self, unit: int, state: Any) -> None:
        """Add a unit; aggregates that its state does not have begin empty."""
        keys, contents = state[0], self._named(state[1:])
        for name, (form, *_) in contents.items():
            self.parts[name].use(form)
        slots = self.slots.add(unit, keys)
        for name, (_, *content) in contents.items():
            self.parts[name].state.put(slots, content)

    def _named(self, contents: Sequence[Any]) -> dict[str, Any]:
        """The contents of a unit by aggregate: by their names if there may be more later, else in the order of all."""
        names, contents = (contents[0], contents[1:]) if self._grows else (self.parts, contents)
        return dict(zip(names, contents, strict=True))

    def sizes(self, units: Units) -> Longs:
        slots = self.slots.of(units)
        weights = np.full(len(slots), KEY_BYTES, np.int64)
        for part in [part for part in self.parts.values() if part.form] if len(slots) else ():
            weights += part.state.weights(slots)
        names = NAME_BYTES * (1 + len(self.parts)) * (self.slots.counts(units) > 0) if self._grows else 0
        return self.slots.per_unit(units, weights) + names
