"""Aggregates whose result is one of the values: the first or the last of any type, the least or greatest of texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from evenflow.operators.columns import Bools, locked
from evenflow.operators.keyed import UnitState
from evenflow.operators.slots import Ints, Longs
from evenflow.operators.windows.row_store import RowStore, from_bytes, to_bytes
from evenflow.operators.windows.text_store import TextStore
from evenflow.operators.windows.totals import Numbers, SlotAggregates

FEW = 1024
"""Values in a store that are not worth dropping."""
DENSE = 16
"""If one number in so many is used, at least, a table of all numbers is faster than sorting."""


class Numbered:
    """Values lie in a store; `inner` aggregates their numbers there, as whole numbers.

    Values are numbered as they come, so the first of a window is the one with the least number, the last that with the
    greatest. In a window in time the time is the higher word of the number: rows that come late have their place.
    Values that no aggregate holds any more are dropped when they may be half of the store. Numbers never change their
    order, and the values of a slot move with it, in this order.
    """

    def __init__(self, inner: SlotAggregates, store: RowStore | TextStore) -> None:
        self.inner, self.store = inner, store
        self.full, self.gone = 0, 0  # the first rows are enough, so that nothing is left to be compiled later

    def push_slots(self, slots: Ints, column: pa.Array, valid: Bools, times: Longs) -> pa.Array:
        """The result of its slot after each row."""
        base = self.store.append(_table(column))
        values = np.arange(base, base + len(column)).reshape(-1, 1)
        if self.inner.words > 1:
            values = np.concatenate([values, times.reshape(-1, 1)], axis=1)
        how = self.inner.how
        if isinstance(self.store, TextStore):
            assert isinstance(how, int)
            self.inner.how = how, self.store.ends, self.store.letters
        out, known = self.inner.push_slots(slots, locked(values), valid, times)
        self.inner.how = how  # the store's arrays may be replaced
        found = self._values(out[:, 1], known, column.type)
        self._compact()
        return found

    def taken(self, slots: Ints) -> tuple[UnitState, ...]:
        """The arrays of the aggregates, and the values that they hold."""
        state = self.inner.taken(slots)
        parts = [state[place] for place in self.inner.held]
        numbers = _renumber([(part, np.flatnonzero(part[:, 0])) for part in parts])
        values = to_bytes(self.store.take(numbers)) if len(numbers) else None
        self.gone += len(numbers)
        self._compact()
        return *state, values

    def put(self, slots: Ints, state: Sequence[UnitState]) -> None:
        *given, values = state
        content = [np.array(part) for part in given]
        if values is not None:
            base = self.store.append(from_bytes(values))
            for place in self.inner.held:
                content[place][content[place][:, 0] != 0, 1] += base
        self.inner.put(slots, content)

    def weights(self, slots: Ints) -> Longs:
        return self.inner.weights(slots) + 2 * self.store.row_bytes() * self.inner.values_of(slots)

    def _values(self, numbers: Longs, known: Bools, kind: pa.DataType) -> pa.Array:
        """The values with these numbers; null where `known` is False."""
        if not known.any():
            return pa.nulls(len(known), kind)
        found = self.store.take(np.ascontiguousarray(numbers[known])).column(0).combine_chunks()
        return found if known.all() else found.take(pa.array(np.cumsum(known) - 1, mask=~known))

    def _compact(self) -> None:
        if self.store.length <= self.full and 2 * self.gone <= self.store.length + FEW:
            return
        self.store.keep(_renumber(self.inner.live()))
        self.full, self.gone = 2 * self.store.length + FEW, 0


def _renumber(parts: list[tuple[Numbers, Longs]]) -> Longs:
    """Number the values that aggregates hold from 0 on, in their order; returns the numbers that they had.

    Each part is an array with aggregates, and which of its rows are aggregates of a value.
    """
    numbers = np.concatenate([array[rows, 1] for array, rows in parts])
    if numbers.max(initial=0) < DENSE * len(numbers):
        used = np.bincount(numbers) > 0
        had, now = np.flatnonzero(used), (np.cumsum(used) - 1)[numbers]
    else:
        had, now = np.unique(numbers, return_inverse=True)
    for array, rows in parts:
        array[rows, 1], now = now[: len(rows)], now[len(rows) :]
    return had


def _table(column: pa.Array) -> pa.Table:
    return pa.table([column], names=["value"])
