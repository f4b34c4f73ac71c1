"""The keyed data plane: what feeders and workers tell the controller, and what they do when it tells them something."""

from __future__ import annotations

from functools import partial
from math import inf

import numpy as np

from evenflow.control.events import FeederJoinedEvent, MemoryAskedEvent, Peer, PeerLeftEvent, RegionOpenedEvent
from evenflow.errors import SimulationError
from evenflow.model.messages import (
    LEAST_REPORT_S,
    ConsumerReport,
    DiscardUnits,
    EvaluationLost,
    FeederArrivals,
    FeederBegan,
    FeederDraining,
    FeederEnded,
    FeederRefused,
    KeyedDirectory,
    MoveReport,
    PauseUnits,
    RecallUnits,
    ReleaseUnits,
    RestoreUnits,
    SendUnits,
    SetMemory,
    ToFeeder,
    ToWorker,
)
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.sim.keyed.arrays import BY_CHOICES, BY_CONTENT, BY_ROOM, STALLED, plane_arrays
from evenflow.sim.keyed.feeding import after, pause, refill, release
from evenflow.sim.keyed.measures import Measures, feeder_report, places_of_rows, waits
from evenflow.sim.keyed.memory import WorkerMemory
from evenflow.sim.keyed.moves import Moves, UnitsLeaving
from evenflow.sim.keyed.serving import FREE, NOTHING, QUIET, account, drain, run, serve, want
from evenflow.sim.keyed.setup import KeyedSetup
from evenflow.sim.simulation import FIRST_WORKER, Simulation

ARRIVALS_S = 0.1
"""Seconds between two messages of a feeder about the rows that it took in."""
BY_LOOP = SendUnits | SetMemory | RecallUnits | RestoreUnits
"""What waits for a worker that is busy with its disk."""


class KeyedPlane:
    """One keyed operator on simulated workers, with a balance of `evenflow.policy.keyed_balance_named`."""

    def __init__(self, setup: KeyedSetup, balance: KeyedBalance, sample_s: float = 1.0) -> None:
        self.setup, self.balance = setup, balance
        routing = BY_CONTENT if balance.by_content else BY_CHOICES if balance.choices else BY_ROOM
        self.arrays = plane_arrays(setup, balance.divided, routing)
        self._state = self.arrays.workers["state"]
        self.measures = Measures(self.arrays, sample_s)
        self.memory = WorkerMemory(setup, self.arrays)
        self._moves = Moves(setup, self.arrays, self.memory)
        self._feeders: dict[Peer, int] = {}
        self._peers: list[Peer] = []
        self._draining: set[int] = set()
        self._ended: set[int] = set()
        self._paused: dict[int, tuple[np.ndarray, int, int]] = {}
        """Of the movements that feeders know of: units, source, and how many feeders have paused them."""
        self._inbox: dict[int, list[ToWorker]] = {worker: [] for worker in range(setup.workers)}
        """What came to a worker while it was busy with its disk."""
        self._late: set[int] = set()
        """Workers whose report is due, but that are busy with their disk."""
        self._reported = np.zeros(setup.workers)
        self._fed = np.zeros(setup.feeders)

    # -- the simulation

    def begin(self, world: Simulation) -> None:
        """Open the region and let the feeders join."""
        self.world, setup = world, self.setup
        if world.workers != setup.workers:
            raise SimulationError(f"the simulation has {world.workers} workers, and its plane {setup.workers}")
        world.open(RegionOpenedEvent(0.0, setup.region, "simulated", self.balance, setup.units))
        for feeder in range(setup.feeders):
            peer = world.feeder()
            self._peers.append(peer)
            self._feeders[peer] = feeder
            world.handle(FeederJoinedEvent(0.0, peer, setup.region, feeder, stage="1", task=feeder))
            world.say(0.0, peer, FeederBegan(feeder))
        world.every(max(LEAST_REPORT_S, self.balance.report_s), self._report)
        world.every(ARRIVALS_S, self._arrivals)
        world.every(world.period_s, self._feeder_reports)
        world.every(self.measures.sample_s, self.measures.sample)
        for step in setup.memory:
            world.at(step.second, partial(self._ask_memory, {step.worker: step.bytes}))
        self._moves.begin(world)
        self.memory.begin(world, self._free)

    def advance(self, until: float) -> float:
        """Do what happens up to `until`, or up to the next thing that is said."""
        while self._next <= until:
            now, told, whom = run(self.arrays, float(until))
            if told == NOTHING:
                return until
            self._notice(now, told, whom)
            if now < until:
                return float(now)
        return until

    def told(self, time: float, peer: Peer, message: ToWorker | ToFeeder) -> None:
        """A message of the controller has come."""
        feeder = self._feeders.get(peer)
        if feeder is not None:
            self._told_feeder(time, feeder, message)
        else:
            self._told_worker(time, peer - FIRST_WORKER, message)

    def stuck(self) -> str:
        """What waits for what, if nothing can happen any more."""
        goes_on = self._next < inf or (self._state == STALLED).any() or self._paused  # a disk, or units that move
        return "" if goes_on else waits(self.arrays)

    @property
    def served(self) -> int:
        """Rows that workers are through with."""
        return int(self.arrays.total["served"][0])

    @property
    def rows(self) -> dict[str, int]:
        """Where all rows are that were ever made."""
        return places_of_rows(self.arrays)

    # -- what happens

    @property
    def _next(self) -> float:
        """When the next event is due; looked up here, since that takes less than a call of a compiled function."""
        heap = self.arrays.heap
        return float(heap.times[0]) if heap.counts[0] else inf

    def _notice(self, now: float, told: int, worker: int) -> None:
        if told == QUIET and self._moves.waits(worker):  # otherwise the movement was recalled
            self._moves.quiet(now, worker)
        if told == FREE or self.arrays.workers["wants_disk"][worker]:
            self._free(now, worker)

    def _free(self, now: float, worker: int) -> None:
        """If a worker serves no packet now, it hears what came, its disk may have its turn; else it takes rows."""
        if self._state[worker]:
            return
        self.memory.was_read(now, worker)
        if worker in self._late:
            self._report_late(now, worker)
        inbox, self._inbox[worker] = self._inbox[worker], []
        for message in inbox:
            self._told_worker(now, worker, message)
        if self._state[worker]:
            return
        if self._moves.waits(worker) and self.memory.short(worker):
            complete = drain(self.arrays, worker, now)
            self.memory.came(worker)
            if complete:
                self._moves.quiet(now, worker)
        if not self._state[worker] and not self.memory.go_on(now, worker):
            serve(self.arrays, worker, now)

    # -- feeders

    def _told_feeder(self, time: float, feeder: int, message: ToWorker | ToFeeder) -> None:
        match message:
            case KeyedDirectory():
                self.arrays.routes["queue"][feeder] = message.owners
                self.memory.settle(time, message.owners.astype(np.int64))
                share = (feeder + 1) / self.setup.feeders
                self.arrays.feeders["next_row"][feeder] = after(self.arrays.rates, 0, 0.0, share)
                refill(self.arrays, feeder, time)
            case PauseUnits():
                units = np.array(message.units, np.int64)
                known = self._paused.get(message.move, (units, message.source, 0))
                self._paused[message.move] = (*known[:2], known[2] + 1)
                pause(self.arrays, feeder, message.move, units, message.source, time)
            case ReleaseUnits():
                units, source, feeders = self._paused.pop(message.move)
                if feeders > 1:
                    self._paused[message.move] = units, source, feeders - 1
                release(self.arrays, feeder, units, source, message.worker, time)
            case EvaluationLost() | FeederRefused():
                raise SimulationError(f"feeder {feeder} cannot go on: {message.reason}")

    def _arrivals(self, time: float) -> None:
        feeders, arrived = self.arrays.feeders, self.arrays.routes["arrived"]
        for feeder, peer in enumerate(self._peers):
            units = np.flatnonzero(arrived[feeder])
            if len(units):
                self.world.say(time, peer, FeederArrivals(units.astype(np.int32), arrived[feeder, units]))
                arrived[feeder, units] = 0
            if feeders["made"][feeder] == feeders["quota"][feeder]:
                self._end(time, feeder, peer)

    def _end(self, time: float, feeder: int, peer: Peer) -> None:
        """A feeder has made all its rows: say so, and leave when all are answered."""
        if feeder not in self._draining:
            self._draining.add(feeder)
            self.world.say(time, peer, FeederDraining())
        about = self.arrays.feeders[feeder]
        if feeder not in self._ended and about["answered"] == about["quota"]:
            self._ended.add(feeder)
            self.world.say(time, peer, feeder_report(self.arrays, feeder, time - self._fed[feeder]))
            self.world.say(time, peer, FeederEnded())
            left = PeerLeftEvent(time + self.world.delay_s, peer, "it is through")
            self.world.at(left.time, lambda now: self.world.handle(left))

    @property
    def ended(self) -> bool:
        """Whether all rows there will be are answered."""
        return len(self._ended) == self.setup.feeders

    def _feeder_reports(self, time: float) -> None:
        for feeder, peer in enumerate(self._peers):
            if feeder not in self._ended:
                self.world.say(time, peer, feeder_report(self.arrays, feeder, time - self._fed[feeder]))
                self._fed[feeder] = time

    # -- workers

    def _told_worker(self, time: float, worker: int, message: ToWorker | ToFeeder) -> None:
        if self._state[worker] == STALLED and isinstance(message, BY_LOOP):
            self._inbox[worker].append(message)
            return
        match message:
            case SendUnits():
                leaving = UnitsLeaving(message.move, worker, message.target, np.array(message.units, np.int64))
                self._moves.announced(leaving)
                if want(self.arrays.workers, worker, message.move, len(message.feeders)):
                    self._moves.quiet(time, worker)
            case DiscardUnits():
                self._moves.discard(time, message.move)
                self._say_move(time, worker, message.move, "discarded")
            case RecallUnits():
                if self._moves.recall(message.move):
                    self._say_move(time, worker, message.move, "restored")
            case RestoreUnits():
                self._moves.restore(time, message.move)
                self._say_move(time, worker, message.move, "restored")
            case SetMemory():
                self.memory.set(time, worker, message.memory)
                if not self._state[worker]:
                    self._free(time, worker)

    def _say_move(self, time: float, worker: int, move: int, outcome: str) -> None:
        report = MoveReport(self.setup.region, move, outcome)  # type: ignore[arg-type]
        self.world.say(time, FIRST_WORKER + worker, report)

    def _ask_memory(self, memory: dict[int, int], time: float) -> None:
        self.world.handle(MemoryAskedEvent(time, memory))

    def _report(self, time: float) -> None:
        if self.ended:
            return
        self.memory.grown(time)
        stalled = self._state == STALLED
        account(self.arrays.workers, time)
        idle, busy, rows = (self.arrays.workers[name].tolist() for name in ("idle", "busy", "rows"))
        for worker in range(self.setup.workers):
            if stalled[worker]:
                self._late.add(worker)
            else:
                self._report_of(time, worker, idle[worker], busy[worker], rows[worker])

    def _report_late(self, time: float, worker: int) -> None:
        """Say what a worker did since its last report, now that its disk is through."""
        self._late.discard(worker)
        me = self.arrays.workers[worker]
        account(self.arrays.workers, time)
        self._report_of(time, worker, float(me["idle"]), float(me["busy"]), int(me["rows"]))

    def _report_of(self, time: float, worker: int, idle: float, busy: float, rows: int) -> None:
        served = self.arrays.served[worker]
        units = np.flatnonzero(served)
        sized = self._moves.sized(worker, units)
        report = ConsumerReport(
            region=self.setup.region,
            seconds=time - float(self._reported[worker]),
            idle_s=idle,
            busy_s=busy,
            rows=rows,
            bytes=rows * self.setup.row_bytes,
            units=units.astype(np.int32),
            unit_rows=served[units],
            sized=sized.astype(np.int32),
            sizes=self.arrays.units["size"][sized].astype(np.int64),
            **self.memory.told(worker),
        )
        served[units] = 0
        for name in ("idle", "busy", "rows"):
            self.arrays.workers[name][worker] = 0
        self._reported[worker] = time
        self.world.say(time, FIRST_WORKER + worker, report)
