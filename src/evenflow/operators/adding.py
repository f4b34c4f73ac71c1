"""The base of operators that add one column to their rows."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from evenflow.errors import InvalidArgument, nearest
from evenflow.operators.delegating import Delegating
from evenflow.operators.keyed import KeyedOperator, Keys, Units


class Adding(Delegating):
    """All columns of the rows, and after them one more, `into`, computed from the rows of the key so far."""

    adds = True
    same: ClassVar[bool] = False
    """Whether the new column holds values of `column` itself, so that Spark's knowledge of that column applies."""
    naming: ClassVar[tuple[str, ...]] = ("column",)

    def __init__(self, column: str, into: str) -> None:
        for argument, name in (("column", column), ("into", into)):
            if not isinstance(name, str) or not name:
                raise InvalidArgument(f"{argument} is {name!r}: give the name of a column")
        self.column = column
        self.into = into

    def reads(self, rows: pa.Schema) -> Sequence[str]:
        return [self.column]

    def schema(self, rows: pa.Schema) -> pa.Schema:
        kind = column_type(self, rows, self.column)
        if self.into in rows.names:
            raise InvalidArgument(f"{self} adds column '{self.into}', which the rows have already: give another into=")
        made = self.result_type(kind)
        known = rows.field(self.column).metadata if self.same and made == kind else None
        return self._kept(rows).append(pa.field(self.into, made, metadata=known))

    @abstractmethod
    def result_type(self, kind: pa.DataType) -> pa.DataType:
        """The new column's type for a column of this type; InvalidArgument if it does not fit."""

    @abstractmethod
    def add(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.Array:
        """The new column."""

    def process(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        added = self.add(rows, units, keys)
        kept = self._kept(rows.schema)
        arrays = rows.columns if len(kept) == rows.num_columns else [rows.column(name) for name in kept.names]
        return pa.RecordBatch.from_arrays([*arrays, added], schema=kept.append(pa.field(self.into, added.type)))

    def warm_up(self, rows: pa.Schema) -> None:
        rehearse(self, sample(rows))

    def _kept(self, rows: pa.Schema) -> pa.Schema:
        return rows

    def __str__(self) -> str:
        return f"{type(self).__name__}('{self.column}')"


def column_type(operator: object, rows: pa.Schema, name: str) -> pa.DataType:
    """The type of a column; InvalidArgument unless there is exactly one of this name."""
    if rows.names.count(name) != 1:
        several = [each.lower() for each in rows.names].count(name.lower()) > 1
        wrong = "is there more than once" if several else f"does not exist; {nearest(name, rows.names)}"
        raise InvalidArgument(f"{operator} needs column '{name}', which {wrong}")
    return rows.field(name).type


def sample(rows: pa.Schema) -> pa.RecordBatch:
    """Two rows: one of nulls, one of zeros where the type has a zero."""
    arrays = []
    for field in rows:
        plain = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        zero = plain or pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)
        arrays.append(pa.array([None, 0], field.type) if zero else pa.nulls(2, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=rows)


def rehearse(operator: KeyedOperator, rows: pa.RecordBatch) -> None:
    """Call every method of a copy of an empty operator once with these rows, so that all its code is compiled."""
    actor = copy.deepcopy(operator)
    units = np.zeros(rows.num_rows, np.int32)
    many = np.arange(200, dtype=np.int64)  # more keys than there are slots at first
    actor.process(rows, units, np.zeros(rows.num_rows, np.int64))
    again = rows.take(pa.array(many % rows.num_rows))
    actor.process(again, many.astype(np.int32) % 2, many)
    actor.sizes(np.array([0, 1], np.int32))
    actor.install(1, actor.extract(1))
