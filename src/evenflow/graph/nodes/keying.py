"""The node that applies a keyed operator: its state lies in units, spread over workers by key."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument, nearest
from evenflow.graph.build.dialect import Dialect
from evenflow.graph.build.verbs import DetectSpec, KeyedSpec
from evenflow.graph.nodes.operator import NodeOperator
from evenflow.operators.declared import check_apart, check_declared, columns_of, reads_of, spelled
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import KeyedOperator, Keys, Units, UnitState, identity, overrides, typed

LEVEL = 5
"""Where warnings point: to the call of `bind`."""


class KeyedNode(NodeOperator):
    """A keyed operator as `Cluster.keyed` runs it; its last unit is that of null keys.

    The operator gets the columns that it reads and, where it asks for them, hashes of columns. If it only adds columns,
    the new columns are put beside the rows.
    """

    kind: ClassVar[str] = "keyed"
    stateful: ClassVar[bool] = True

    def __init__(
        self,
        rows: pa.Schema,
        key: list[int],
        hosted: Hosted,
        reads: list[int],
        hashed: list[int],
        schema: pa.Schema,
    ) -> None:
        self.units, self._rows = hosted.units, rows
        self._key, self._hosted, self._operator = key, hosted, hosted.operator
        self._reads, self._hashed, self._schema = reads, hashed, schema

    def key_places(self, side: int) -> list[int]:
        return self._key

    def process(self, side: int, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        read = with_hashes(rows, self._hashed).select(self._reads)
        made, _ = self._hosted.process(self._operator, read, units, keys, ordered=False)
        if not self._hosted.adds:
            return made
        return pa.RecordBatch.from_arrays([*rows.columns, *made.columns], schema=self._schema)

    def warm_up(self) -> None:
        none = pa.RecordBatch.from_pylist([], schema=self._rows)
        self.keys(0, none)
        with_hashes(none, self._hashed)
        self._hosted.warm_up()

    def stored_as(self) -> str:
        return f"{identity(self._operator)} by {list(typed(self._rows, [self._rows.names[at] for at in self._key]))}"

    def tallies(self) -> dict[str, int]:
        return self._operator.tallies()

    def extract(self, unit: int) -> UnitState:
        return self._operator.extract(unit)

    def install(self, unit: int, state: UnitState) -> None:
        self._operator.install(unit, state)

    def snapshot(self, unit: int) -> UnitState:
        return self._operator.snapshot(unit)

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        return self._operator.sizes(units)


def with_hashes(rows: pa.RecordBatch, hashed: list[int]) -> pa.RecordBatch:
    """The rows with the hashes of some columns behind theirs, called `xxhash64(name)`; 0 for null."""
    if not hashed:
        return rows
    from evenflow.graph.hashing import hashes_of

    added = [hashes_of([rows.column(place)]).fill_null(0) for place in hashed]
    return pa.RecordBatch.from_arrays([*rows.columns, *added], schema=_visible(rows.schema, hashed))


def bind_keyed(name: str, spec: KeyedSpec, rows: pa.Schema, dialect: Dialect) -> tuple[KeyedNode, pa.Schema]:
    """The node, and the columns that it gives."""
    who = f"keyed '{name}'"
    key = key_places(who, spec.key, rows, dialect)
    unused = [method for method in ("on_time", "on_end") if overrides(spec.operator, method)]
    if unused:
        warnings.warn(
            f"{who}: {type(spec.operator).__name__} has {' and '.join(unused)}, which a graph never calls: it sees "
            "rows as they arrive. Use Cluster.keyed with order_by= and lateness=, or for rules detect",
            stacklevel=LEVEL,
        )
    operator = spelled(copy.deepcopy(spec.operator), rows.names, dialect.case_sensitive)
    check_apart(operator, rows.names, dialect.case_sensitive)
    return hosted_node(who, operator, key, rows, spec, dialect)


def key_places(who: str, names: Sequence[str], rows: pa.Schema, dialect: Dialect) -> list[int]:
    """The places of the key columns of node `who`."""
    key = [dialect.column(rows, one, who) for one in names]
    for place in key:
        _check_hashable(rows, place, f"key {rows.names[place]!r} of {who}")
    return key


def hosted_node(
    who: str, operator: KeyedOperator, key: list[int], rows: pa.Schema, spec: KeyedSpec | DetectSpec, dialect: Dialect
) -> tuple[KeyedNode, pa.Schema]:
    """The node of an operator whose columns are spelled as those of the rows; `spec` has its units and schema."""
    operator = operator.planned(ansi=dialect.ansi)
    hashed = [dialect.column(rows, one, who) for one in operator.hashed]
    for place in hashed:
        _check_hashable(rows, place, f"column {rows.names[place]!r} of {who}")
    schema = _result(who, operator, rows, spec.schema if isinstance(spec, KeyedSpec) else None, dialect)
    visible = _visible(rows, hashed)
    own = [(field.name, field.type) for field in rows]
    adds = operator.adds and own == [(field.name, field.type) for field in schema][: len(rows)]
    reads = list(range(len(visible))) if operator.adds and not adds else _reads(who, operator, visible)
    read = pa.schema([visible.field(place) for place in reads])
    made = pa.schema(list(schema)[len(rows) :]) if adds else schema
    hosted = Hosted(operator, read, made, spec.units + 1, adds)
    return KeyedNode(rows, key, hosted, reads, hashed, schema), schema


def _result(who: str, operator: KeyedOperator, rows: pa.Schema, declared: object, dialect: Dialect) -> pa.Schema:
    """The columns that the operator returns: the declared ones, or what it says itself."""
    if declared is not None:
        schema = dialect.schema(declared, who)
        check_declared(operator, rows, schema)
        return schema
    try:
        return columns_of(operator, rows)
    except NotImplementedError as error:
        raise InvalidArgument(f"{who}: {error}") from None


def _reads(who: str, operator: KeyedOperator, rows: pa.Schema) -> list[int]:
    """The places of the columns that an operator reads."""
    names = reads_of(operator, rows)
    wrong = [name for name in names if name not in rows.names]
    if wrong:
        raise InvalidArgument(f"{who} reads column {wrong[0]!r}, which does not exist; {nearest(wrong[0], rows.names)}")
    return [place for place, name in enumerate(rows.names) if name in names]


def _visible(rows: pa.Schema, hashed: list[int]) -> pa.Schema:
    fields = [pa.field(f"xxhash64({rows.names[place]})", pa.int64()) for place in hashed]
    return pa.schema([*rows, *fields])


def _check_hashable(rows: pa.Schema, place: int, what: str) -> None:
    from evenflow.graph.hashing import check_hashable

    check_hashable(rows.field(place), what)
