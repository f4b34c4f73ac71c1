"""The base of operators that add columns to their rows."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from evenflow.errors import InvalidArgument, nearest
from evenflow.operators.delegating import Delegating
from evenflow.operators.keyed import KeyedOperator, Keys, Units, overrides


class Adding(Delegating):
    """All columns of the rows, and after them one more, `into`, computed from the rows of the key so far.

    An operator that adds several columns overrides `added` and `add_all`.
    """

    adds = True
    naming: ClassVar[tuple[str, ...]] = ("column",)
    _state: Any
    """A `DivisibleState` to which subclasses push rows, each in its own way."""

    def __init__(self, column: str, into: str) -> None:
        for argument, name in (("column", column), ("into", into)):
            if not isinstance(name, str) or not name:
                raise InvalidArgument(f"{argument} is {name!r}: give the name of a column")
        self.column = column
        self.into = into

    def reads(self, rows: pa.Schema) -> Sequence[str]:
        return [self.column]

    def schema(self, rows: pa.Schema) -> pa.Schema:
        result = self._kept(rows)
        for field in self.added(rows):
            if field.name in rows.names:
                raise InvalidArgument(
                    f"{self} adds column '{field.name}', which the rows have already: {self.other_name}"
                )
            result = result.append(field)
        return result

    def added(self, rows: pa.Schema) -> list[pa.Field]:
        """The new columns."""
        return [pa.field(self.into, self.result_type(column_type(self, rows, self.column)))]

    def add_all(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> dict[str, pa.Array]:
        """The new columns by their names."""
        return {self.into: self.add(rows, units, keys)}

    def result_type(self, kind: pa.DataType) -> pa.DataType:
        """The new column's type for a column of this type; InvalidArgument if it does not fit."""
        raise NotImplementedError

    def add(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.Array:
        """The new column."""
        raise NotImplementedError

    def process(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        added = self.add_all(rows, units, keys)
        hashes = {hash_name(name) for name in self.hashed}
        own = [array for name, array in zip(rows.schema.names, rows.columns, strict=True) if name not in hashes]
        schema = self._kept(rows.schema)
        for name, array in added.items():
            schema = schema.append(pa.field(name, array.type))
        return pa.RecordBatch.from_arrays([*own, *added.values()], schema=schema)

    def warm_up(self, rows: pa.Schema) -> None:
        rehearse(self, sample(rows))

    def _kept(self, rows: pa.Schema) -> pa.Schema:
        """The rows' own columns, without the hashes."""
        hashes = {hash_name(name) for name in self.hashed}
        return pa.schema([field for field in rows if field.name not in hashes]) if hashes else rows

    def __str__(self) -> str:
        return f"{type(self).__name__}('{self.column}')"


def hash_name(column: str) -> str:
    """The name under which an operator gets the hashes of a column."""
    return f"xxhash64({column})"


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
    if overrides(actor, "on_time"):
        actor.on_time(0, np.array([0, 1], np.int32))
