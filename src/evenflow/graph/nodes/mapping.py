"""The node that applies a user's function to whole batches."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from evenflow.errors import FunctionError
from evenflow.graph.build.dialect import Dialect
from evenflow.graph.build.verbs import MapSpec
from evenflow.graph.nodes.operator import NodeOperator
from evenflow.operators.keyed import Keys, Units
from evenflow.operators.map import Input, MapOperator

LANES = 64
"""Units of an ordered map: the finest part of its rows that a worker's share can change by."""


class MapNode(NodeOperator):
    """What `ordered_map` does with a batch. It has no state."""

    kind: ClassVar[str] = "map"

    def __init__(self, name: str, map: MapOperator, form: Input) -> None:
        self._name, self._map, self._form = name, map, form

    def process(self, side: int, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        try:
            return self._map.process(rows)
        except FunctionError as error:
            raise FunctionError(f"map '{self._name}': {error}") from None

    def warm_up(self) -> None:
        if self._form == "pandas":
            from evenflow.operators import pandas_frames  # noqa: F401 - it is the import that takes long


class LanesNode(MapNode):
    """An ordered map: any of its units, its lanes, takes any frame; an `OrderNode` behind it restores the order."""

    kind: ClassVar[str] = "ordered map"
    lanes = True
    units = LANES


def bind_map(name: str, spec: MapSpec, rows: pa.Schema, dialect: Dialect) -> tuple[MapNode, pa.Schema]:
    """The node, and the columns that it gives."""
    schema = dialect.schema(spec.schema, f"map '{name}'")
    made = LanesNode if spec.ordered else MapNode
    return made(name, MapOperator(spec.function, schema, spec.input, dialect.extension_integers), spec.input), schema
