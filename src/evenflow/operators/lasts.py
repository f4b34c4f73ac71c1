"""One value per key: each slot has the number of a row in a store."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.compiled import compiled
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.row_store import RowStore, from_bytes, joined, to_bytes
from evenflow.operators.slots import KEY_BYTES, Longs, Slots, fitted


class Lasts:
    """The last value of each key. Older values are dropped when they are more than half of the store."""

    def __init__(self) -> None:
        self.slots = Slots()
        self.place = np.full(self.slots.capacity, -1, np.int64)
        self.store = RowStore()

    def push(self, units: Units, keys: Keys, column: pa.Array, valid: npt.NDArray[np.bool_]) -> pa.Array:
        """The last value after each row."""
        slots = self.slots.find(units, keys)
        if not len(slots):
            return column
        self.place = fitted(self.place, self.slots, -1)
        base = self.store.length
        places = np.empty(len(slots), np.int64)
        _note(slots, valid, base, self.place, places)
        last = self._answer(column, places, base)
        fresh = self._renumber(slots, base)
        self.store.append(_table(column.take(pa.array(fresh))))
        self._compact()
        return last

    def extract(self, unit: int) -> Any:
        slots = self.slots.of(np.array([unit]))
        if not len(slots):
            return None
        keys, places = self.slots.key[slots], self.place[slots]
        known = places >= 0
        values = to_bytes(self.store.take(places[known])) if known.any() else None
        self.place[slots] = -1
        self.slots.drop(unit)
        self._compact()
        return keys, known, values

    def install(self, unit: int, state: Any) -> None:
        keys, known, values = state
        slots = self.slots.add(unit, keys)
        self.place = fitted(self.place, self.slots, -1)
        if values is not None:
            rows = from_bytes(values)
            first = self.store.append(rows)
            self.place[slots[known]] = first + np.arange(rows.num_rows)

    def sizes(self, units: Units) -> Longs:
        return (KEY_BYTES + 2 * 8 + 2 * self.store.row_bytes()) * self.slots.counts(units)

    def _answer(self, column: pa.Array, places: Longs, base: int) -> pa.Array:
        """The values with these numbers: those from `base` on are in `column`, the others in the store; -1 is null."""
        if places.min() >= base:
            return column if not column.null_count else column.take(pa.array(places - base))
        earlier = (places >= 0) & (places < base)
        index = places - base
        arrays = _table(column)
        if earlier.any():
            old = self.store.take(places[earlier])
            arrays = joined([arrays, old])
            index[earlier] = len(column) + np.arange(old.num_rows)
        return arrays.column(0).chunk(0).take(pa.array(index, mask=places < 0))

    def _renumber(self, slots: npt.NDArray[np.int32], base: int) -> Longs:
        """Renumber the batch's values that are the last of a key, from `base` on without gaps; returns their rows."""
        slots = slots[self.place[slots] >= base]
        rows = self.place[slots] - base
        needed = np.zeros(int(rows.max(initial=-1)) + 1, np.bool_)
        needed[rows] = True
        self.place[slots] = base - 1 + np.cumsum(needed)[rows]
        return np.flatnonzero(needed)

    def _compact(self) -> None:
        if self.store.length <= 2 * len(self.slots) + 1024:
            return
        live = np.flatnonzero(self.place >= 0)
        self.store.keep(self.place[live])
        self.place[live] = np.arange(len(live))


def _table(column: pa.Array) -> pa.Table:
    return pa.table([column], names=["value"])


@compiled
def _note(slots, valid, base, place, places):  # type: ignore[no-untyped-def]
    """Number rows from `base` on; note each slot's last non-null row in `place`, and what it is after each row."""
    for row in range(len(slots)):
        slot = slots[row]
        if len(valid) == 0 or valid[row]:
            place[slot] = base + row
        places[row] = place[slot]
