"""What the controller keeps of one keyed operator: its routing table, its movements, who feeds it, its statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.control.epochs import SavedUnits
from evenflow.control.evaluations import Evaluation, Evaluations, evaluation_of
from evenflow.control.events import (
    Cancel,
    ConsumerReport,
    FeederArrivals,
    FeederEnded,
    FeederJoined,
    Instruction,
    Peer,
    Record,
    Save,
    StateLoaded,
    Tell,
    UnitsSaved,
)
from evenflow.control.movement import Movements, Site
from evenflow.model import Consumer, KeyedSnapshot, MoveUnits, RoutingTable
from evenflow.policy.keyed import KeyedBalance
from evenflow.policy.sharing import Sharing

SAMPLE_S = 1.0
"""Statistics go to the event log this often."""


@dataclass
class KeyedRegion:
    """One keyed operator. Its table and its model outlive the feeders, which come and go with micro-batches."""

    name: str
    operator: str
    balance: KeyedBalance
    units: int
    feeders: set[Peer] = field(default_factory=set)
    draining: set[Peer] = field(default_factory=set)
    """Feeders that have taken in all their rows: workers fall idle now one by one, which says nothing of their load."""
    incarnations: dict[int, int] = field(default_factory=dict)
    costs: dict[int, float] = field(default_factory=dict)
    overhead: float | None = None
    rows_out: int = 0
    durable: bool = False
    """Whether queries store their state."""
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.evaluations = Evaluations(self.units if self.durable else 0)
        table = RoutingTable(0, np.zeros(self.units, np.int32))
        self.movements = Movements(
            self.name, table, numbers=self.numbers, evaluations=lambda: self.evaluations.stateful
        )
        self._begun: set[Peer] = set()
        self._waiting: dict[Peer, FeederJoined] = {}
        """Feeders with rows whose state is being loaded."""
        self._unit_rows = np.zeros(self.units, np.int64)
        self._unit_arrived = np.zeros(self.units, np.int64)
        self._unit_bytes = np.zeros(self.units, np.int64)
        self._consumers: dict[int, Consumer] = {}
        self._on_disk: dict[int, npt.NDArray[np.int32]] = {}
        self._counts: Counter[str] = Counter()
        self._fresh: set[int] = set()
        self._sampled = 0.0

    # -- who is there

    def set_workers(self, time: float, incarnations: Mapping[int, int], sites: Mapping[int, Site]) -> list[Instruction]:
        """Take the live workers. The state of units whose worker is gone is lost, and with it every evaluation."""
        out: list[Instruction] = []
        gone = [w for w, number in self.incarnations.items() if incarnations.get(w) != number]
        self.incarnations = dict(sorted(incarnations.items()))
        for worker in gone:
            self._consumers.pop(worker, None)
            self._on_disk.pop(worker, None)
            self.costs.pop(worker, None)
            self._fresh.discard(worker)
            owned = len(self.movements.table.units_of(worker))
            moving = any(m.source == worker for m in self.movements.under_way.values())
            if owned or moving:
                out += self._lose(time, worker, owned)
            out += self.movements.worker_lost(time, worker)
        self.movements.sites = dict(sites)
        for known in self.evaluations.durable:
            if known.epochs is not None and known.epochs.loading:  # units may go to others now: begin again
                known.epochs.loading.clear()
        self._deal()
        out += self.load_all(time)
        return out

    def _lose(self, time: float, worker: int, owned: int) -> Iterator[Instruction]:
        lost = f"worker {worker} was lost, and with it the state of {owned} of {self.units} units of {self.name}. "
        yield from self._give_up(time, lost)

    def _give_up(self, time: float, why: str) -> Iterator[Instruction]:
        """Some state is lost: end every evaluation that has any, and what is under way with it.

        Queries with a store lose the attempt at their present batch; the next one begins by loading state.
        """
        for known in self.evaluations.durable:
            yield from self.poison(time, known, f"{why.rstrip('. ')}; the batch is to be run again")
        for name in self.evaluations.stateful:
            remedy = "Without a checkpoint it cannot be brought back: start the query again from the beginning"
            yield from self.end(time, name, f"{why.rstrip('. ')}. {remedy}")
        yield from self.movements.abandon(time, why)

    def poison(
        self, time: float, known: Evaluation, why: str, event: str = "attempt-poisoned"
    ) -> Iterator[Instruction]:
        """The attempt at a query's present batch cannot count: its tasks are told, state in memory goes."""
        assert known.epochs is not None
        known.stateful = False
        held, now = known.epochs.held, known.epochs.attempt
        counted = now is not None and not now.poisoned
        feeders = known.epochs.poison(why)
        fields = {"region": self.name, "evaluation": known.id, "epoch": known.epochs.epoch, "why": why}
        yield Record(time, event, fields)
        for peer in sorted(feeders):
            self._waiting.pop(peer, None)
            yield Tell(peer, {"type": "lost", "reason": why})
        if held is not None:
            for site in self.movements.sites.values():
                yield Tell(site.peer, {"type": "drop", "region": self.name, "evaluation": known.id})
        if now is not None and now.poisoned and counted and now.stage:
            yield Cancel(now.stage, f"region {self.name}: {why}")

    def lose_units(self, time: float, number: int, worker: int, reason: str) -> Iterator[Instruction]:
        """A movement's source could not put the units back that it had taken out."""
        movement = self.movements.under_way.get(number)
        if movement is not None and worker == movement.source:
            yield from self._give_up(time, f"units {list(movement.units)[:5]} are lost: {reason}")

    def _deal(self) -> None:
        """Give units nobody owns to those who are there; all of them, if no state is anywhere, or on its way there."""
        if not self.incarnations:
            return
        table = self.movements.table
        live = np.array(list(self.incarnations), np.int32)
        loading = any(known.epochs is not None and known.epochs.loading for known in self.evaluations.durable)
        if not self.evaluations.stateful and not self.movements.moving and not loading:
            even = RoutingTable.even(self.units, list(self.incarnations))
            if not np.array_equal(even.owners, table.owners):
                self.movements.table = RoutingTable(table.version + 1, even.owners)
            return
        orphans = np.flatnonzero(~np.isin(table.owners, live))
        for worker in live:
            mine = orphans[orphans % len(live) == np.flatnonzero(live == worker)[0]]
            if len(mine):
                self.movements.table = self.movements.table.moved(mine.tolist(), int(worker))

    # -- feeders

    def register(self, feeder: FeederJoined) -> str:
        """A task has started; why it is refused, or nothing."""
        return self.evaluations.register(feeder)

    def begin(self, feeder: FeederJoined) -> str:
        """A task has its first row; why it is refused, or nothing."""
        self._deal()
        why = self.evaluations.begin(feeder)
        if not why:
            self._waiting[feeder.peer] = feeder
            self._begun.add(feeder.peer)
        return why

    # -- state that is stored

    def settle(self, time: float, feeder: FeederJoined) -> Iterator[Instruction]:
        """A task of a query has come: note what batch is done, and load the state to start from if it is not there."""
        known = self.evaluations.get(evaluation_of(feeder))
        if known is None or known.epochs is None:
            return
        epochs = known.epochs
        for peer in sorted(epochs.dropped):
            self._waiting.pop(peer, None)
            yield Tell(peer, {"type": "lost", "reason": "another attempt at its batch has begun"})
        epochs.dropped.clear()
        if epochs.settled:
            base, stale = epochs.settle()
            yield Save(self.name, feeder.query, "epoch", base, stale)
        if epochs.outdated:
            epochs.loading.clear()
        if not epochs.current and not epochs.loading:
            yield from self._load(time, known)

    def _load(self, time: float, known: Evaluation) -> Iterator[Instruction]:
        """Have all workers load the state of their units; movements under way end first, new ones wait."""
        epochs = known.epochs
        assert epochs is not None
        assert epochs.attempt is not None
        known.stateful = False
        epochs.held = None  # from now on movements do not carry it
        self.movements.held = True
        if not self.incarnations or self.movements.under_way:
            return  # tried again when that changes
        self._deal()
        base = epochs.load(self.incarnations)
        message = {
            "type": "load",
            "region": self.name,
            "evaluation": known.id,
            "operator": self.operator,
            "count": self.units,
            "load": epochs.loads,
            "epoch": epochs.epoch,
            "attempt": epochs.attempt.number,
            "snapshots": [{"name": saved.name, "epoch": saved.epoch} for saved in base.snapshots],
            "logs": [{"epoch": log.epoch, "attempt": log.attempt, "segments": dict(log.segments)} for log in base.logs],
        }
        yield Record(
            time,
            "loading",
            {"region": self.name, "evaluation": known.id, "epoch": base.epoch, "snapshots": len(base.snapshots)},
        )
        for worker in self.incarnations:
            units = self.movements.table.units_of(worker)
            yield Tell(self.movements.sites[worker].peer, message | {"units": units})

    def load_all(self, time: float) -> Iterator[Instruction]:
        """Load state that tasks wait for and nobody loads yet."""
        for known in self.evaluations.durable:
            epochs = known.epochs
            if epochs is None or epochs.attempt is None or not epochs.attempt.feeders:
                continue
            if not epochs.loading and not epochs.current:
                yield from self._load(time, known)

    def loaded(self, time: float, worker: int, event: StateLoaded) -> Iterator[Instruction]:
        """A worker has its part of the state."""
        known = self.evaluations.get(event.evaluation)
        epochs = known.epochs if known is not None else None
        if known is None or epochs is None or worker not in epochs.loading or event.load != epochs.loads:
            return
        fields = {"region": self.name, "evaluation": known.id, "worker": worker, "error": event.error}
        fields |= {"bytes": event.bytes, "rows": event.rows, "seconds": round(event.seconds, 6)}
        yield Record(time, "loaded", fields)
        if event.error:
            yield from self.poison(time, known, f"worker {worker} cannot load state: {event.error}")
        elif epochs.loaded(worker):
            known.stateful = True
        yield from self._free(time)

    def _free(self, time: float) -> Iterator[Instruction]:
        """Let movements begin again once no state is being loaded, or waits for that."""
        stored = [known.epochs for known in self.evaluations.durable if known.epochs is not None]
        wanted = (each.attempt is not None and each.attempt.feeders and not each.current for each in stored)
        if self.movements.held and not any(each.loading for each in stored) and not any(wanted):
            yield from self.movements.resume(time, self.feeders)

    def admit(self) -> list[Peer]:
        """Feeders whose rows may go into state now."""
        admitted = []
        for peer, feeder in list(self._waiting.items()):
            known = self.evaluations.get(evaluation_of(feeder))
            if not self.incarnations or known is None:
                continue
            if known.epochs is not None:
                now = known.epochs.attempt
                if now is None or peer not in now.feeders:  # it has been told
                    del self._waiting[peer]
                    continue
                if known.epochs.loading or not known.epochs.current:
                    continue
                known.epochs.admit()
            known.stateful = True
            del self._waiting[peer]
            self.feeders.add(peer)
            admitted.append(peer)
        return admitted

    def ended(self, feeder: FeederJoined, event: FeederEnded) -> Iterator[Instruction]:
        """All rows of a task are durable with the workers: have it noted, and let the task end then."""
        known = self.evaluations.get(evaluation_of(feeder))
        if known is not None and known.epochs is not None:
            if feeder.peer not in self._begun:
                known.epochs.noted(feeder.peer)
                return
            through = known.epochs.end(feeder, event.segments)
            if through is not None:
                peer, since, waited = feeder.peer, event.time, event.seconds
                yield Save(self.name, feeder.query, "task", through, peer=peer, since=since, waited_s=waited)

    def noted(self, feeder: FeederJoined) -> None:
        """The store has been told of a task."""
        known = self.evaluations.get(evaluation_of(feeder))
        if known is not None and known.epochs is not None:
            known.epochs.noted(feeder.peer)

    def saved(self, event: UnitsSaved) -> Iterator[Instruction]:
        """A worker has saved units; if that is not used, it has to save them again."""
        known = self.evaluations.get(event.evaluation)
        if known is None or known.epochs is None:
            return
        if not known.epochs.reported(SavedUnits(event.name, event.epoch, event.units)):
            fields = {"region": self.name, "evaluation": event.evaluation, "epoch": event.epoch}
            yield Record(event.time, "snapshot-too-late", fields | {"units": len(event.units)})
            yield Tell(event.peer, {"type": "unsaved", **fields, "units": event.units})

    # -- feeders that leave

    def leave(self, time: float, feeder: FeederJoined, ended: bool, stopped: bool = False) -> Iterator[Instruction]:
        """A task is over, maybe since its query was `stopped`."""
        self._waiting.pop(feeder.peer, None)
        self.feeders.discard(feeder.peer)
        self.draining.discard(feeder.peer)
        begun = feeder.peer in self._begun
        self._begun.discard(feeder.peer)
        why = self.evaluations.leave(feeder, time, begun, ended)
        yield from self.movements.feeder_left(feeder.peer)
        known = self.evaluations.get(evaluation_of(feeder))
        if why:
            stored = known is not None and known.epochs is not None
            rest = ": the batch is to be run again" if stored else ", which cannot be taken back: start again"
            if stopped:
                why = f"the query was stopped in the middle of batch {feeder.epoch}"
                rest = ", which is run again when it is started again" if stored else ": its state goes with it"
            yield from self.fail(time, feeder, why + rest, stopped)

    def fail(self, time: float, feeder: FeederJoined, why: str, stopped: bool = False) -> Iterator[Instruction]:
        """A task cannot go on, and nobody can in its stead."""
        known = self.evaluations.get(evaluation_of(feeder))
        if known is not None and known.epochs is not None:
            yield from self.poison(time, known, why, "attempt-stopped" if stopped else "attempt-poisoned")
        else:
            yield from self.end(time, evaluation_of(feeder), why)

    def end(self, time: float, name: str, why: str) -> Iterator[Instruction]:
        """Close an evaluation: its feeders are told, its state is dropped everywhere."""
        yield Record(time, "evaluation-ended", {"region": self.name, "evaluation": name, "why": why})
        feeders = self.evaluations.end(name, why)
        if not self.evaluations.stateful:
            self._unit_bytes[:] = 0
        for peer in sorted(feeders):
            yield Tell(peer, {"type": "lost", "reason": why})
        for site in self.movements.sites.values():
            yield Tell(site.peer, {"type": "forget", "region": self.name, "evaluation": name})

    # -- statistics and decisions

    def add(self, feeding_s: float, rows_out: int, connections: Mapping[int, Mapping[str, float]]) -> None:
        """A feeder's report: what the next feeder sizes its first frames by."""
        self.rows_out += rows_out
        for worker, counts in connections.items():
            if worker in self.incarnations and counts.get("rows_done", 0) > 0:
                calls = counts.get("frames_done", 0) * (self.overhead or 0.0)
                self.costs[worker] = counts.get("busy_s", 0.0) / (counts["rows_done"] + calls)

    def report(self, worker: int, event: ConsumerReport) -> None:
        """A worker's statistics since its last report."""
        known = self._consumers.get(worker) or Consumer(worker, self.incarnations[worker])
        self._consumers[worker] = Consumer(
            worker,
            known.incarnation,
            known.seconds + event.seconds,
            known.idle_s + event.idle_s,
            known.busy_s + event.busy_s,
            known.rows + event.rows,
            known.bytes + event.bytes,
            event.memory,
            event.resident,
            event.spilled,
        )
        self._on_disk[worker] = event.on_disk
        self._counts.update(event.counts)
        np.add.at(self._unit_rows, event.units, event.unit_rows)
        self._unit_bytes[event.sized] = event.sizes
        self._fresh.add(worker)

    def arrived(self, feeder: FeederJoined, event: FeederArrivals) -> None:
        """Rows a feeder has taken in since it last said so."""
        np.add.at(self._unit_arrived, event.units, event.unit_rows)
        known = self.evaluations.get(evaluation_of(feeder))
        if known is not None and known.epochs is not None:
            known.epochs.arrived(feeder.epoch, event.units)

    @property
    def due(self) -> bool:
        """Whether every live worker has reported since the balance was last asked."""
        return bool(self.incarnations) and self._fresh >= self.incarnations.keys()

    def snapshot(self, time: float) -> KeyedSnapshot:
        """The operator now."""
        return KeyedSnapshot(
            time=time,
            region=self.name,
            feeders=len(self.feeders),
            table=self.movements.table,
            consumers=tuple(
                self._consumers.get(worker) or Consumer(worker, number) for worker, number in self.incarnations.items()
            ),
            unit_rows=self._unit_rows.copy(),
            unit_bytes=self._unit_bytes.copy(),
            unit_arrived=self._unit_arrived.copy(),
            moving=self.movements.moving,
            moved=self.movements.moved,
            bytes_moved=self.movements.bytes_moved,
            pause_s=self.movements.pause_s,
            undone=self.movements.undone,
            unit_resident=self._resident(),
            counts=dict(self._counts),
        )

    def _resident(self) -> npt.NDArray[np.bool_]:
        """Marks units whose state is in memory, as far as their workers have said."""
        marks = np.ones(self.units, np.bool_)
        for units in self._on_disk.values():
            marks[units] = False
        return marks

    def decide(self, time: float, sharing: Sharing) -> list[MoveUnits]:
        """Ask the balance, while rows come in and no other operator on these workers moves.

        One that goes by rows that arrived is asked until all are through: a small micro-batch is taken in at once.
        """
        self._fresh.clear()
        telling = self.feeders if getattr(self.balance, "by_arrivals", False) else self.feeders - self.draining
        shown = sharing.view(self.snapshot(time)) if telling else None
        moves = self.balance.decide(shown) if shown is not None else []
        sharing.begin(self.name, moves)
        return moves

    def decided(self, time: float, moves: Sequence[MoveUnits]) -> Record:
        """For the event log: what the balance wants moved, with the units' rows so far, and what it saw."""
        units = [unit for move in moves for unit in move.units if 0 <= unit < self.units]
        fields = {"region": self.name, "balance": self.balance.name, "why": moves[0].reason, "moves": len(moves)}
        fields |= {"units": len(units), "unit_rows": self._unit_rows[units].tolist(), "detail": dict(moves[0].detail)}
        return Record(time, "rebalance", fields)

    def carry_out(self, time: float, moves: Iterable[MoveUnits]) -> Iterator[Instruction]:
        """Begin the moves, or record why not."""
        for move in moves:
            sizes = {unit: int(self._unit_bytes[unit]) for unit in move.units if 0 <= unit < self.units}
            yield from self.movements.ask(time, move, sizes, self.feeders)

    def sample(self, time: float) -> Iterator[Instruction]:
        """Statistics for the event log, now and then."""
        if time - self._sampled < SAMPLE_S:
            return
        self._sampled = time
        snapshot = self.snapshot(time)
        owned = np.bincount(snapshot.table.owners, minlength=max(self.incarnations, default=0) + 1)
        yield Record(
            time,
            "keyed-sample",
            {
                "region": self.name,
                "feeders": snapshot.feeders,
                "version": snapshot.table.version,
                "moving": snapshot.moving,
                "moved": snapshot.moved,
                "bytes_moved": snapshot.bytes_moved,
                "state_bytes": int(snapshot.unit_bytes.sum()),
                "hottest": _hottest(snapshot.unit_rows),
                "counts": dict(snapshot.counts),
                "consumers": [
                    {
                        "worker": c.worker,
                        "units": int(owned[c.worker]),
                        "rows": c.rows,
                        "bytes": c.bytes,
                        "busy_s": round(c.busy_s, 6),
                        "idle_s": round(c.idle_s, 6),
                        "seconds": round(c.seconds, 6),
                    }
                    for c in snapshot.consumers
                ],
            },
        )

    def tick(self, time: float) -> Iterator[Instruction]:
        """What only the passing of time brings about."""
        yield from self.movements.tick(time)
        yield from self.load_all(time)
        yield from self._free(time)
        for peer in self._waiting if self.incarnations else ():
            yield Tell(peer, {"type": "loading"})  # a sign of life
        late = self.movements.overdue(time)
        if late is not None:
            why = f"units {list(late.units)[:5]} could be neither moved nor taken back ({late.reason})"
            yield from self._give_up(time, f"{why}; their workers do not answer")
        for name in list(self.evaluations.idle(time)):
            yield from self.end(time, name, "its state was dropped after a minute in which nobody fed it")

    def directory(self, feeder: FeederJoined) -> dict[str, Any]:
        """What a feeder needs beside the list of workers."""
        table = self.movements.table
        return {
            "you": feeder.peer,
            "owners": table.owners,
            "version": table.version,
            "paused": self.movements.paused(),
            "costs": {str(worker): cost for worker, cost in self.costs.items()},
            "overhead": self.overhead,
            "attempt": self._attempt_of(feeder),
        }

    def _attempt_of(self, feeder: FeederJoined) -> int:
        known = self.evaluations.get(evaluation_of(feeder))
        epochs = known.epochs if known is not None else None
        return epochs.attempt.number if epochs is not None and epochs.attempt is not None else 0


def _hottest(rows: np.ndarray) -> list[list[int]]:
    """The ten units with most rows so far."""
    top = np.argsort(rows)[::-1][:10]
    return [[int(unit), int(rows[unit])] for unit in top if rows[unit]]
