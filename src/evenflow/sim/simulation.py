"""The real controller on a virtual clock.

Two clocks go side by side. The *agenda* has what concerns the controller: messages on their way, reports that are due,
ticks; it is Python, some thousand entries a second. The *data plane* stands in for workers and feeders: rows, queues,
buffers, service, movements; it is compiled, some million events a second (`heap`). The agenda never runs ahead: the
data plane first goes to the time of the next entry, or stops before, where it has something to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Protocol

from evenflow.control.controller import Controller
from evenflow.control.events import (
    Event,
    Instruction,
    MessageEvent,
    Peer,
    RegionOpenedEvent,
    Said,
    SendInstruction,
    TickEvent,
    WarnInstruction,
)
from evenflow.errors import SimulationError
from evenflow.model.entries import EventEntry, WarningEntry
from evenflow.model.messages import ToFeeder, ToWorker, WorkerHello
from evenflow.model.qos import Qos
from evenflow.sim.log import SimulatedLog

FIRST_WORKER: Peer = 1
"""Worker w is peer FIRST_WORKER + w; feeders come behind all workers."""
MOST_AT_ONCE = 1_000_000
"""Entries of the agenda at one time, at most: more means that something goes round in circles."""


class DataPlane(Protocol):
    """What stands in for workers and feeders."""

    def begin(self, world: Simulation) -> None:
        """At time 0, when the workers have joined: open the region, let feeders join, put reports on the agenda."""
        ...

    def advance(self, until: float) -> float:
        """Do all that happens up to and at `until`; returns the time that was reached.

        That is `until` or, if something was said to the controller (`world.say`), the time of that.
        """
        ...

    def told(self, time: float, peer: Peer, message: ToWorker | ToFeeder) -> None:
        """The controller's message has come to a worker or feeder; messages that do not matter here are ignored."""
        ...

    @property
    def served(self) -> int:
        """Rows served so far; of a graph, results."""
        ...

    @property
    def ended(self) -> bool:
        """Whether all rows that there will be are served."""
        ...

    def stuck(self) -> str:
        """Which queues wait for whom, in words; empty if rows can still move or none are left."""
        ...


class Simulation:
    """One run: `workers` workers, one data plane, and the controller that a live cluster has.

    `period_s` is that of `Cluster(period=)`. A message between the controller and its peers takes `delay_s` seconds.
    """

    def __init__(
        self,
        plane: DataPlane,
        workers: int,
        *,
        period_s: float = 1.0,
        delay_s: float = 0.0005,
        qos: Mapping[str, float | Qos] | None = None,
        log: SimulatedLog | None = None,
    ) -> None:
        self.controller = Controller(workers, qos)
        self.log = log or SimulatedLog()
        self.workers, self.period_s, self.delay_s = workers, period_s, delay_s
        self.time = 0.0
        self.messages = 0
        """Messages to and from the controller, so far."""
        self._plane = plane
        self._agenda: list[tuple[float, int, Callable[[float], None]]] = []
        self._entries = count()
        self._peers = count(FIRST_WORKER + workers)
        self._begun = False

    # -- for data planes

    def feeder(self) -> Peer:
        """The number of a new feeder."""
        return next(self._peers)

    def at(self, time: float, action: Callable[[float], None]) -> None:
        """Put on the agenda: `action(time)` is called when the data plane has got there. Equal times: first come."""
        heappush(self._agenda, (max(time, self.time), next(self._entries), action))

    def every(self, period: float, action: Callable[[float], None], first: float | None = None) -> None:
        """Put on the agenda, again and again, as long as the simulation goes on."""

        def again(time: float) -> None:
            action(time)
            self.at(time + period, again)

        self.at(period if first is None else first, again)

    def say(self, time: float, peer: Peer, message: Said) -> None:
        """A worker or feeder says something at `time`; the controller hears it `delay_s` later."""
        self.messages += 1
        self.at(time + self.delay_s, lambda now: self.handle(MessageEvent(now, peer, message)))

    def handle(self, event: Event) -> None:
        """Let the controller handle an event now, and carry out what it wants."""
        self._carry_out(self.controller.handle(event))

    def open(self, event: RegionOpenedEvent) -> None:
        """Open a region."""
        self.handle(event)

    # -- for those who run it

    def run(self, until: float) -> None:
        """Go on to this time, in seconds."""
        if not self._begun:
            self._begin()
        times, at_once = -inf, 0
        while True:
            due = min(self._agenda[0][0], until) if self._agenda else until
            reached = self._plane.advance(due)
            self.time = max(self.time, reached)
            if reached < due:  # it has said something, which may be due before all else
                continue
            if not self._agenda or self._agenda[0][0] > until:
                return
            time, _, action = heappop(self._agenda)
            times, at_once = (time, at_once + 1) if time == times else (time, 0)
            if at_once > MOST_AT_ONCE:
                raise SimulationError(
                    f"nothing ends at {time} s of the simulation: {self._plane.stuck() or 'no queue waits'}"
                )
            action(time)

    def _begin(self) -> None:
        self._begun = True
        for worker in range(self.workers):
            hello = WorkerHello(worker, f"worker-{worker}", 1, worker + 1, transfer_port=1, deep=1)
            self.handle(MessageEvent(0.0, FIRST_WORKER + worker, hello))
        self._plane.begin(self)
        self.every(self.period_s, lambda time: self.handle(TickEvent(time)))

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case SendInstruction(peer, message):
                    self._tell(peer, message)
                case EventEntry():
                    self.log.write(instruction)
                case WarnInstruction(text):
                    self.log.write(WarningEntry(time=self.time, text=text))
                case _:
                    raise SimulationError(f"the controller wants what a simulation has not: {instruction}")

    def _tell(self, peer: Peer, message: ToWorker | ToFeeder) -> None:
        self.messages += 1
        self.at(self.time + self.delay_s, lambda now: self._plane.told(now, peer, message))
