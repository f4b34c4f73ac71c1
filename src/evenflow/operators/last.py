"""The operator that gives the last value of a column that was not null."""

from __future__ import annotations

import pyarrow as pa

from evenflow.operators.adding import Adding
from evenflow.operators.columns import validity
from evenflow.operators.keyed import Keys, Units


class LastValue(Adding):
    """The last value of `column`, of any type, that was not null among the key's rows, this one included."""

    same = True

    def __init__(self, column: str, *, into: str | None = None) -> None:
        super().__init__(column, f"{column}_last" if into is None else into)
        from evenflow.operators.lasts import Lasts  # numba comes with it: only those who use it pay

        self._state = Lasts()

    def result_type(self, kind: pa.DataType) -> pa.DataType:
        return kind

    def add(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.Array:
        column = rows.column(self.column)
        return self._state.push(units, keys, column, validity(column))
