"""The result of `Cluster.run`: the DataFrames of a graph's endpoints, each by itself or all in one query."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from evenflow.errors import InvalidArgument, nearest
from evenflow.graph.build.plan import GraphPlan
from evenflow.runtime.cluster.plans.graph_plan import unpacked


class GraphOutput(Mapping[str, DataFrame]):
    """DataFrames by endpoint. Each evaluates what it needs of the graph by itself, as DataFrames do.

    `writeStream` writes all endpoints of a streaming graph in one query, with one evaluation.
    """

    def __init__(
        self, name: str, plan: GraphPlan, streaming: bool, applied: Callable[[str | None], tuple[GraphPlan, DataFrame]]
    ) -> None:
        self._name = name
        self._plan = plan
        self._streaming = streaming
        self._applied = applied
        """Gives the plan and the DataFrame of one endpoint, or of all together."""
        self._made: dict[str, DataFrame] = {}

    def __getitem__(self, endpoint: str) -> DataFrame:
        if endpoint not in list(self):
            raise InvalidArgument(f"there is no endpoint {endpoint!r:.100}; {nearest(str(endpoint), list(self))}")
        if endpoint not in self._made:
            self._made[endpoint] = self._applied(endpoint)[1]
        return self._made[endpoint]

    def __iter__(self) -> Iterator[str]:
        return (endpoint.name for endpoint in self._plan.endpoints)

    def __len__(self) -> int:
        return len(self._plan.endpoints)

    def __repr__(self) -> str:
        return f"<{self._name}: endpoints {', '.join(self)}>"

    def writeStream(self, function: Callable[..., Any]) -> DataStreamWriter:
        """A writer of all endpoints: `function(batch, endpoint)` is called for each in every micro-batch.

        A function that takes three arguments is given the number of the micro-batch, too, by which a sink can tell
        results that it has already. The graph is evaluated once a micro-batch; all calls see the results of that. With
        a checkpoint, a micro-batch that is run again after a failure gives the same rows again, to all endpoints.
        """
        if not self._streaming:
            raise InvalidArgument("writeStream is for streaming inputs, and these are batch DataFrames: use out[name]")
        if not callable(function):
            raise InvalidArgument(f"function={function!r:.100}: give a function of a batch and an endpoint's name")
        plan, together = self._applied(None)
        numbered = _takes_three(function)

        def write(batch: DataFrame, epoch: int) -> None:
            batch.persist()
            try:
                batch.count()  # one action sees all rows: those of the function may want only some
                for number, endpoint in enumerate(plan.endpoints):
                    function(unpacked(batch, plan, number), endpoint.name, *([epoch] if numbered else []))
            finally:
                batch.unpersist()

        return together.writeStream.foreachBatch(write)


def _takes_three(function: Callable[..., Any]) -> bool:
    """Whether a function takes three arguments by their place, or any number of them."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not say
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [each for each in parameters if each.kind in places and each.default is each.empty]
    return len(needed) >= 3 or any(each.kind is each.VAR_POSITIONAL for each in parameters)
