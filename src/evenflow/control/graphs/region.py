"""The region of a graph: one keyed region that has the units of all operators; workers send its rows, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

import numpy as np

from evenflow.control.events import (
    FeederJoinedEvent,
    Instruction,
    Peer,
    PeerLeftEvent,
    RegionOpenedEvent,
    SendInstruction,
)
from evenflow.control.graphs.balancing import GraphBalancing
from evenflow.control.graphs.results import GraphResults
from evenflow.control.moves.move_queue import UnitNodes
from evenflow.control.regions.keyed import KeyedRegion
from evenflow.control.workers import WorkerLife, listed
from evenflow.model import RoutingTable
from evenflow.model.entries import FiltersOrderedEntry, OperatorPart, RegionOpenedEntry
from evenflow.model.messages import (
    FeederMessage,
    FeederReport,
    FlowProgress,
    FlowReport,
    GraphRouting,
    WorkerRegionMessage,
    WorkerReport,
)
from evenflow.policy.keyed.sharing import Sharing


class GraphRegion(KeyedRegion):
    """One graph. Its workers send each other rows, so they learn the owners of units as feeders do."""

    def __init__(
        self, event: RegionOpenedEvent, sharing: Sharing, numbers: Iterator[int], stall_timeout: float = inf
    ) -> None:
        super().__init__(event, sharing, numbers, stall_timeout)
        assert event.graph is not None
        self.movements.queue.nodes = UnitNodes.of(event.graph.shape)
        self.movements.spread = self._spread
        self.graph = GraphBalancing(event.graph, self.statistics, self.movements)
        self._results = GraphResults(event.region, event.graph.period)

    @property
    def senders(self) -> set[Peer]:
        return self.feeders | {life.peer for life in self.movements.workers.values()}

    def opened(self, time: float) -> RegionOpenedEntry:
        shape = self.graph.shape
        return RegionOpenedEntry(
            time=time,
            region=self.name,
            placement=self.graph.placement.name,
            units=self.units,
            sources=list(shape.sources),
            operators=[
                OperatorPart(name=node.name, kind=node.kind, units=node.units, endpoint=node.endpoint)
                for node in shape.nodes
            ],
            edges=[(each, number) for number, node in enumerate(shape.nodes) for each in dict.fromkeys(node.inputs)],
        )

    def reopen(self, event: RegionOpenedEvent) -> Iterator[Instruction]:
        changed = event.operator != self.operator
        yield from super().reopen(event)
        if changed:  # rows of the next feeders must not go by the plan that workers know
            table = self.movements.table
            self.movements.table, self.movements.dealt = RoutingTable(table.version + 1, table.owners), True
            yield from self._route()

    def _on(self, worker: int) -> str:
        placed = self.graph.placed()
        names = [name for name, workers in placed.items() if worker in workers]
        some = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return f"rows and state of {some or 'operators'} of graph {self.name}"

    # -- workers

    def set_workers(
        self, time: float, workers: Mapping[int, WorkerLife], reasons: Mapping[int, str] | None = None
    ) -> Iterator[Instruction]:
        gone = [life for worker, life in self.movements.workers.items() if workers.get(worker) != life]
        for life in gone:
            yield from self.movements.feeder_left(life.peer)
        self.graph.set_workers(workers)
        self.movements.dealt = True
        yield from super().set_workers(time, workers, reasons)
        yield from self._route()

    def hear_worker(self, time: float, worker: int, message: WorkerRegionMessage) -> Iterator[Instruction]:
        if isinstance(message, FlowReport):
            self.graph.report(worker, message)
            for order in message.orders:
                yield FiltersOrderedEntry(
                    time=time,
                    region=self.name,
                    worker=worker,
                    operator=order.operator,
                    filters=list(order.filters),
                    cost_us=list(order.cost_us),
                    selectivity=list(order.selectivity),
                )
            return
        yield from super().hear_worker(time, worker, message)
        yield from self._route()

    def join(self, feeder: FeederJoinedEvent) -> Iterator[Instruction]:
        if not self.feeders:
            self.graph.measured.wake(feeder.time)
        yield from super().join(feeder)

    def hear(self, time: float, feeder: FeederJoinedEvent, message: FeederMessage) -> Iterator[Instruction]:
        if isinstance(message, FlowProgress):
            self.graph.progress(time, feeder.peer, message)
            self._results.add(message)
            self.performance.add(feeder.partition, FeederReport(0.0, 0, {}, latencies=message.latencies), ())
            return
        yield from super().hear(time, feeder, message)

    def worker_busy(self, time: float, worker: int, told: WorkerReport) -> Iterable[Instruction]:
        self.graph.measured.worker_busy(time, worker, told.busy_s, told.graphs.get(self.name))
        return ()

    def leave(self, feeder: FeederJoinedEvent, event: PeerLeftEvent, ended: bool) -> Iterator[Instruction]:
        self.graph.measured.left(feeder.peer)
        yield from super().leave(feeder, event, ended)

    @property
    def settled(self) -> bool:
        """Whether no task feeds the graph, and all results are in the event log."""
        return not self.feeders and self._results.noted

    def rebalance(self, time: float) -> Iterator[Instruction]:
        self.statistics.fresh.clear()
        return self.graph.rebalance(time, self.feeders, self.draining, self.senders)

    def tick(self, time: float) -> Iterator[Instruction]:
        yield from super().tick(time)
        yield from self._route()
        yield from self._results.note(time)
        yield from () if self.feeders else self.graph.rest(time, self.senders)

    def note_rest(self, time: float) -> Iterator[Instruction]:
        yield from super().note_rest(time)
        yield from self._results.note(time, final=True)

    def _admit(self) -> Iterator[Instruction]:
        if not self.feeders and self.waiting:  # workers forget graphs that nobody has fed for long
            self.movements.dealt = True
        yield from self._route()
        yield from super()._admit()

    def _route(self) -> Iterator[Instruction]:
        """Tell the workers the owners of units, if these have changed in another way than by movements."""
        if not self.movements.dealt:
            return
        self.movements.dealt = False
        table, workers = self.movements.table, self.movements.workers
        for life in workers.values():
            routing = GraphRouting(
                region=self.name,
                operator=self.operator,
                you=life.peer,
                workers=listed(workers, deep=True),
                owners=table.owners,
                version=table.version,
                paused=self.movements.paused(),
                move=self.movements.latest,
            )
            yield SendInstruction(life.peer, routing)

    def _spread(self, units: int, live: Sequence[int]) -> RoutingTable:
        """The first owners of units: the present ones while all of them are live, otherwise as the placement says."""
        table = self.movements.table
        if table.version and np.isin(table.owners, live).all():
            return table
        return RoutingTable(0, self.graph.first_owners(sorted(live)))
