"""Plain evaluation of a graph in one process: what runs on workers must give the same rows, in whatever order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pyarrow as pa

from evenflow.graph.build.plan import GraphPlan
from evenflow.graph.nodes.operator import NodeOperator


def evaluate(plan: GraphPlan, inputs: Iterable[tuple[str, pa.RecordBatch]]) -> dict[str, pa.Table]:
    """The rows of each endpoint; `inputs` are batches of sources, in the order of their arrival.

    A batch goes through the whole graph before the next one, node by node in the order of the plan. A node that reads
    one stream with both sides gets it from the left first. Sources that the plan leaves out are passed over.
    """
    operators = [node.operator.fresh() for node in plan.nodes]
    found: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for name, batch in inputs:
        if name in plan.sources:
            for stream, rows in _flow(plan, operators, plan.sources.index(name), batch):
                found[stream].append(rows)
    return {end.name: pa.Table.from_batches(found[end.stream], _schema(plan, end.stream)) for end in plan.endpoints}


def _flow(
    plan: GraphPlan, operators: list[NodeOperator], source: int, batch: pa.RecordBatch
) -> list[tuple[int, pa.RecordBatch]]:
    """The rows that one batch of a source makes in each stream that it reaches; the batch itself is the first."""
    made: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    made[source].append(batch)
    for node, operator in zip(plan.nodes, operators, strict=True):
        for port in node.ports:
            side, stream = plan.ports[port].side, plan.ports[port].stream
            for rows in made[stream]:
                result = operator.process(side, rows, *operator.routed(side, rows))
                if result.num_rows:
                    made[node.stream].append(result)
    return [(stream, rows) for stream, parts in made.items() for rows in parts]


def _schema(plan: GraphPlan, stream: int) -> pa.Schema:
    return plan.streams[stream].schema
