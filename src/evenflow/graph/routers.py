"""A graph's plan as feeders get it: it tells where rows go and which come back, and has no code of users.

A feeder lives for one task: it must not load models that only workers need.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pyarrow as pa

from evenflow.graph.build.plan import GraphPlan, StreamPlan
from evenflow.graph.nodes.operator import NodeOperator
from evenflow.operators.keyed import Keys, Units

NO_COLUMNS = pa.schema([])


class Router(NodeOperator):
    """Stands in for an operator where rows are only sent to it: it knows its units and its keys."""

    kind: ClassVar[str] = "router"

    def __init__(self, operator: NodeOperator, sides: int) -> None:
        self.units, self.lanes, self.ordering = operator.units, operator.lanes, operator.ordering
        self._places = [operator.key_places(side) for side in range(sides)]

    def key_places(self, side: int) -> list[int] | None:
        return self._places[side]

    def process(self, side: int, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        raise TypeError("a router applies no rows")


def routing_plan(plan: GraphPlan) -> GraphPlan:
    """The plan with routers for operators; only streams of sources and endpoints keep their columns."""
    nodes = [replace(node, operator=Router(node.operator, len(node.ports))) for node in plan.nodes]

    def slim(number: int, stream: StreamPlan) -> StreamPlan:
        seen = number < len(plan.sources) or stream.endpoints
        return stream if seen else replace(stream, schema=NO_COLUMNS)

    streams = [slim(number, stream) for number, stream in enumerate(plan.streams)]
    return replace(plan, nodes=tuple(nodes), streams=tuple(streams))
