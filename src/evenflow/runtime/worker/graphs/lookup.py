"""Finds the graphs among a worker's operators."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.graph.hosted import HostedGraph
from evenflow.runtime.worker.rows.operator_cache import OperatorCache

FindGraph = Callable[[str], HostedGraph | None]
"""Gives the graph with the name of an operator; None if that is no graph, or is not here yet."""


class GraphLookup:
    """Graphs by the names of their operators."""

    def __init__(self, operators: OperatorCache) -> None:
        self._operators = operators

    def find(self, operator: str) -> HostedGraph | None:
        """The graph of that name, if it is one; if it is not here the controller is asked for it, once."""
        found = self._operators.fetch(operator)
        return found if isinstance(found, HostedGraph) else None
