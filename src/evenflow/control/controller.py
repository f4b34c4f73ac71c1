"""The controller: events in, instructions out. No socket, no clock, no Spark.

It knows the workers and feeders, and passes their messages to the regions they work for. Each region keeps statistics,
asks its balance, checks the balance's decisions and carries them out. Every refusal is recorded with its reason. An
error while a region is served ends that region alone (`boundary`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import cast

from msgspec.structs import replace

from evenflow.control.boundary import Boundary
from evenflow.control.events import (
    CheckpointTakenEvent,
    Event,
    FeederJoinedEvent,
    Instruction,
    MemoryAskedEvent,
    MessageEvent,
    MoveAskedEvent,
    Peer,
    PeerLeftEvent,
    QosAskedEvent,
    RegionFailedEvent,
    RegionOpenedEvent,
    ReplaceInstruction,
    ReportsAskedEvent,
    ResultUnpersistedEvent,
    Said,
    SaveEndedEvent,
    SendInstruction,
    StopEvent,
    TaskEndedEvent,
    TickEvent,
)
from evenflow.control.feeders import STOPPING, Feeders
from evenflow.control.graphs.region import GraphRegion
from evenflow.control.regions.keyed import KeyedRegion
from evenflow.control.regions.ordered import OrderedRegion
from evenflow.control.regions.qos import QosKeeper
from evenflow.control.regions.region import Region
from evenflow.control.workers import WorkerRecord, Workers
from evenflow.model import WorkerStatus
from evenflow.model.entries import (
    CheckpointTakenEntry,
    ClusterStoppingEntry,
    EventEntry,
    StoreFailedEntry,
    TaskEndedEntry,
    WorkerJoinedEntry,
    WorkerLostEntry,
    WorkerRefusedEntry,
    WorkerStoppedEntry,
    WorkerTroubleEntry,
)
from evenflow.model.messages import (
    FeederMessage,
    MemorySet,
    OperatorReady,
    Prepare,
    SetClock,
    SetMemory,
    Shutdown,
    WorkerAlive,
    WorkerHello,
    WorkerMessage,
    WorkerRegionMessage,
    WorkerReport,
    WorkerTrouble,
)
from evenflow.model.qos import Qos, weights_in
from evenflow.policy.keyed.sharing import Sharing
from evenflow.policy.ordered.balance import Balance

KEPT_REGIONS = 1000
"""If there are more regions, the oldest without feeders are closed: a query may open one in each micro-batch."""


class Controller:
    """Registers workers and feeders, keeps the regions, and tells each peer what concerns it."""

    def __init__(self, workers: int, qos: Mapping[str, float | Qos] | None = None, stall_timeout: float = inf) -> None:
        self._stall_timeout = stall_timeout
        self._sharing = Sharing(weights_in(qos or {}))
        self._qos = QosKeeper(qos or {}, self._sharing)
        self._workers = Workers(workers)
        self._moves = itertools.count(1)
        self._regions: dict[str, Region] = {}
        self._feeders = Feeders(self._regions)
        self._boundary = Boundary(self._regions, self._feeders, lambda: self._workers.live, self._forget)
        self._clock_zero: float | None = None
        self._stopping = False

    def handle(self, event: Event) -> list[Instruction]:
        """Handle one event; returns what to do about it."""
        return list(self._instructions(event))

    def _instructions(self, event: Event) -> Iterable[Instruction]:
        match event:
            case MessageEvent():
                return self._heard(event.time, event.peer, event.message)
            case RegionOpenedEvent():
                return self._region_opened(event)
            case FeederJoinedEvent():
                return self._feeder_joined(event)
            case SaveEndedEvent():
                return self._stored(event)
            case CheckpointTakenEvent():
                return self._checkpoint_taken(event)
            case MoveAskedEvent():
                region = self._with_units(event.move.region)
                return self._boundary.one(event.time, region, lambda each: each.carry_out(event.time, [event.move]))
            case MemoryAskedEvent():
                return self._workers.ask_memory(event)
            case QosAskedEvent():
                workers, region = self._workers.live, self._regions.get(event.region)
                return self._boundary.one(event.time, region, lambda each: self._qos.set_weight(event, each, workers))
            case ReportsAskedEvent():
                return self._workers.ask_reports(event)
            case PeerLeftEvent():
                return self._peer_left(event)
            case TaskEndedEvent():
                return self._task_ended(event)
            case ResultUnpersistedEvent():
                return self._boundary.each_with_units(event.time, lambda region: region.unpersisted(event))
            case RegionFailedEvent():
                return self._boundary.close(event.time, event.region, event.error)
            case TickEvent():
                return self._tick(event.time) if not self._stopping else ()
            case StopEvent():
                return self._stop(event)

    def _heard(self, time: float, peer: Peer, message: Said) -> Iterable[Instruction]:
        if isinstance(message, FeederMessage):
            region = self._feeders.region_of(peer)
            return self._boundary.serve(time, region, lambda: self._feeders.hear(time, peer, message))
        if isinstance(message, WorkerHello):
            return self._worker_joined(time, peer, message)
        worker = self._workers.of(peer)
        return self._worker_says(time, worker, message) if worker is not None else ()

    # -- questions of the controller thread

    def workers(self, now: float) -> list[WorkerStatus]:
        """The status of the workers, by id."""
        return self._workers.statuses(now)

    def reported(self, number: int) -> bool:
        """Whether every live worker has answered a question of `ReportsAskedEvent`."""
        return self._workers.reported(number)

    def task(self, worker: int) -> tuple[int, int]:
        """The stage id and the task attempt id of a worker's Spark task."""
        return self._workers[worker].task

    def region(self, name: str) -> Region:
        """A region by name."""
        return self._regions[name]

    @property
    def regions(self) -> Mapping[str, Region]:
        """All regions by name."""
        return self._regions

    @property
    def feeders(self) -> set[Peer]:
        """All feeders that have joined and not left, also if they are through with their rows."""
        return self._feeders.peers

    def unknown(self, feeder: FeederJoinedEvent) -> bool:
        """Whether a task is the first one of its query at a keyed operator."""
        region = self._regions.get(feeder.region)
        return bool(feeder.query) and region is not None and not region.knows(feeder)

    def kept(self, name: str) -> set[int]:
        """The persisted RDDs whose evaluations have state in a region."""
        return self._regions[name].kept if name in self._regions else set()

    def run_of(self, peer: Peer) -> str:
        """The run of the query of a feeder that has not ended; empty for any other peer."""
        return self._feeders.run_of(peer)

    def is_worker(self, peer: Peer) -> bool:
        """Whether a peer is a live worker."""
        return self._workers.of(peer) is not None

    def operators(self) -> set[str]:
        """The operators that regions use."""
        return {region.operator for region in self._regions.values()}

    def free_name(self, name: str) -> str:
        """`name` or, if a region has that name, the first of name-2, name-3, ... that is free.

        That of a region that has failed is not free: its old DataFrames and what workers know of it are under it.
        """
        names = (f"{name}-{number}" if number > 1 else name for number in itertools.count(1))
        return next(free for free in names if free not in self._regions and free not in self._feeders.failed)

    def ready(self, operator: str) -> bool:
        """Whether every live worker has an operator loaded."""
        return self._workers.ready(operator)

    def live(self) -> int:
        """The number of live workers."""
        return len(self._workers.live)

    def failure(self, region: str) -> str:
        """Why a region was closed because of an error; empty if it was not, or is open again."""
        return self._feeders.failed.get(region, "")

    def concerned(self, told: Instruction) -> str:
        """The region that an instruction is about; empty if it is about none."""
        if isinstance(told, EventEntry):
            return ""
        own = str(getattr(told.message if isinstance(told, SendInstruction) else told, "region", ""))
        return own or (self._feeders.region_of(told.peer) if isinstance(told, SendInstruction) else "")

    def _with_units(self, name: str) -> Region | None:
        """A region by name, if its workers keep state."""
        region = self._regions.get(name)
        return region if region is not None and region.units else None

    def _forget(self, name: str) -> None:
        self._qos.forget(name)
        self._sharing.forget(name)

    # -- regions

    def _region_opened(self, event: RegionOpenedEvent) -> Iterator[Instruction]:
        known = self._with_units(event.region)
        self._feeders.failed.pop(event.region, None)
        if known is not None and event.durable:
            yield from self._boundary.one(event.time, known, lambda region: region.reopen(event))
        else:
            yield from self._boundary.serve(event.time, event.region, lambda: self._open(event))
        for life in self._workers.live.values():  # so that the first row need not wait for imports
            yield SendInstruction(life.peer, Prepare((event.operator,)))

    def _open(self, event: RegionOpenedEvent) -> Iterator[Instruction]:
        region: Region
        if event.graph is not None:
            region = GraphRegion(event, self._sharing, self._moves, self._stall_timeout)
        elif event.units:
            region = KeyedRegion(event, self._sharing, self._moves, self._stall_timeout)
        else:
            weight = self._sharing.weight(event.region) if self._sharing.qos else None
            region = OrderedRegion(event.region, event.operator, cast(Balance, event.balance), weight=weight)
        self._regions[event.region] = region
        idle: list[str] = []
        yield from self._boundary.each(event.time, lambda old: _note_idle(old, idle))
        for name in [each for each in idle if each != event.region][: max(0, len(self._regions) - KEPT_REGIONS)]:
            self._qos.forget(name)
            yield from self._boundary.one(event.time, self._regions.pop(name), lambda old: old.close(event.time))
        yield replace(region.opened(event.time), **({"given": event.given} if event.given else {}))
        yield from region.set_workers(event.time, self._workers.live)

    def _stored(self, event: SaveEndedEvent) -> Iterator[Instruction]:
        save = event.save
        if event.error:
            yield StoreFailedEntry(
                time=event.time, region=save.region, query=save.query, what=save.kind, error=event.error
            )
        yield from self._boundary.one(
            event.time, self._with_units(save.region), lambda region: region.save_ended(event)
        )

    def _checkpoint_taken(self, event: CheckpointTakenEvent) -> Iterator[Instruction]:
        yield CheckpointTakenEntry(time=event.time, why=event.why)
        yield from self._boundary.each_with_units(event.time, lambda region: region.give_up_stored(event))

    # -- workers

    def _worker_joined(self, time: float, peer: Peer, hello: WorkerHello) -> Iterator[Instruction]:
        if hello.worker not in self._workers or self._stopping:
            why = STOPPING if hello.worker in self._workers else f"there is no worker {hello.worker}"
            yield WorkerRefusedEntry(time=time, worker=hello.worker, reason=why)
            yield SendInstruction(peer, Shutdown(why))
            return
        before = self._workers[hello.worker]
        if before.state == "live":  # the new one is another copy of the task: the old one must not serve beside it
            yield SendInstruction(before.life.peer, Shutdown("replaced by a newer attempt"))
        incarnation = self._workers.join(time, peer, hello).incarnation
        yield WorkerJoinedEntry(time=time, worker=hello.worker, incarnation=incarnation, host=hello.host, pid=hello.pid)
        if self._clock_zero is not None:
            yield SendInstruction(peer, SetClock(time - self._clock_zero))
        if before.memory:
            yield SendInstruction(peer, SetMemory(before.memory))
        yield from self._qos.joined(peer)
        if self._regions:
            yield SendInstruction(peer, Prepare(tuple(region.operator for region in self._regions.values())))
        yield from self._membership_changed(time)

    def _worker_says(self, time: float, worker: WorkerRecord, message: WorkerMessage) -> Iterable[Instruction]:
        """Handle a message of a live worker, for a region or about itself."""
        if isinstance(message, WorkerRegionMessage):
            return self._boundary.one(
                time, self._with_units(message.region), lambda region: _pass_on(time, region, worker, message)
            )
        match message:
            case WorkerTrouble():
                return self._worker_trouble(time, worker, message)
            case OperatorReady():
                worker.heard = time
                worker.ready.add(message.operator)
            case WorkerReport():
                worker.heard = time
                worker.rows, worker.frames, worker.busy_s = message.rows, message.frames, message.busy_s
                worker.answered = max(worker.answered, message.answers)
                return self._boundary.each_with_units(time, lambda region: region.worker_busy(time, worker.id, message))
            case WorkerAlive():
                worker.heard = time
            case MemorySet():
                worker.heard = time
                return self._workers.memory_set(time, worker, message)
        return ()

    def _tick(self, time: float) -> Iterator[Instruction]:
        yield from self._boundary.each(time, lambda region: region.tick(time))
        yield from self._qos.tick(time, self._regions, self._workers.live, self._boundary.serve)
        waited_for: dict[int, float] = {}
        yield from self._boundary.each_with_units(time, lambda region: region.note_waits(waited_for))
        for worker in self._silent(time, waited_for):
            quiet = time - worker.heard
            worker.why = f"it answered nothing for {quiet:.0f} s while its state was needed, and is replaced"
            yield ReplaceInstruction(worker.life.peer, worker.id, worker.why)
            yield from self._peer_left(PeerLeftEvent(time, worker.life.peer, worker.why))

    def _silent(self, time: float, waited_for: Mapping[int, float]) -> list[WorkerRecord]:
        """Workers without any message for `stall_timeout` seconds while tasks wait for state that they should load.

        A busy worker is not among them unless tasks wait for its state; a worker that loads sends messages.
        """
        found = ((self._workers[worker], since) for worker, since in waited_for.items())
        return [w for w, since in found if w.state == "live" and time - max(w.heard, since) > self._stall_timeout]

    def _worker_trouble(self, time: float, worker: WorkerRecord, trouble: WorkerTrouble) -> Iterator[Instruction]:
        """A worker reports a problem; if it ends because of it, tasks that lose state are told this reason."""
        yield WorkerTroubleEntry(
            time=time, worker=worker.id, what=trouble.what, reason=trouble.reason, ends=trouble.ends
        )
        if trouble.ends:
            worker.why = f"{trouble.what} failed: {trouble.reason}"

    def _task_ended(self, event: TaskEndedEvent) -> Iterator[Instruction]:
        yield TaskEndedEntry(time=event.time, worker=event.worker, reason=event.reason)
        if not self._stopping and self._workers[event.worker].state != "live":
            self._workers[event.worker].state = "starting"

    def _membership_changed(self, time: float) -> Iterator[Instruction]:
        live, reasons = self._workers.live, self._workers.reasons
        yield from self._boundary.each(time, lambda region: region.set_workers(time, live, reasons))

    # -- feeders

    def _feeder_joined(self, event: FeederJoinedEvent) -> Iterator[Instruction]:
        if self._clock_zero is None and self._feeders.awaits(event):
            self._clock_zero = event.time
            for life in self._workers.live.values():
                yield SendInstruction(life.peer, SetClock(0.0))
        yield from self._boundary.serve(event.time, event.region, lambda: self._feeders.join(event))

    def _peer_left(self, event: PeerLeftEvent) -> Iterator[Instruction]:
        region = self._feeders.region_of(event.peer)
        yield from self._boundary.serve(event.time, region, lambda: self._feeders.leave(event))
        worker = self._workers.leave(event.peer, "stopped" if self._stopping else "lost")
        if worker is not None:
            kind, life = WorkerStoppedEntry if self._stopping else WorkerLostEntry, worker.life
            yield kind(
                time=event.time, worker=worker.id, incarnation=life.incarnation, pid=life.pid, reason=event.reason
            )
            if not self._stopping:
                yield from self._membership_changed(event.time)

    def _stop(self, event: StopEvent) -> Iterator[Instruction]:
        """Tell everybody to stop. From now on regions are not told of peers that leave, since they leave on purpose."""
        self._stopping = True
        yield from self._boundary.each(event.time, lambda region: region.note_rest(event.time))
        yield ClusterStoppingEntry(time=event.time)
        yield from self._feeders.stop()  # before the workers, so that feeders do not report lost workers
        for life in self._workers.live.values():
            yield SendInstruction(life.peer, Shutdown(STOPPING))


def _pass_on(time: float, region: Region, worker: WorkerRecord, message: WorkerRegionMessage) -> Iterable[Instruction]:
    """Pass a message of a live worker on to its region."""
    region.check(message)
    worker.heard = time
    return region.hear_worker(time, worker.id, message)


def _note_idle(region: Region, idle: list[str]) -> Iterable[Instruction]:
    """Add a region to a list if nobody uses it."""
    if not region.in_use:
        idle.append(region.name)
    return ()
