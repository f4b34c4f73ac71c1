"""The regions of a cluster: opened through the controller thread, and found by name."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Container

from evenflow.control.events import GraphPlacing, RegionOpenedEvent, Transfer
from evenflow.control.regions.region import Region
from evenflow.errors import ClusterStopped, EvenflowError, InvalidArgument, StoreError, nearest
from evenflow.graph.build.plan import GraphPlan
from evenflow.graph.hosted import HostedGraph
from evenflow.policy import Balance, KeyedBalance, Placement, keyed_balance_named
from evenflow.runtime.cluster.arguments.graph import KnownOfWorkers
from evenflow.runtime.cluster.arguments.verbs import pickled
from evenflow.runtime.cluster.plans.graph_plan import described_graph, shape_of
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.runtime.driver.controller_thread import ControllerThread
from evenflow.runtime.driver.operator_names import Kept
from evenflow.runtime.wire.settings import Settings
from evenflow.state.store.base import part

PREPARE_S = 60.0
"""How long to wait for workers to compile an operator."""


class Regions:
    """One region for each use of an operator, or for each name under which state is stored."""

    def __init__(self, driver: ControllerThread, checkpoint_thread: CheckpointThread | None) -> None:
        self._driver = driver
        self._checkpoint_thread = checkpoint_thread
        self._opening = threading.Lock()

    def open(
        self,
        code: bytes,
        name: str,
        balance: Balance | KeyedBalance,
        units: int = 0,
        transfer: Transfer = "direct",
        order_warning: str = "",
        graph: GraphPlacing | None = None,
    ) -> tuple[str, str]:
        """Open a region; returns its name and the digest of its operator."""
        operator = _digest(code)
        with self._opening:  # one at a time: until its region is open, a name counts as free and an operator as unused
            self._driver.add_code(operator, code)
            region = self._driver.ask(lambda controller: controller.free_name(name))
            opened = RegionOpenedEvent(
                time=self._driver.now(),
                region=region,
                operator=operator,
                balance=balance,
                units=units,
                transfer=transfer,
                order_warning=order_warning,
                graph=graph,
                given=name if region != name else "",
            )
            self._driver.open_region(opened)
        return region, operator

    def open_stored(
        self,
        code: bytes,
        name: str,
        kept: Kept,
        balance: KeyedBalance,
        transfer: Transfer,
        order_warning: str = "",
        graph: GraphPlacing | None = None,
    ) -> tuple[str, str]:
        """Open a region whose state is stored; if a region of this name is open already, continue with its state."""
        assert self._checkpoint_thread is not None
        _check_stored_name(name, self._checkpoint_thread.names.absent)
        digest = _digest(code)
        with self._opening:
            before = self._checkpoint_thread.keeps(name)
            if before is not None and before != kept:
                raise InvalidArgument(
                    f"name {name!r} is that of {before.operator} with {before.units - 1} units already, and this is "
                    f"{kept.operator} with {kept.units - 1}: give another name, which begins with empty state, or use "
                    "a new Cluster"
                )
            self._checkpoint_thread.add(name, kept)
            self._driver.add_code(digest, code)
            opened = RegionOpenedEvent(
                time=self._driver.now(),
                region=name,
                operator=digest,
                balance=balance,
                units=kept.units,
                durable=True,
                transfer=transfer,
                order_warning=order_warning,
                graph=graph,
            )
            try:
                self._driver.open_region(opened)
            except EvenflowError as error:
                if not isinstance(error, ClusterStopped):  # else nobody knows whether it opens
                    self._checkpoint_thread.put_back(name, before)
                raise
        return name, digest

    def open_graph(
        self,
        plan: GraphPlan,
        name: str,
        *,
        placement: tuple[Placement, Placement | None],
        known: KnownOfWorkers,
        transfer: Transfer,
        streaming: bool,
        settings: Settings,
        was: str | None = None,
    ) -> tuple[str, str]:
        """Open the region of a graph, and wait until workers have it; returns its name and the digest of its code."""
        hosted, (chosen, first) = HostedGraph(plan), placement
        code = pickled(hosted)
        placing = GraphPlacing(
            shape=shape_of(plan),
            placement=chosen,
            first=first,
            quotas=known.quotas,
            coefficients=known.coefficients,
            links=known.links,
            period=settings.period,
        )
        balance = keyed_balance_named("hash")  # units move as the placement has it
        if settings.checkpoint and streaming:
            kept = Kept(described_graph(plan), hosted.units, was)
            opened = self.open_stored(code, name, kept, balance, transfer, graph=placing)
        else:
            opened = self.open(code, name, balance, hosted.units, transfer, graph=placing)
        self.await_operator(opened[1])
        return opened

    def await_operator(self, operator: str) -> None:
        """Wait until the workers have compiled an operator, at most PREPARE_S; after that, rows wait for the rest."""
        deadline = time.monotonic() + PREPARE_S
        while not self._driver.ask(lambda controller: controller.ready(operator)) and time.monotonic() < deadline:
            time.sleep(0.005)

    def find(self, name: str) -> Region:
        """A region by its name."""
        try:
            return self._driver.ask(lambda controller: controller.region(str(name)))
        except KeyError:
            why = self._driver.ask(lambda controller: controller.failure(str(name)))
            if why:
                raise EvenflowError(f"region {name} has failed: {why}") from None
            known = self._driver.ask(lambda controller: list(controller.regions))
            raise InvalidArgument(f"this cluster has no region {name!r}; {nearest(str(name), known)}") from None


def _digest(code: bytes) -> str:
    """The name of an operator: a hash of its code."""
    return hashlib.sha256(code).hexdigest()[:16]


def _check_stored_name(name: str, absent: Container[str]) -> None:
    """Refuse a name by which state cannot be found again."""
    if not name:
        raise InvalidArgument(
            "the cluster has a checkpoint, in which the state of a streaming query is found by the name of the "
            "operator: give name=, such as name='counts'. If the query has run without a name before, give was='' as "
            "well: the operator goes on with the state that it has"
        )
    if name in absent:
        raise InvalidArgument(
            f"name={name!r} is in absent= of this cluster, which is for all of its queries: take it out there, or give "
            f"another name. If one query keeps this operator and another is started without it, give the one that "
            f"keeps it another name and was={name!r}: it goes on with the state that it has"
        )
    try:
        part(name)
    except StoreError as error:
        raise InvalidArgument(f"{error} (with a checkpoint, each operator is a folder of it)") from None
