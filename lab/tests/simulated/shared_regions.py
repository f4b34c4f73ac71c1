"""Several ordered regions on the same workers: the real splitters, merges, fair queues, controller and balances.

Simulated are time, the workers' service and what is between the processes, where nothing takes any time. Every region
has one feeder at a time, whose rows do not end before it is to stop.
"""

import heapq
import itertools
from dataclasses import dataclass, field
from math import inf
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from evenflow.control.controller import Controller
from evenflow.control.events import (
    FeederJoinedEvent,
    MessageEvent,
    PeerLeftEvent,
    RegionOpenedEvent,
    SendInstruction,
    TickEvent,
)
from evenflow.model.messages import Directory, FeederReport, Weights, WorkerHello
from evenflow.policy.keyed.fair_queue import ServiceOrder
from evenflow.runtime.feeder.frame_size import FrameSize
from evenflow.runtime.feeder.link import Link, Meter
from evenflow.runtime.feeder.ordered.merge import OrderedMerge
from evenflow.runtime.feeder.ordered.splitter import OrderedSplitter

ROWS = pa.record_batch({"id": pa.array(np.zeros(100_000, np.int8))})
MOST_ROWS = 1000
"""Of a frame."""
FEEDERS = 100
"""The first feeder's number as a peer of the controller; workers have those below."""


@dataclass
class Demand:
    """One region: its balance, what a row costs, and the times between which it has rows."""

    balance: object
    times: list = field(default_factory=lambda: [(0.0, inf)])
    cost_s: float = 5e-5
    ordered: bool = True


class Feeder:
    """A region's only feeder, while it has rows."""

    def __init__(self, world, name, peer, demand):
        self.world, self.name, self.peer, self.demand = world, name, peer, demand
        self.links = {worker: _link(worker, lambda: world.now) for worker in range(len(world.slowdown))}
        self.meter, self.merge = Meter(), OrderedMerge(demand.ordered)
        clock = self.clock
        self.splitter = OrderedSplitter(self.links, demand.balance.splitting, FrameSize(), self.meter, clock)
        self.reported = world.out[name]
        self.since = world.now

    def clock(self):
        return self.world.now

    def meet(self, message):
        if message.costs:
            self.splitter.use(FrameSize(message.costs, message.overhead))
        self.splitter.set_weights(message.weights)
        for link in self.links.values():
            self.splitter.opened(link)

    def send(self):
        """Send frames for as long as there is room."""
        while True:
            self.splitter.find_overdue()
            while (copy := self.splitter.copy()) is not None:
                self._give(*copy)
            link = self.splitter.next(len(ROWS), len(self.merge))
            if link is None:
                break
            self._give(link, self.splitter.add(ROWS.slice(0, min(MOST_ROWS, self.splitter.rows(link)))))

    def _give(self, link, sequence):
        self.merge.expect(link.worker, sequence)
        rows = self.splitter.unanswered(sequence).rows
        self.splitter.sent(link, sequence)
        self.world.arrive(link.worker, self, sequence, rows)

    def answered(self, worker, sequence, rows, seconds):
        if self.world.feeders.get(self.name) is not self:
            return  # it has left
        self.merge.add(worker, sequence, rows, rows, last=True)
        self.splitter.answered(self.links[worker], sequence, seconds)
        self.world.out[self.name] += sum(self.merge.ready())
        self.send()

    def report(self):
        now = self.world.now
        self.meter.charge(now)
        connections = {worker: link.news() for worker, link in self.links.items()}
        resent, rerouted = self.splitter.news()
        self.world.resent[self.name] += resent
        left = self.world.out[self.name]
        out, self.reported = left - self.reported, left
        about = now - self.since, out, connections, resent, rerouted, self.splitter.overhead
        self.since = now
        return MessageEvent(now, self.peer, FeederReport(*about))


def _link(worker, clock):
    return Link(worker, 1, 0, SimpleNamespace(open=True, unsent=0, peer="here"), clock)


@dataclass
class History:
    """What a region did, one row a period."""

    rows: np.ndarray
    """Rows that left, a second."""
    weights: np.ndarray
    rates: np.ndarray
    """Blocking rates, by worker."""
    resent: int


@dataclass
class World:
    """Workers, of which worker j takes `slowdown[j]` times as long for a row, and regions by name."""

    slowdown: list
    demands: dict
    qos: dict = field(default_factory=dict)
    period: float = 1.0
    now: float = 0.0

    def __post_init__(self):
        self.controller = Controller(len(self.slowdown), self.qos)
        self.orders = [ServiceOrder(self.qos) for _ in self.slowdown]
        self.queues = [{} for _ in self.slowdown]
        self.busy = [False] * len(self.slowdown)
        self.feeders = {}
        self.out, self.resent = dict.fromkeys(self.demands, 0), dict.fromkeys(self.demands, 0)
        self.served = {name: np.zeros(len(self.slowdown)) for name in self.demands}
        self._events, self._ties = [], itertools.count()
        for worker in range(len(self.slowdown)):
            self.controller.handle(MessageEvent(0.0, worker, WorkerHello(worker, host="h", port=7000, pid=1)))
        for peer, (name, demand) in enumerate(self.demands.items(), FEEDERS):
            self.controller.handle(RegionOpenedEvent(0.0, name, "op", demand.balance))
            for start, stop in demand.times:
                self._at(start, self._join, name, peer, demand)
                self._at(stop, self._leave, name)

    def _at(self, time, action, *about):
        if time < inf:
            heapq.heappush(self._events, (time, next(self._ties), action, about))

    def tell(self, event):
        for told in self.controller.handle(event):
            if isinstance(told, SendInstruction):
                feeder = next((each for each in self.feeders.values() if each.peer == told.peer), None)
                if feeder is not None and isinstance(told.message, Directory):
                    feeder.meet(told.message)
                elif feeder is not None and isinstance(told.message, Weights):
                    feeder.splitter.set_weights(told.message.weights)

    def _join(self, name, peer, demand):
        self.feeders[name] = Feeder(self, name, peer, demand)
        self.tell(FeederJoinedEvent(self.now, peer, name))
        self.feeders[name].send()

    def _leave(self, name):
        feeder = self.feeders.pop(name)
        self.tell(feeder.report())
        self.tell(PeerLeftEvent(self.now, feeder.peer, "done"))

    # -- workers

    def arrive(self, worker, feeder, sequence, rows):
        self.queues[worker].setdefault(feeder.name, []).append((feeder, sequence, rows))
        self._at(self.now, self._serve, worker)

    def _serve(self, worker):
        waiting = {name for name, frames in self.queues[worker].items() if frames}
        if self.busy[worker] or not waiting:
            return
        name = self.orders[worker].choose(waiting)
        feeder, sequence, rows = self.queues[worker][name].pop(0)
        seconds = rows * feeder.demand.cost_s * self.slowdown[worker]
        self.busy[worker] = True
        self._at(self.now + seconds, self._done, worker, feeder, sequence, rows, seconds)

    def _done(self, worker, feeder, sequence, rows, seconds):
        self.busy[worker] = False
        self.orders[worker].charge(feeder.name, seconds)
        self.served[feeder.name][worker] += seconds
        feeder.answered(worker, sequence, rows, seconds)
        self._serve(worker)

    # -- a run

    def run(self, seconds):
        """What each region did, by name."""
        table = {name: [] for name in self.demands}
        for number in range(1, round(seconds / self.period) + 1):
            out, weights = dict(self.out), {name: self._region(name).weights for name in self.demands}
            blocked = {name: self._blocked(name) for name in self.demands}
            self._until(number * self.period)
            for feeder in self.feeders.values():
                self.tell(feeder.report())
            for name, rows in table.items():
                rates = (self._blocked(name) - blocked[name]) / self.period
                rows.append(((self.out[name] - out[name]) / self.period, list(weights[name].values()), rates))
            self.tell(TickEvent(self.now))
            for feeder in self.feeders.values():
                feeder.send()
        return {
            name: History(*(np.array(column) for column in zip(*rows, strict=True)), self.resent[name])
            for name, rows in table.items()
        }

    def _region(self, name):
        return self.controller.region(name)

    def _blocked(self, name):
        return np.array([total.blocked_s for total in self._region(name).totals.values()])

    def _until(self, time):
        while self._events and self._events[0][0] <= time:
            self.now, _, action, about = heapq.heappop(self._events)
            action(*about)
        self.now = time
