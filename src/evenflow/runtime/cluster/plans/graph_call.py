"""A graph with its inputs and arguments, as `Cluster.run` was given it: makes a region and a DataFrame of endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from evenflow.control.events import Transfer
from evenflow.graph.build.builder import Graph
from evenflow.graph.build.plan import GraphPlan
from evenflow.graph.routers import routing_plan
from evenflow.policy import Placement, compile_estimates
from evenflow.runtime.cluster.arguments.graph import KnownOfWorkers, placement_of
from evenflow.runtime.cluster.arguments.qos import refuse_shedding
from evenflow.runtime.cluster.plans.graph_output import GraphOutput
from evenflow.runtime.cluster.plans.graph_plan import bound, endpoint_schema, joined_inputs, together_schema
from evenflow.runtime.cluster.running import RunningCluster
from evenflow.runtime.feeder.graph.feed import GraphFeed
from evenflow.runtime.feeder.graph.feeder import GraphTask
from evenflow.runtime.wire.settings import mark_of


@dataclass(frozen=True, kw_only=True)
class GraphCall:
    """One call of `Cluster.run`; arguments are checked."""

    running: RunningCluster
    name: str
    """Empty if it is that of the graph."""
    was: str | None
    """The name that it had before, if it has another one now."""
    graph: Graph
    inputs: Mapping[str, DataFrame]
    placement: str | Placement
    options: dict[str, Any]
    """Of the placement, if it is given by its name."""
    known: KnownOfWorkers
    queues: tuple[int, int]
    """Rows and bytes of a task that are on their way, at most."""
    transfer: Transfer

    def output(self) -> GraphOutput:
        """The endpoints. Raises if the graph does not fit its inputs; inputs that are added later play no part."""
        whole, fixed = self._plan(), replace(self, inputs=dict(self.inputs))
        return GraphOutput(self.title, whole, self.streaming, partial(fixed.applied, whole))

    @property
    def title(self) -> str:
        """The name of its regions, to which that of an endpoint is added."""
        return self.name or self.graph.name or "graph"

    @property
    def streaming(self) -> bool:
        """Whether the inputs are; all are of one kind."""
        return any(df.isStreaming for df in self.inputs.values())

    def _plan(self, endpoint: str | None = None) -> GraphPlan:
        """The part of the graph that one endpoint needs, or the whole graph."""
        return bound(self.running.spark, self.graph, self.inputs, None if endpoint is None else [endpoint])

    def applied(self, whole: GraphPlan, endpoint: str | None) -> tuple[GraphPlan, DataFrame]:
        """The plan and the results of one endpoint, or of all together, whose plan is `whole`."""
        plan, together = whole if endpoint is None else self._plan(endpoint), endpoint is None
        part = "" if together else f".{endpoint}"
        region, was = f"{self.title}{part}", None if self.was is None else f"{self.was}{part}"
        settings = self.running.settings
        refuse_shedding(self.running.qos(region), region)
        chosen = placement_of(self.placement, self.options)
        compile_estimates()
        opened, digest = self.running.regions.open_graph(
            plan,
            region,
            placement=chosen,
            known=self.known,
            transfer=self.transfer,
            streaming=self.streaming,
            settings=settings,
            was=was,
        )
        self.running.named.use(region)
        rows, size = self.queues
        feed = GraphFeed(
            settings=settings,
            region=opened,
            operator=digest,
            plan=routing_plan(plan),
            streaming=self.streaming,
            mark=mark_of(settings.cluster, opened),
            together=together,
            window_rows=rows,
            window_bytes=size,
            arrival=settings.emulate.arrival if settings.emulate else "",
        )
        schema = together_schema(plan) if together else endpoint_schema(plan, 0)
        return plan, joined_inputs(plan, self.inputs).mapInArrow(GraphTask(feed), schema)
