"""The workers and the feeder of a simulated graph, as the controller knows them: reports, and operators that move.

Moving is the live engine's protocol: senders hold back rows and mark their end (PauseUnits), the source waits for the
marks and until all that the operator gave is where it goes (SendUnits), the operator goes over with its queues and
windows, senders go on (ReleaseUnits). A movement that takes too long is taken back.
"""

from __future__ import annotations

from collections import Counter
from math import inf

import numpy as np

from evenflow.control.events import FeederJoinedEvent, GraphPlacing, Peer, RegionOpenedEvent
from evenflow.control.graphs.region import GraphRegion
from evenflow.errors import SimulationError
from evenflow.model.graphs.placement import PlacementProblem
from evenflow.model.latency import Latencies
from evenflow.model.messages import (
    ConsumerReport,
    DiscardUnits,
    FeederBegan,
    FlowProgress,
    FlowReport,
    GraphRouting,
    KeyedDirectory,
    MoveReport,
    PauseUnits,
    RecallUnits,
    ReleaseUnits,
    RestoreUnits,
    SendUnits,
    SentCounts,
    ToFeeder,
    ToWorker,
    WorkerReport,
)
from evenflow.policy import Hash
from evenflow.policy.graph.placement import Placement
from evenflow.sim.graphs import engine
from evenflow.sim.graphs.model import SimulatedGraph
from evenflow.sim.graphs.state import GONE, LAND, LATENCY, SAID, SERVED, STAYS, graph_arrays
from evenflow.sim.heap import COUNT, FIELD
from evenflow.sim.simulation import FIRST_WORKER, Simulation

REGION = "graph"
STANDARD_US = 100.0
"""A standard piece of work on a host of coefficient 1."""


class GraphPlane:
    """One graph under one placement; until it is warm, operators are where `first` puts them."""

    def __init__(self, graph: SimulatedGraph, placement: Placement, first: Placement | None = None) -> None:
        self.graph, self._placement, self._first = graph, placement, first
        self.arrays = graph_arrays(graph)
        self._orders: dict[int, SendUnits] = {}
        """By operator that leaves or is on its way, the order to send it."""
        self._paused: dict[int, int] = {}
        """By movement, the operator that it is about."""
        self._totals: Counter[str] = Counter()
        self._reported_busy = np.zeros(len(graph.hosts))
        self._rows = np.zeros(len(graph.hosts), np.int64)
        """By host, rows that it has served."""

    # -- what a simulation asks for

    def begin(self, world: Simulation) -> None:
        """Open the region, let the feeder join, put the reports on the agenda."""
        graph = self.graph
        if world.workers != len(graph.hosts):
            raise SimulationError(f"the simulation has {world.workers} workers, the graph {len(graph.hosts)} hosts")
        self._world, self._feeder = world, world.feeder()
        shape = graph.shape()
        quotas = {worker: host.quota for worker, host in enumerate(graph.hosts)}
        placing = GraphPlacing(
            shape,
            self._placement,
            self._first,
            quotas=quotas,
            coefficients={worker: host.coefficient for worker, host in enumerate(graph.hosts)} if graph.told else {},
            links=self._links() if graph.told else {},
            period=graph.period_s,
            every_s=graph.every_s,
            warm=graph.warm,
        )
        world.open(RegionOpenedEvent(0.0, REGION, REGION, Hash(), shape.units, graph=placing))
        world.handle(FeederJoinedEvent(0.0, self._feeder, REGION))
        world.say(0.0, self._feeder, FeederBegan(0))
        world.every(graph.report_s, self._report)

    def advance(self, until: float) -> float:
        """Do all that happens up to `until`, or until an operator is ready to leave."""
        g = self.arrays
        reached = float(engine.advance(g, until))
        for operator in g.said[: g.numbers[SAID]].tolist():
            self._go(reached, operator)
        g.numbers[SAID] = 0
        return reached

    def told(self, time: float, peer: Peer, message: ToWorker | ToFeeder) -> None:
        """Do what the controller wants; what does not matter here is ignored."""
        match message:
            case GraphRouting():
                self._place_all(message)
            case KeyedDirectory():
                engine.open_sources(self.arrays)
            case PauseUnits(move, _, units, _):
                self._paused[move] = units[0]
                self.arrays.paused[units[0], self._sender(peer)] = True
            case ReleaseUnits(move, _, _, _):
                engine.resume(self.arrays, self._paused[move], self._sender(peer))
            case SendUnits():
                # All senders hear of it now, as the source does: their marks come behind the rows on the links.
                marks = time + float(self.arrays.delay_s[:, message.source].max())
                self._orders[message.units[0]] = message
                self._world.at(marks, lambda _: self._leave(message))
            case DiscardUnits(move, region):
                self._world.say(time, peer, MoveReport(region, move, "discarded"))
            case RecallUnits(move, region):
                if self._in_place(move):
                    self._take_back(move)
                    self._world.say(time, peer, MoveReport(region, move, "restored"))
            case RestoreUnits(move, region):
                self._take_back(move)
                self._world.say(time, peer, MoveReport(region, move, "restored"))
            case _:
                pass

    def stuck(self) -> str:
        """Which operators cannot send what they gave, and which readers they wait for, if nothing goes on any more."""
        g, names, found = self.arrays, [each.name for each in self.graph.operators], []
        kinds = g.heap.whats[: g.heap.counts[COUNT]] >> (2 * FIELD)
        if np.isin(kinds, (SERVED, LAND)).any() or g.paused.any():  # or an operator is moving
            return ""
        for operator in np.flatnonzero(g.ready_count).tolist():
            source = len(self.graph.sources) + operator
            ports = g.edges[g.firsts[source] : g.firsts[source + 1]].tolist()
            waits = sorted({names[port // 2] for port in ports if not self._takes(port, int(g.host_of[operator]))})
            found.append(f"{names[operator]} on host {g.host_of[operator]} waits for {', '.join(waits) or 'a link'}")
        return "; ".join(found)

    def _takes(self, port: int, host: int) -> bool:
        return bool(self.arrays.reserved[port] < self.graph.queue_rows and not self.arrays.paused[port // 2, host])

    # -- what experiments look at

    def problem(self) -> PlacementProblem:
        """The operators, hosts and links as the controller has measured them."""
        region = self._world.controller.region(REGION)
        assert isinstance(region, GraphRegion)
        return region.graph.problem()

    @property
    def placed(self) -> list[int]:
        """The host of each operator."""
        return [int(host) for host in self.arrays.host_of]

    @property
    def served(self) -> int:
        """Rows that have come to endpoints, reported or not."""
        return self.results + int(self.arrays.results.sum())

    @property
    def ended(self) -> bool:
        """Never: sources have no end."""
        return False

    @property
    def results(self) -> int:
        """Rows that have come to endpoints, as reported."""
        return self._totals["results"]

    # -- where operators are

    def _place_all(self, routing: GraphRouting) -> None:
        """Units are where the controller says; a graph that has rows already is told nothing new."""
        for operator, worker in enumerate(routing.owners[: len(self.graph.operators)].tolist()):
            if self.arrays.host_of[operator] < 0:
                engine.place(self.arrays, operator, worker)
            elif self.arrays.host_of[operator] != worker:
                raise SimulationError(f"operator {operator} is to be on worker {worker} without having moved")

    def _sender(self, peer: Peer) -> int:
        return len(self.graph.hosts) if peer == self._feeder else peer - FIRST_WORKER

    def _leave(self, order: SendUnits) -> None:
        """The marks of all senders are here."""
        if self._orders.get(order.units[0]) is order:
            engine.leave(self.arrays, order.units[0])

    def _go(self, time: float, operator: int) -> None:
        """All that an operator gave is where it goes: it is sent, with its queues and windows."""
        g, order = self.arrays, self._orders[operator]
        ports = slice(2 * operator, 2 * operator + 2)
        rows = int(g.waiting[ports].sum() + g.window_count[ports].sum())
        takes = rows * self.graph.move_ms * 1e-3 + float(g.delay_s[order.source, order.target])
        self._world.say(time, FIRST_WORKER + order.source, MoveReport(order.region, order.move, "quiet"))
        self._world.at(time + takes, lambda now: self._install(now, order, rows * self.graph.row_bytes))

    def _install(self, time: float, order: SendUnits, size: int) -> None:
        operator = order.units[0]
        if self._orders.get(operator) is not order:  # taken back meanwhile
            return
        del self._orders[operator]
        engine.place(self.arrays, operator, order.target)
        report = MoveReport(order.region, order.move, "installed", bytes=size)
        self._world.say(time, FIRST_WORKER + order.target, report)

    def _in_place(self, move: int) -> bool:
        """Whether the operator of a movement is to leave, and has not left yet."""
        operator = self._paused[move]
        order = self._orders.get(operator)
        return order is not None and order.move == move and bool(self.arrays.status[operator] != GONE)

    def _take_back(self, move: int) -> None:
        operator = self._paused[move]
        order = self._orders.pop(operator, None)
        if order is not None:
            on_its_way = self.arrays.status[operator] != STAYS
            self.arrays.status[operator] = STAYS
            if on_its_way:
                engine.place(self.arrays, operator, int(self.arrays.host_of[operator]))

    # -- reports

    def _report(self, time: float) -> None:
        """The feeder and all workers tell what happened since they last did."""
        g, hosts = self.arrays, range(len(self.graph.hosts))
        arrived = {source: int(rows) for source, rows in enumerate(g.arrived)}
        buckets = {int(bucket): int(g.results[bucket]) for bucket in np.flatnonzero(g.results)}
        self._totals["results"] += sum(buckets.values())
        progress = FlowProgress(arrived, Latencies(buckets, float(g.times[LATENCY])))
        self._world.say(time, self._feeder, progress)
        for worker in hosts:
            self._world.say(time, FIRST_WORKER + worker, self._flow_report(worker))
        for worker in hosts:
            self._say_load(time, worker)
        for counter in (g.arrived, g.taken, g.given, g.busy, g.results, g.sent):
            counter[:] = 0
        g.times[LATENCY] = 0.0

    def _flow_report(self, worker: int) -> FlowReport:
        g, row_bytes = self.arrays, self.graph.row_bytes
        units = np.sort(g.members[worker, : g.member_count[worker]])
        units = units[g.taken[units] > 0]
        given = g.given[units]
        sent = {int(to): SentCounts(int(n), int(n), int(n) * row_bytes) for to, n in enumerate(g.sent[worker]) if n}
        trips, bandwidths = {}, {}
        for (one, other), (delay, bandwidth) in self._links().items():
            if one == worker and not self.graph.told:
                trips[other], bandwidths[other] = 2e-3 * delay, min(bandwidth, 1e300)
        return FlowReport(
            region=REGION,
            seconds=self.graph.report_s,
            units=units.astype(np.int32),
            rows_in=g.taken[units],
            rows_out=given,
            micros=np.rint(g.busy[units] * 1e6).astype(np.int64),
            calls=g.taken[units],
            bytes_out=given * row_bytes,
            sent=sent,
            queued=None if self.graph.told else 0,
            standard_us=0.0 if self.graph.told else STANDARD_US * float(g.coefficient[worker]),
            round_trips=trips,
            bandwidths=bandwidths,
        )

    def _say_load(self, time: float, worker: int) -> None:
        """What a worker did for the region, and in all."""
        g, peer, none = self.arrays, FIRST_WORKER + worker, np.zeros(0, np.int64)
        units = np.sort(g.members[worker, : g.member_count[worker]])
        busy = float(g.host_busy[worker])
        took, self._reported_busy[worker] = busy - self._reported_busy[worker], busy
        rows = int(g.taken[units].sum())
        self._rows[worker] += rows
        state = (g.window_count[2 * units] + g.window_count[2 * units + 1]) * self.graph.row_bytes
        empty = none.astype(np.int32)
        report = ConsumerReport(
            region=REGION,
            seconds=self.graph.report_s,
            idle_s=max(0.0, self.graph.report_s - took),
            busy_s=took,
            rows=rows,
            bytes=rows * self.graph.row_bytes,
            units=empty,
            unit_rows=none,
            sized=units[state > 0].astype(np.int32),
            sizes=state[state > 0],
            on_disk=empty,
            pending=none,
        )
        total = int(self._rows[worker])
        self._world.say(time, peer, WorkerReport(total, total, busy, {REGION: busy}))
        self._world.say(time, peer, report)

    def _links(self) -> dict[tuple[int, int], tuple[float, float]]:
        """By pair of hosts, delay in ms and bytes a second."""
        g, found = self.arrays, {}
        for (one, other), delay in np.ndenumerate(g.delay_s):
            if one != other:
                rows_s = float(g.link_rows[one, other] / delay) if delay else inf
                found[one, other] = float(delay) * 1e3, rows_s * self.graph.row_bytes
        return found
