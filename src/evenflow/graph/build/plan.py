"""The plan of a graph: its streams, nodes and endpoints by number, bound to columns. Frozen, and sent to all processes.

Streams 0 to n-1 are what the n sources give, the others what the nodes give, in an order in which every node comes
behind those that it reads from. Units of all nodes are numbered through: node `n` has the units from `n.first` on. So
one routing table says for every (operator, unit) on which worker it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from evenflow.graph.nodes.operator import NodeOperator


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The rows that one source or one node gives."""

    name: str
    schema: pa.Schema
    readers: tuple[int, ...]
    """Numbers of the ports that read it."""
    endpoints: tuple[int, ...]
    """Numbers of the endpoints that give it to Spark."""


@dataclass(frozen=True, slots=True)
class PortPlan:
    """One input of one node."""

    node: int
    side: int
    """Which input of the node: 0, or 1 for the right side of a join."""
    stream: int


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One operator."""

    name: str
    operator: NodeOperator
    ports: tuple[int, ...]
    """By side."""
    stream: int
    """The number of the stream that it gives."""
    first: int
    """The number of its first unit."""

    @property
    def units(self) -> int:
        """How many units it has; the last is that of null keys if there is more than one."""
        return self.operator.units


@dataclass(frozen=True, slots=True)
class EndpointPlan:
    """Where results leave the graph."""

    name: str
    stream: int


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """A whole graph."""

    sources: tuple[str, ...]
    """Names; source n gives stream n."""
    streams: tuple[StreamPlan, ...]
    ports: tuple[PortPlan, ...]
    nodes: tuple[NodePlan, ...]
    endpoints: tuple[EndpointPlan, ...]

    @property
    def units(self) -> int:
        """How many units all nodes have together."""
        return sum(node.units for node in self.nodes)

    def dense(self) -> frozenset[int]:
        """Ports to which a frame comes for every turn, although it may have no rows: those on the way to an order."""
        found: set[int] = set()
        for node in reversed(self.nodes):
            if node.operator.ordering or found.intersection(self.streams[node.stream].readers):
                found.update(node.ports)
        return frozenset(found)

    def edges(self) -> Iterator[tuple[int, int]]:
        """Pairs of nodes, the second of which reads what the first gives; one for each port."""
        for number, node in enumerate(self.nodes):
            for port in self.streams[node.stream].readers:
                yield number, self.ports[port].node
