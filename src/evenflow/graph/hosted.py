"""A graph as it is sent to the workers, and the state of one evaluation of it on one worker."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.graph.build.plan import GraphPlan, NodePlan
from evenflow.graph.nodes.filters import Filters
from evenflow.graph.nodes.operator import NO_KEYS, NodeOperator
from evenflow.graph.nodes.ordering import OrderNode
from evenflow.graph.routing import HASH, port_schema
from evenflow.operators.hosted import Hosted, units_of, values_of
from evenflow.operators.keyed import KeyedOperator, Keys, Origin, Units, UnitState

UNIT = pa.field("__evenflow_unit", pa.int64())
"""The last column of rows in a log: the unit that they were applied to."""
PORT = b"evenflow.port"
"""The key in the metadata of logged rows for the number of the port at which they arrived."""
BATCH = b"evenflow.batch"
"""The key there for the number of their micro-batch, for operators that have to know it."""


class GraphState(KeyedOperator):
    """The operators of all nodes of a graph, with the state of those units that are on this worker.

    Code that moves, saves and loads units sees one keyed operator with the units of all nodes.
    """

    def __init__(self, plan: GraphPlan) -> None:
        self._plan = plan
        self._operators: dict[int, NodeOperator] = {}
        self.batch = 0
        """The number of the micro-batch that rows are of."""
        self._firsts = np.array([node.first for node in plan.nodes], np.int64)

    def operator(self, node: int) -> NodeOperator:
        """The evaluation's own copy of a node's operator; those without state are shared by all evaluations."""
        found = self._operators.get(node)
        if found is None:
            given = self._plan.nodes[node].operator
            found = self._operators[node] = given.fresh() if given.stateful else given
        return found

    def apply(self, port: int, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        """Apply rows to the node of a port; `units` are numbered within the node."""
        about = self._plan.ports[port]
        operator = self.operator(about.node)
        if operator.by_batch:
            operator.batch = self.batch
        return operator.process(about.side, rows, units, keys)

    def keep(self, feeders: Container[int]) -> None:
        """Forget the rows that are held for other feeders than these, which are gone."""
        for operator in self._operators.values():
            if isinstance(operator, OrderNode):
                operator.keep(feeders)

    def process(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        """Apply logged rows to their node again; the results are dropped, since they were sent on before."""
        told = rows.schema.metadata or {}
        port, self.batch = int(told[PORT]), int(told.get(BATCH, 0))
        about = self._plan.ports[port]
        node = self._plan.nodes[about.node]
        plain = rows.replace_schema_metadata(None)
        local, hashes = units - np.int32(node.first), keys
        if node.units == 1:
            local, hashes = node.operator.routed(about.side, plain)
        self.apply(port, plain, local, hashes)
        return rows.slice(0, 0)

    def extract(self, unit: int) -> UnitState:
        node, place = self._at(unit)
        return self.operator(node).extract(place) if node is not None else None

    def install(self, unit: int, state: UnitState) -> None:
        node, place = self._at(unit)
        assert node is not None
        self.operator(node).install(place, state)

    def snapshot(self, unit: int) -> UnitState:
        node, place = self._at(unit)
        return self.operator(node).snapshot(place) if node is not None else None

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        nodes = np.searchsorted(self._firsts, units, side="right") - 1
        sizes = np.zeros(len(units), np.int64)
        for node in np.unique(nodes).tolist():
            mine = nodes == node
            if node in self._operators:
                sizes[mine] = self._operators[node].sizes(units[mine] - np.int32(self._firsts[node]))
        return sizes

    def tallies(self) -> dict[str, int]:
        """The counts of all nodes; those of one input of a node are called after the node."""
        counted: dict[str, int] = {}
        for node, operator in self._operators.items():
            for name, count in operator.tallies().items():
                called = f"{name} of {self._plan.nodes[node].name}" if " of " in name else name
                counted[called] = counted.get(called, 0) + count
        return counted

    def _at(self, unit: int) -> tuple[int | None, int]:
        """The node of a unit, and the unit's number within it; None for the unit that no node has."""
        if unit >= self._plan.units:
            return None, 0
        node = int(np.searchsorted(self._firsts, unit, side="right")) - 1
        return node, int(unit - self._firsts[node])


class HostedGraph(Hosted):
    """The graph as it was planned. It keeps no state itself: each evaluation has its own (`GraphState`).

    It has one unit more than its nodes, which is never used: units are found as those of keyed operators are, whose
    last unit is that of null keys.
    """

    def __init__(self, plan: GraphPlan) -> None:
        empty = pa.schema([])
        super().__init__(GraphState(plan), empty, empty, plan.units + 1)
        self.plan = plan
        self.schemas = tuple(port_schema(plan, port) for port in range(len(plan.ports)))
        """By port, the columns of rows as they travel."""
        self.filters = {node.name: node.operator for node in plan.nodes if isinstance(node.operator, Filters)}
        """By name, the operators that choose an order of filters; they have no state, so all evaluations share them."""
        self.fixed_units = [node.first for node in plan.nodes if node.operator.ordering]
        """Units of order nodes: feeders bound the rows under way, and so the rows that these hold."""
        self._logged = tuple(self._log_schema(port) for port in range(len(plan.ports)))

    def warm_up(self) -> None:
        """Let the operators compile their code."""
        for node in self.plan.nodes:
            node.operator.warm_up()

    def fresh(self) -> GraphState:
        """The state of an evaluation that begins."""
        return GraphState(self.plan)

    def named(self, unit: int) -> str:
        node = next(node for node in self.plan.nodes if node.first <= unit < node.first + node.units)
        return f"operator {node.name!r}" if node.units == 1 else f"unit {unit - node.first} of operator {node.name!r}"

    def rows_of(self, port: int, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Units, Keys]:
        """Rows as an operator takes them, their units within the node and the hashes of their keys.

        Units and hashes are empty for an operator without keys.
        """
        about = self.plan.ports[port]
        node = self.plan.nodes[about.node]
        if node.units == 1 or node.operator.lanes:
            return batch, *node.operator.routed(about.side, batch)
        hashes = batch.column(batch.num_columns - 1)
        rows = batch.select(list(range(batch.num_columns - 1)))
        return rows, units_of(hashes, node.units), values_of(hashes)

    def nothing(self, node: NodePlan) -> pa.RecordBatch:
        """A batch without rows, with the columns that a node gives."""
        schema = self.plan.streams[node.stream].schema
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)

    def logged(self, port: int, batch: pa.RecordBatch, units: Units, number: int) -> pa.RecordBatch:
        """Rows of a port as the log of micro-batch `number` has them; `units` are numbered through the graph."""
        column = pa.array(np.broadcast_to(units, batch.num_rows).astype(np.int64))
        schema = self._logged[port]
        if self.plan.nodes[self.plan.ports[port].node].operator.by_batch:
            schema = schema.with_metadata({**schema.metadata, BATCH: str(number).encode()})
        return pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)

    def from_log(self, logged: pa.RecordBatch) -> tuple[int, pa.RecordBatch, Units]:
        """The reverse of `logged`: the port, its rows as they travel, and their units."""
        width = logged.num_columns - 1
        port = int((logged.schema.metadata or {})[PORT])
        rows = pa.RecordBatch.from_arrays(logged.columns[:width], schema=self.schemas[port])
        return port, rows, logged.column(width).to_numpy().astype(np.int32)

    def _log_schema(self, port: int) -> pa.Schema:
        return self.schemas[port].append(UNIT).with_metadata({PORT: str(port).encode()})

    def replayed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Units, Keys]:
        return self.unpacked(batch)  # other columns are another graph

    def unpacked(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Units, Keys]:
        """Rows of a log, their units in the graph, and the hashes of their keys."""
        width = batch.num_columns - 1
        units = batch.column(width).to_numpy().astype(np.int32)
        keys = NO_KEYS
        if width and batch.schema.field(width - 1).name == HASH.name:
            width -= 1
            keys = values_of(batch.column(width))
        return batch.select(list(range(width))), units, keys

    def process(
        self,
        operator: KeyedOperator,
        rows: pa.RecordBatch,
        units: Units,
        keys: Keys,
        ordered: bool,
        placed: bool = False,
    ) -> tuple[pa.RecordBatch, Origin | None]:
        """Apply rows of a log."""
        return operator.process(rows, units, keys), None
