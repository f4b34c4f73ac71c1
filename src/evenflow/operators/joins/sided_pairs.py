"""The windows of a join whose sides have different columns. Importing this module imports numba."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.columns import locked
from evenflow.operators.compiled import grown
from evenflow.operators.joins.pairs import Pairs
from evenflow.operators.keyed import Keys, Origin, Units
from evenflow.operators.slots import Longs
from evenflow.operators.windows.row_store import RowStore, from_bytes, to_bytes

Sides = npt.NDArray[np.int32]


class SidedRows:
    """Rows of two sides, numbered through as they come; each side has a store with its own columns.

    Row `number` is row `place[number]` in the store of `side[number]`.
    """

    def __init__(self, left: pa.Schema, right: pa.Schema) -> None:
        self.empty = left.empty_table(), right.empty_table()
        self.stores = RowStore(), RowStore()
        self.side, self.place = np.empty(1024, np.int32), np.empty(1024, np.int64)
        self.length = 0

    def append(self, sides: Sides, left: pa.Table, right: pa.Table) -> int:
        """Add rows, of which `sides` tells the side of each; returns the number of the first."""
        base, self.length = self.length, self.length + len(sides)
        if self.length > len(self.side):
            self.side, self.place = grown(self.side, 2 * self.length), grown(self.place, 2 * self.length)
        self.side[base : self.length] = sides
        for side, rows in enumerate((left, right)):
            first = self.stores[side].append(rows)
            self.place[base : self.length][sides == side] = np.arange(first, first + rows.num_rows)
        return base

    def take(self, side: int, numbers: Longs) -> pa.Table:
        """The rows with these numbers, which are all of one side, in this order."""
        if not len(numbers):
            return self.empty[side]
        return self.stores[side].take(self.place[numbers])

    def keep(self, numbers: Longs) -> None:
        """Drop all rows but these, which get the numbers from 0 on."""
        sides, places = self.side[numbers], self.place[numbers]
        for side, store in enumerate(self.stores):
            mine = sides == side
            store.keep(places[mine])
            places[mine] = np.arange(np.count_nonzero(mine))
        self.length = len(numbers)
        self.side[: self.length], self.place[: self.length] = sides, places

    def row_bytes(self) -> int:
        """The average bytes of a row."""
        total = sum(store.row_bytes() * store.length for store in self.stores)
        return 12 + total // max(1, self.length)


class SidedPairs(Pairs):
    """`Pairs` over two stores, one for each side."""

    store: SidedRows  # type: ignore[assignment]

    def __init__(self, rows: int, span: int, left: pa.Schema, right: pa.Schema, told: bool = False) -> None:
        super().__init__(rows, span, told)
        self.store = SidedRows(left, right)

    def push_side(
        self, side: int, units: Units, keys: Keys, times: Longs, rows: pa.RecordBatch
    ) -> tuple[pa.Table, pa.Table]:
        """The left rows and the right rows of all pairs that rows of one side complete, in the order of these rows."""
        left, right = self.store.empty
        table, sides = pa.Table.from_batches([rows]), np.full(len(units), side, np.int32)
        both = (left, table) if side else (table, right)
        return self.push_both(units, keys, sides, times, *both)[:2]

    def push_both(
        self, units: Units, keys: Keys, sides: Sides, times: Longs, left: pa.Table, right: pa.Table
    ) -> tuple[pa.Table, pa.Table, Origin]:
        """The left rows and the right rows of all pairs, and the position of the row that completed each pair.

        `sides` tells which side each row is of; `left` and `right` have the rows of either side, in their order.
        """
        if not len(units):
            return *self.store.empty, np.empty(0, np.int64)
        slots = self.slots.find(units, keys)
        self._fit()
        base = self.store.append(sides, left, right)
        self._reach()
        lefts, rights, origin = self._matched(slots, locked(sides), times, base)
        result = self.store.take(0, lefts), self.store.take(1, rights), origin
        self._compact()
        return result

    def _packed(self, rows: Longs) -> tuple[bytes, ...]:
        sides = self.store.side[rows]
        return tuple(to_bytes(self.store.take(side, rows[sides == side])) for side in range(2))

    def _unpacked(self, content: Sequence[bytes], counts: Longs) -> int:
        left, right = (from_bytes(part) for part in content)
        sides = np.repeat(np.tile(np.array([0, 1], np.int32), len(counts)), counts.ravel())
        base = self.store.append(sides, left, right)
        self._reach()
        return base
