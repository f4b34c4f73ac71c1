"""The operator that counts the distinct values of a column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from evenflow.operators.adding import Adding, rehearse, sample
from evenflow.operators.columns import validity
from evenflow.operators.keyed import Keys, Units


class DistinctCount(Adding):
    """The number of different values of `column`, of any type, among the key's rows so far; nulls do not count.

    Values are told apart by their 64-bit hashes: among a million values of one key, two are taken for one with a
    probability of 3e-8.
    """

    def __init__(self, column: str, *, into: str | None = None) -> None:
        super().__init__(column, f"{column}_distinct" if into is None else into)
        self.hashed = (column,)
        from evenflow.operators.sets import Sets  # numba comes with it: only those who use it pay

        self._state = Sets()

    def reads(self, rows: pa.Schema) -> Sequence[str]:
        return [self.column, self._hash]

    def result_type(self, kind: pa.DataType) -> pa.DataType:
        return pa.int64()

    def add(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.Array:
        hashes = rows.column(self._hash).to_numpy(zero_copy_only=False)
        return pa.array(self._state.push(units, keys, hashes, validity(rows.column(self.column))))

    def warm_up(self, rows: pa.Schema) -> None:
        some = sample(self._kept(rows))
        rehearse(self, some.append_column(self._hash, pa.array([0, 0], pa.int64())))

    @property
    def _hash(self) -> str:
        return f"xxhash64({self.column})"

    def _kept(self, rows: pa.Schema) -> pa.Schema:
        place = rows.get_field_index(self._hash)
        return rows if place < 0 else rows.remove(place)
