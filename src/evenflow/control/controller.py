"""The controller: events in, instructions out. No socket, no clock, no Spark.

It knows who is there, pools what feeders and workers report, asks each region's balance once a sample period, checks
what the balance wants and passes it on. Every refusal is recorded with its reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from evenflow.control.events import (
    ConsumerReport,
    Event,
    FeederArrivals,
    FeederBegan,
    FeederDraining,
    FeederEnded,
    FeederFailed,
    FeederJoined,
    FeederReport,
    Instruction,
    MoveAsked,
    MoveReport,
    OperatorReady,
    Peer,
    PeerLeft,
    Record,
    RegionOpened,
    StateLoaded,
    Stop,
    Stored,
    TaskEnded,
    Tell,
    Tick,
    UnitsSaved,
    WorkerJoined,
    WorkerReport,
)
from evenflow.control.keyed import KeyedRegion
from evenflow.control.movement import Site
from evenflow.control.region import Region
from evenflow.model import RESOLUTION, SetWeights, WorkerStatus
from evenflow.policy.balance import Balance
from evenflow.policy.keyed import KeyedBalance
from evenflow.policy.sharing import Sharing

KEPT_REGIONS = 1000
"""Of regions that nobody feeds, only the latest of this many are kept: a query may open one a micro-batch."""


@dataclass
class _Worker:
    id: int
    state: str = "starting"
    peer: Peer | None = None
    host: str = ""
    port: int = 0
    mover: int = 0
    deep: int = 0
    pid: int = 0
    task: tuple[int, int] = (0, 0)
    incarnation: int = 0
    rows: int = 0
    frames: int = 0
    busy_s: float = 0.0
    heard: float = 0.0
    ready: set[str] = field(default_factory=set)


class Controller:
    """Registers workers and feeders, keeps the regions' models, sends weights down."""

    def __init__(self, workers: int, qos: Mapping[str, float] | None = None) -> None:
        self._sharing = Sharing(qos)
        self._workers = {number: _Worker(number) for number in range(workers)}
        self._peers: dict[Peer, int] = {}
        self._feeders: dict[Peer, FeederJoined] = {}
        self._ended: set[Peer] = set()
        self._moves = itertools.count(1)
        self._regions: dict[str, Region | KeyedRegion] = {}
        self._clock_zero: float | None = None
        self._stopping = False

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event; what to do about it."""
        match event:
            case RegionOpened():
                return list(self._region_opened(event))
            case WorkerJoined():
                return list(self._worker_joined(event))
            case FeederJoined():
                return list(self._feeder_joined(event))
            case FeederBegan():
                return list(self._feeder_began(event))
            case FeederArrivals():
                region = self._region_of(event.peer)
                if isinstance(region, KeyedRegion):
                    region.arrived(self._feeders[event.peer], event)
                return []
            case FeederDraining():
                return list(self._feeder_draining(event))
            case FeederFailed():
                feeder, region = self._feeders.get(event.peer), self._region_of(event.peer)
                if feeder is None or not isinstance(region, KeyedRegion):
                    return []
                return list(region.fail(event.time, feeder, event.reason))
            case FeederEnded():
                return list(self._feeder_ended(event))
            case Stored():
                return list(self._stored(event))
            case StateLoaded() | UnitsSaved():
                return list(self._state_report(event))
            case ConsumerReport():
                return list(self._consumer_report(event))
            case MoveReport():
                return list(self._move_report(event))
            case MoveAsked():
                region = self._regions.get(event.move.region)
                return list(region.carry_out(event.time, [event.move])) if isinstance(region, KeyedRegion) else []
            case OperatorReady():
                number = self._peers.get(event.peer)
                if number is not None:
                    self._workers[number].ready.add(event.operator)
                return []
            case WorkerReport():
                return list(self._worker_report(event))
            case FeederReport():
                return list(self._feeder_report(event))
            case PeerLeft():
                return list(self._peer_left(event))
            case TaskEnded():
                return list(self._task_ended(event))
            case Tick():
                return list(self._tick(event))
            case Stop():
                return list(self._stop(event))

    def workers(self, now: float) -> list[WorkerStatus]:
        """The workers, by id."""
        return [
            WorkerStatus(
                id=worker.id,
                state=worker.state,
                host=worker.host,
                pid=worker.pid,
                port=worker.port,
                incarnation=worker.incarnation,
                restarts=max(0, worker.incarnation - 1),
                rows=worker.rows,
                frames=worker.frames,
                busy_s=worker.busy_s,
                heard_s=now - worker.heard if worker.incarnation else 0.0,
            )
            for worker in self._workers.values()
        ]

    def task(self, worker: int) -> tuple[int, int]:
        """Stage id and task attempt id of the Spark task that is this worker."""
        return self._workers[worker].task

    def region(self, name: str) -> Region | KeyedRegion:
        """A region by name."""
        return self._regions[name]

    def unknown(self, feeder: FeederJoined) -> bool:
        """Whether a task is the first of its query that a keyed operator sees."""
        region = self._regions.get(feeder.region)
        return bool(feeder.query) and isinstance(region, KeyedRegion) and not region.evaluations.knows(feeder)

    def run_of(self, peer: Peer) -> str:
        """The run of a query that a feeder works for and is not through with; nothing for any other peer."""
        feeder = self._feeders.get(peer)
        return feeder.run if feeder is not None and peer not in self._ended else ""

    def is_worker(self, peer: Peer) -> bool:
        """Whether a peer is one of the workers now."""
        return peer in self._peers

    def operators(self) -> set[str]:
        """The operators that regions use."""
        return {region.operator for region in self._regions.values()}

    def free_name(self, name: str) -> str:
        """`name`, or if a region has that, the first of name-2, name-3, ... that is free."""
        names = (f"{name}-{number}" if number > 1 else name for number in itertools.count(1))
        return next(free for free in names if free not in self._regions)

    def ready(self, operator: str) -> bool:
        """Whether every live worker has an operator loaded."""
        return all(operator in self._workers[number].ready for number in self._live())

    def live(self) -> int:
        """How many workers are live."""
        return len(self._live())

    def _live(self) -> dict[int, int]:
        return {w.id: w.incarnation for w in self._workers.values() if w.state == "live"}

    def _sites(self) -> dict[int, Site]:
        return {w.id: Site(w.peer, w.host, w.mover) for w in self._workers.values() if w.peer is not None}

    def _region_opened(self, event: RegionOpened) -> Iterable[Instruction]:
        known = self._regions.get(event.region)
        if isinstance(known, KeyedRegion) and event.durable:  # a query is started anew: its state is found by the name
            known.operator, known.movements.transfer = event.operator, event.transfer
            for peer in self._peers:
                yield Tell(peer, {"type": "prepare", "operators": [event.operator]})
            return
        region = self._new_region(event)
        self._regions[event.region] = region
        idle = [old.name for old in self._regions.values() if not _in_use(old) and old is not region]
        for name in idle[: max(0, len(self._regions) - KEPT_REGIONS)]:
            yield from self._close_region(event.time, name)
        fields: dict[str, Any] = {"region": event.region, "balance": event.balance.name}
        if isinstance(region, KeyedRegion):
            fields["units"] = event.units
            if self._sharing.qos:
                fields["weight"] = self._sharing.weight(event.region)
            yield Record(event.time, "region-opened", fields)
        else:
            yield Record(event.time, "region-opened", fields | {"splitting": region.balance.splitting})
            yield from self._rebalance(region, event.time)
        for peer in self._peers:  # so that nobody waits for imports when the first row comes
            yield Tell(peer, {"type": "prepare", "operators": [event.operator]})

    def _new_region(self, event: RegionOpened) -> Region | KeyedRegion:
        if event.units:
            balance = cast(KeyedBalance, event.balance)
            keyed = KeyedRegion(
                event.region, event.operator, balance, event.units, numbers=self._moves, durable=event.durable
            )
            keyed.movements.transfer = event.transfer
            keyed.set_workers(event.time, self._live(), self._sites())
            return keyed
        region = Region(event.region, event.operator, cast(Balance, event.balance))
        region.set_workers(self._live())
        return region

    def _close_region(self, time: float, name: str) -> Iterable[Instruction]:
        region = self._regions.pop(name)
        self._sharing.forget(name)
        if isinstance(region, KeyedRegion):
            for evaluation in region.evaluations.ids:
                yield from region.end(time, evaluation, f"region {name} is long out of use")
            yield from region.movements.abandon(time, "the region is closed")

    def _worker_joined(self, event: WorkerJoined) -> Iterable[Instruction]:
        worker = self._workers.get(event.worker)
        if worker is None or self._stopping:
            why = "the cluster is stopping" if worker else f"there is no worker {event.worker}"
            yield Record(event.time, "worker-refused", {"worker": event.worker, "reason": why})
            yield Tell(event.peer, {"type": "stop", "reason": why})
            return
        if worker.peer is not None:  # a newer copy of the task: the older one must not serve beside it
            yield Tell(worker.peer, {"type": "stop", "reason": "replaced by a newer attempt"})
            self._peers.pop(worker.peer, None)
        self._peers[event.peer] = worker.id
        worker.state, worker.peer, worker.task = "live", event.peer, event.task
        worker.host, worker.port, worker.pid = event.host, event.port, event.pid
        worker.mover, worker.deep = event.mover, event.deep
        worker.rows, worker.frames, worker.busy_s, worker.heard = 0, 0, 0.0, event.time
        worker.incarnation += 1
        worker.ready = set()
        yield Record(
            event.time,
            "worker-joined",
            {"worker": worker.id, "incarnation": worker.incarnation, "host": event.host, "pid": event.pid},
        )
        if self._clock_zero is not None:
            yield Tell(event.peer, {"type": "clock", "elapsed": event.time - self._clock_zero})
        if self._regions:
            yield Tell(event.peer, {"type": "prepare", "operators": [r.operator for r in self._regions.values()]})
        yield from self._membership_changed(event.time)

    def _feeder_joined(self, event: FeederJoined) -> Iterable[Instruction]:
        region = self._regions.get(event.region)
        if region is None or self._stopping:
            why = "the cluster is stopping" if region else f"this cluster has no region {event.region} (any more)"
            yield Record(event.time, "feeder-refused", {"region": event.region, "reason": why})
            yield Tell(event.peer, {"type": "refused", "reason": why})
            return
        if self._clock_zero is None:
            self._clock_zero = event.time
            for worker in self._workers.values():
                if worker.peer is not None:
                    yield Tell(worker.peer, {"type": "clock", "elapsed": 0.0})
        if isinstance(region, KeyedRegion):
            why = region.register(event)
            if why:
                yield from self._refuse(event, why)
                return
            yield from region.settle(event.time, event)
        self._feeders[event.peer] = event
        yield Record(
            event.time,
            "feeder-joined",
            {
                "region": event.region,
                "partition": event.partition,
                "attempt": event.attempt,
                "query": event.query,
                "epoch": event.epoch,
            },
        )
        if isinstance(region, Region):
            region.feeders.add(event.peer)
            yield Tell(event.peer, self._directory(region, event.peer))

    def _refuse(self, feeder: FeederJoined, why: str) -> Iterable[Instruction]:
        yield Record(feeder.time, "feeder-refused", {"region": feeder.region, "reason": why})
        yield Tell(feeder.peer, {"type": "lost", "reason": why})

    def _region_of(self, peer: Peer) -> Region | KeyedRegion | None:
        """The region that a feeder feeds."""
        feeder = self._feeders.get(peer)
        return self._regions.get(feeder.region) if feeder is not None else None

    def _feeder_began(self, event: FeederBegan) -> Iterable[Instruction]:
        feeder, region = self._feeders.get(event.peer), self._region_of(event.peer)
        if feeder is None or not isinstance(region, KeyedRegion):
            return
        feeder = self._feeders[event.peer] = replace(feeder, partition=event.partition)
        why = region.begin(feeder)
        if why:
            yield from self._refuse(feeder, why)
        yield from self._admit(region)

    def _admit(self, region: KeyedRegion) -> Iterable[Instruction]:
        """Tell feeders that waited for workers, or for state, where to send their rows."""
        for peer in region.admit():
            yield Tell(peer, self._directory(region, peer))

    def _feeder_ended(self, event: FeederEnded) -> Iterable[Instruction]:
        feeder, region = self._feeders.get(event.peer), self._region_of(event.peer)
        self._ended.add(event.peer)
        if feeder is not None and isinstance(region, KeyedRegion):
            yield from region.ended(feeder, event)

    def _stored(self, event: Stored) -> Iterable[Instruction]:
        save = event.save
        if event.error:
            fields = {"region": save.region, "query": save.query, "what": save.kind, "error": event.error}
            yield Record(event.time, "store-failed", fields)
        if save.kind != "task":
            return
        feeder, region = self._feeders.get(save.peer), self._regions.get(save.region)
        if feeder is None or not isinstance(region, KeyedRegion):
            return
        if not event.error:
            region.noted(feeder)
            yield Tell(save.peer, {"type": "committed"})
            times = {"log_s": round(save.waited_s, 6), "note_s": round(event.time - save.since, 6)}
            yield Record(event.time, "task-durable", {"region": save.region, "query": save.query} | times)
        else:
            yield from region.fail(event.time, feeder, f"the checkpoint cannot be written: {event.error}")

    def _state_report(self, event: StateLoaded | UnitsSaved) -> Iterable[Instruction]:
        number, region = self._peers.get(event.peer), self._regions.get(event.region)
        if number is None or not isinstance(region, KeyedRegion):
            return
        if isinstance(event, UnitsSaved):
            yield from region.saved(event)
            return
        yield from region.loaded(event.time, number, event)
        yield from self._admit(region)

    def _feeder_draining(self, event: FeederDraining) -> Iterable[Instruction]:
        feeder, region = self._feeders.get(event.peer), self._region_of(event.peer)
        if feeder is not None and isinstance(region, KeyedRegion):
            region.draining.add(event.peer)
            yield Record(event.time, "feeder-draining", {"region": feeder.region, "partition": feeder.partition})

    def _consumer_report(self, event: ConsumerReport) -> Iterable[Instruction]:
        number = self._peers.get(event.peer)
        region = self._regions.get(event.region)
        if number is None or not isinstance(region, KeyedRegion):
            return
        region.report(number, event)
        if region.due:
            yield from region.sample(event.time)
            yield from self._move(region, event.time)

    def _move(self, region: KeyedRegion, time: float) -> Iterable[Instruction]:
        """Ask a keyed operator's balance; one that fails costs its own region this round."""
        try:
            moves = region.decide(time, self._sharing)
        except Exception as error:
            fields = {"region": region.name, "balance": region.balance.name}
            yield Record(time, "balance-failed", fields | {"error": f"{type(error).__name__}: {error}"})
        else:
            if moves:
                yield region.decided(time, moves)
            yield from region.carry_out(time, moves)

    def _move_report(self, event: MoveReport) -> Iterable[Instruction]:
        number = self._peers.get(event.peer)
        region = self._regions.get(event.region)
        if number is None or not isinstance(region, KeyedRegion):
            return
        movements = region.movements
        match event.outcome:
            case "quiet":
                movements.quiet(event.time, event.move, number)
            case "stored":
                yield from movements.stored(event.time, event.move, number)
            case "installed":
                yield from movements.installed(event.time, event.move, number, event.bytes, region.feeders)
            case "failed" | "undelivered":
                final = event.outcome == "failed"
                yield from movements.failed(event.time, event.move, number, event.reason, final)
            case "discarded":
                yield from movements.discarded(event.time, event.move, number)
            case "restored":
                yield from movements.restored(event.time, event.move, number, region.feeders)
            case "lost":
                yield from region.lose_units(event.time, event.move, number, event.reason)
        yield from region.load_all(event.time)

    def _worker_report(self, event: WorkerReport) -> Iterable[Instruction]:
        number = self._peers.get(event.peer)
        if number is not None:
            worker = self._workers[number]
            worker.rows, worker.frames, worker.busy_s = event.rows, event.frames, event.busy_s
            worker.heard = event.time
        return ()

    def _feeder_report(self, event: FeederReport) -> Iterable[Instruction]:
        feeder = self._feeders.get(event.peer)
        if feeder is not None:
            region = self._regions.get(feeder.region)
            if region is None:
                return ()
            region.add(event.feeding_s, event.rows_out, event.connections)
            region.overhead = event.overhead if event.overhead is not None else region.overhead
            if isinstance(region, Region):
                region.resent += event.resent
                region.rerouted += event.rerouted
        return ()

    def _peer_left(self, event: PeerLeft) -> Iterable[Instruction]:
        feeder = self._feeders.pop(event.peer, None)
        if feeder is not None:
            region = self._regions.get(feeder.region)
            if region is not None:
                region.feeders.discard(event.peer)
            yield Record(
                event.time,
                "feeder-left",
                {"region": feeder.region, "partition": feeder.partition, "attempt": feeder.attempt},
            )
            if isinstance(region, KeyedRegion):
                yield from region.leave(event.time, feeder, event.peer in self._ended, event.stopped)
        self._ended.discard(event.peer)
        number = self._peers.pop(event.peer, None)
        if number is not None:
            worker = self._workers[number]
            worker.state, worker.peer = ("stopped" if self._stopping else "lost"), None
            yield Record(
                event.time,
                "worker-stopped" if self._stopping else "worker-lost",
                {"worker": worker.id, "incarnation": worker.incarnation, "pid": worker.pid, "reason": event.reason},
            )
            yield from self._membership_changed(event.time)

    def _task_ended(self, event: TaskEnded) -> Iterable[Instruction]:
        yield Record(event.time, "task-ended", {"worker": event.worker, "reason": event.reason})
        if not self._stopping and self._workers[event.worker].state != "live":
            self._workers[event.worker].state = "starting"

    def _tick(self, event: Tick) -> Iterable[Instruction]:
        for region in self._regions.values():
            if isinstance(region, KeyedRegion):
                yield from region.tick(event.time)
            elif region.fresh:
                yield self._sample(region, event.time)
                yield from self._rebalance(region, event.time)

    def _stop(self, event: Stop) -> Iterable[Instruction]:
        self._stopping = True
        yield Record(event.time, "cluster-stopping", {})
        for peer in self._feeders:  # first, so that they do not take their workers for lost
            yield Tell(peer, {"type": "refused", "reason": "the cluster is stopping"})
        for peer in self._peers:
            yield Tell(peer, {"type": "stop", "reason": "the cluster is stopping"})

    def _membership_changed(self, time: float) -> Iterable[Instruction]:
        """Tell every region and its feeders who is there now."""
        live = self._live()
        for region in self._regions.values():
            if isinstance(region, KeyedRegion):
                yield from region.set_workers(time, live, self._sites())
            else:
                region.set_workers(live)
                yield from self._rebalance(region, time, tell=False)
            for peer in region.feeders if live or isinstance(region, Region) else ():
                yield Tell(peer, self._directory(region, peer))
            if isinstance(region, KeyedRegion):
                yield from self._admit(region)

    def _rebalance(self, region: Region, time: float, tell: bool = True) -> Iterable[Instruction]:
        """Ask the region's balance; one that fails costs its own region this round, and nobody else anything."""
        try:
            moves = list(region.decide(time))
        except Exception as error:
            fields = {"region": region.name, "balance": region.balance.name}
            yield Record(time, "balance-failed", fields | {"error": f"{type(error).__name__}: {error}"})
        else:
            yield from self._carry_out(region, moves, time, tell)

    def _carry_out(self, region: Region, moves: list[SetWeights], time: float, tell: bool) -> Iterable[Instruction]:
        for move in moves:
            problem = _problem(move, region)
            fields = {"region": region.name, "weights": _keys(move.weights), "reason": move.reason}
            if problem:
                yield Record(time, "weights-refused", fields | {"why": problem})
                continue
            region.weights = {worker: int(weight) for worker, weight in move.weights.items()}
            yield Record(time, "weights", fields | {"balance": region.balance.name, "detail": dict(move.detail)})
            if tell:
                for peer in region.feeders:
                    yield Tell(peer, {"type": "weights", "weights": _keys(region.weights)})

    def _directory(self, region: Region | KeyedRegion, peer: Peer) -> dict[str, Any]:
        keyed = isinstance(region, KeyedRegion)
        workers = [
            {
                "id": w.id,
                "incarnation": w.incarnation,
                "host": w.host,
                "port": w.deep if keyed else w.port,
                "pid": w.pid,
            }
            for w in self._workers.values()
            if w.state == "live"
        ]
        if isinstance(region, KeyedRegion):
            return {"type": "directory", "workers": workers, **region.directory(self._feeders[peer])}
        costs = {str(worker): cost for worker, cost in region.costs.items()}
        known = {"weights": _keys(region.weights), "costs": costs, "overhead": region.overhead}
        return {"type": "directory", "workers": workers, **known}

    def _sample(self, region: Region, time: float) -> Record:
        snapshot = region.snapshot(time)
        return Record(
            time,
            "sample",
            {
                "region": region.name,
                "feeders": snapshot.feeders,
                "feeding_s": round(snapshot.feeding_s, 6),
                "rows_out": snapshot.rows_out,
                "resent": region.resent,
                "rerouted": region.rerouted,
                "connections": [
                    {
                        "worker": c.worker,
                        "weight": c.weight,
                        "blocked_s": round(c.blocked_s, 6),
                        "rows_sent": c.rows_sent,
                        "rows_done": c.rows_done,
                        "busy_s": round(c.busy_s, 6),
                    }
                    for c in snapshot.connections
                ],
            },
        )


def _in_use(region: Region | KeyedRegion) -> bool:
    """Whether anybody feeds a region, or a query may go on feeding it."""
    return region.evaluations.feeding if isinstance(region, KeyedRegion) else bool(region.feeders)


def _problem(move: SetWeights, region: Region) -> str:
    """Why the controller refuses a move; empty if it does not."""
    if set(move.weights) != set(region.incarnations):
        return f"workers {sorted(move.weights)} are not the live ones, {sorted(region.incarnations)}"
    weights = move.weights.values()
    if any(weight < 0 or weight % 1 for weight in weights) or sum(weights) != RESOLUTION:
        given = " + ".join(map(str, weights))
        return f"weights must be whole numbers of at least 0 and sum to {RESOLUTION}, not {given}"
    return ""


def _keys(weights: Mapping[int, int]) -> dict[str, int]:
    """As JSON has them; a policy's numbers may be numpy's."""
    return {str(worker): weight if weight % 1 else int(weight) for worker, weight in weights.items()}
