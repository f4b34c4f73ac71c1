"""The shape of a graph: its nodes and edges by number, without what they do. The controller knows no more of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeShape:
    """One operator of a graph."""

    name: str
    kind: str
    first: int
    """The number of its first unit."""
    units: int
    """How many it has: 1 for a whole operator, more if it is spread over workers."""
    readers: tuple[int, ...]
    """The nodes that read what it gives, each once."""
    inputs: tuple[int, ...]
    """What each of its inputs reads: a node, or source n as -1 - n."""
    endpoint: bool = False
    """Whether what it gives are results."""
    lanes: bool = False
    """Whether any of its units takes any rows, as those of an ordered map; otherwise keys say which."""
    by_rows: bool = False
    """Whether it is a join whose window is in rows: a row meets as many, whatever the rate of the other side, so that
    what the join gives grows with the sum of the rates of its inputs, not with their product."""

    @property
    def whole(self) -> bool:
        """Whether it is in one place."""
        return self.units == 1


@dataclass(frozen=True, slots=True)
class GraphShape:
    """A whole graph; every node comes behind those that it reads from."""

    sources: tuple[str, ...]
    nodes: tuple[NodeShape, ...]

    @property
    def units(self) -> int:
        """How many units all nodes have together, and one that is never used."""
        return 1 + sum(node.units for node in self.nodes)
