"""A keyed operator: who owns its units, who feeds it, what becomes of its state when somebody is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from evenflow.control.costs import Costs
from evenflow.control.evaluations import Evaluations, evaluation_of
from evenflow.control.events import (
    Cancel,
    CheckpointTaken,
    FeederJoined,
    Instruction,
    Peer,
    PeerLeft,
    Record,
    RegionOpened,
    Stored,
    Tell,
    Unpersisted,
    Warn,
)
from evenflow.control.movement import Movements
from evenflow.control.ordered_region import balance_failed, refused
from evenflow.control.statistics import Statistics, sampled
from evenflow.control.stored_queries import StoredQueries
from evenflow.control.workers import Site, listed
from evenflow.errors import SEVERAL_ACTIONS, ProtocolError
from evenflow.model import KeyedSnapshot, MoveUnits, RoutingTable
from evenflow.model.messages import (
    ConsumerReport,
    DropState,
    EvaluationLost,
    FeederArrivals,
    FeederBegan,
    FeederDraining,
    FeederEnded,
    FeederFailed,
    FeederMessage,
    FeederReport,
    FeederUnread,
    ForgetEvaluation,
    KeyedDirectory,
    Loading,
    MoveReport,
    StateLoaded,
    UnitsSaved,
    WorkerRegionMessage,
)
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.policy.keyed.sharing import Sharing

SAMPLE_S = 1.0
"""Statistics go to the event log this often."""


class KeyedRegion:
    """One keyed operator. Its table and its model outlive the feeders, which come and go with micro-batches."""

    def __init__(self, event: RegionOpened, sharing: Sharing, numbers: Iterator[int]) -> None:
        self.name, self.operator, self.units = event.region, event.operator, event.units
        self.balance = cast(KeyedBalance, event.balance)
        self.feeders: set[Peer] = set()
        """Those whose rows go into state."""
        self.draining: set[Peer] = set()
        """Feeders that have taken in all their rows: workers fall idle now one by one, which says nothing of load."""
        self.costs = Costs()
        self.statistics = Statistics(self.units)
        self.evaluations = Evaluations(self.units if event.durable else 0)
        table = RoutingTable(0, np.zeros(self.units, np.int32))
        self.movements = Movements(self.name, table, lambda: self.evaluations.stateful, event.transfer, numbers=numbers)
        self.stored = StoredQueries(self.name, self.operator, self.evaluations, self.movements)
        self._sharing = sharing
        self.begun: dict[Peer, FeederJoined] = {}
        """Feeders that have had a row: those in `feeders`, and those that wait, or have been given up."""
        self._sampled = 0.0
        self._order_warning = event.order_warning
        self._sources: tuple[tuple[str, int], int] | None = None
        """An evaluation's batch, and the first of its partitions that came with rows."""

    @property
    def in_use(self) -> bool:
        """Whether anybody feeds it, or a query may go on feeding it."""
        return self.evaluations.feeding

    def opened(self, time: float) -> Record:
        """For the event log."""
        fields: dict[str, Any] = {"region": self.name, "balance": self.balance.name, "units": self.units}
        if self._sharing.qos:
            fields["weight"] = self._sharing.weight(self.name)
        return Record(time, "region-opened", fields)

    def reopen(self, event: RegionOpened) -> Iterator[Instruction]:
        """A query is started anew: its state is found by the name, and loaded again if the operator has other code."""
        if event.operator != self.operator and not self.feeders:
            for name, epochs in self.evaluations.stored.items():
                epochs.drop()
                for site in self.movements.sites.values():
                    yield Tell(site.peer, DropState(self.name, name))
        self.operator = self.stored.operator = event.operator
        self.movements.transfer = event.transfer

    def close(self, time: float) -> Iterator[Instruction]:
        """Nobody has fed it for long."""
        self._sharing.forget(self.name)
        for evaluation in self.evaluations.ids:
            yield from self._end(time, evaluation, f"region {self.name} is long out of use")
        yield from self.movements.abandon(time, "the region is closed")

    # -- workers

    def set_workers(
        self, time: float, sites: Mapping[int, Site], reasons: Mapping[int, str] | None = None
    ) -> Iterator[Instruction]:
        """Take the live workers. The state of units whose worker is gone is lost, and with it every evaluation.

        `reasons` tells of some that are gone what became of them.
        """
        self.statistics.set_workers(sites)
        for worker in [worker for worker, site in self.movements.sites.items() if sites.get(worker) != site]:
            self.costs.forget(worker)
            owned = len(self.movements.table.units_of(worker))
            if owned or any(movement.source == worker for movement in self.movements.under_way.values()):
                lost = f"the state of {owned} of {self.units} units of {self.name}"
                why = (reasons or {}).get(worker)
                yield from self._give_up(
                    time, f"worker {worker} was lost{f' ({why})' if why else ''}, and with it {lost}"
                )
            yield from self.movements.worker_lost(time, worker)
        self.movements.sites = dict(sites)
        for epochs in self.evaluations.stored.values():
            epochs.loading.clear()  # units may go to others now: begin again
        self.movements.deal(self.evaluations.stateless)
        yield from self.stored.load(time)
        for peer in self.feeders if sites else ():
            yield self._directory(peer)
        yield from self._admit()

    def check(self, message: WorkerRegionMessage | FeederMessage) -> None:
        """Refuse news of units that the operator does not have: applied in part, they would leave a mixture."""
        for name in ("units", "sized", "on_disk"):
            units = getattr(message, name, None)
            if units is not None and len(units) and not 0 <= units.min() <= units.max() < self.units:
                raise ProtocolError(f"{type(message).__name__} of region {self.name} names units it does not have")

    def hear_worker(self, time: float, worker: int, message: WorkerRegionMessage) -> Iterator[Instruction]:
        """What a live worker says."""
        match message:
            case ConsumerReport():
                self.statistics.report(worker, message)
                if self.statistics.due:
                    yield from self._rebalance(time)
            case MoveReport():
                yield from self._move_report(time, worker, message)
                yield from self.stored.load(time)
            case UnitsSaved():
                yield from self.stored.saved(time, worker, message)
            case StateLoaded():
                yield from self.stored.loaded(time, worker, message)
                yield from self._free(time)
                yield from self._admit()

    def _move_report(self, time: float, worker: int, report: MoveReport) -> Iterator[Instruction]:
        movements, number = self.movements, report.move
        match report.outcome:
            case "quiet":
                movements.quiet(time, number, worker)
            case "stored":
                yield from movements.stored(time, number, worker)
            case "installed":
                yield from movements.installed(time, number, worker, report.bytes, self.feeders)
            case "failed" | "undelivered":
                yield from movements.failed(time, number, worker, report.reason, report.outcome == "failed")
            case "discarded":
                yield from movements.discarded(time, number, worker)
            case "restored":
                yield from movements.restored(time, number, worker, self.feeders)
            case "lost":  # its source could not put the units back that it had taken out
                movement = movements.under_way.get(number)
                if movement is not None and worker == movement.source:
                    yield from self._give_up(time, f"units {list(movement.units)[:5]} are lost: {report.reason}")

    def _give_up(self, time: float, why: str) -> Iterator[Instruction]:
        """Some state is lost: end every evaluation that has any, and what is under way with it.

        Queries with a store lose the attempt at their present batch; the next one begins by loading state.
        """
        why = why.rstrip(". ")
        for name in self.evaluations.stored:
            yield from self.stored.poison(time, name, f"{why}; the batch is to be run again")
        for name in self.evaluations.stateful:
            remedy = "Without a checkpoint it cannot be brought back: start the query again from the beginning"
            yield from self._end(time, name, f"{why}. {remedy}")
        yield from self.movements.abandon(time, why)

    # -- feeders

    def register(self, feeder: FeederJoined) -> str:
        """A task has started; why it is refused, or nothing."""
        return self.evaluations.register(feeder)

    def join(self, feeder: FeederJoined) -> Iterator[Instruction]:
        """A task that was not refused is there."""
        return self.stored.join(feeder)

    def hear(self, time: float, feeder: FeederJoined, message: FeederMessage) -> Iterator[Instruction]:
        """What one of its feeders says."""
        match message:
            case FeederBegan():
                self.movements.deal(self.evaluations.stateless)
                why = self.evaluations.begin(feeder)
                if why:
                    yield from refused(feeder, why)
                    if SEVERAL_ACTIONS in why:  # trying again changes nothing, and would hide the reason
                        yield Cancel(feeder.own_stage, f"region {self.name}: {why}")
                    hopeless = self.evaluations.hopeless(feeder)
                    if hopeless:
                        yield from self._fail(time, feeder, f"{hopeless}: the batch is to be run again")
                else:
                    self.begun[feeder.peer] = feeder
                    yield from self._warn_of_order(feeder, message.partition)
                yield from self._admit()
            case FeederArrivals():
                self.statistics.arrived(message)
                self.stored.arrived(feeder, message)
            case FeederDraining():
                self.draining.add(feeder.peer)
                yield Record(time, "feeder-draining", {"region": self.name, "partition": feeder.partition})
            case FeederEnded():
                yield from self.stored.ended(time, feeder, message, feeder.peer in self.begun)
            case FeederUnread():
                self.evaluations.unread(feeder, feeder.peer in self.begun)
                yield Record(time, "feeder-unread", {"region": self.name, "partition": feeder.partition})
            case FeederFailed():
                yield from self._fail(time, feeder, message.reason)
            case FeederReport():
                for worker, counts in message.connections.items():
                    if worker in self.movements.sites:
                        self.costs.add(worker, counts)
                self.costs.learn(message.overhead)

    def _warn_of_order(self, feeder: FeederJoined, partition: int) -> Iterator[Instruction]:
        """If a second partition of one batch has rows: they meet those of the first as they happen to come."""
        batch = (evaluation_of(feeder), feeder.epoch)
        if self._order_warning and self._sources is not None and self._sources[0] == batch:
            if self._sources[1] != partition:
                yield Warn(self._order_warning)
                self._order_warning = ""
        else:
            self._sources = batch, partition

    @property
    def waiting(self) -> list[Peer]:
        """Feeders with rows that wait for workers, or for state."""
        begun = self.begun.items()
        return [peer for peer, feeder in begun if peer not in self.feeders and self.evaluations.may_apply(feeder)]

    def _admit(self) -> Iterator[Instruction]:
        """Tell feeders that have waited where to send their rows."""
        for peer in self.waiting if self.movements.sites else ():
            epochs = self.evaluations.stored.get(evaluation_of(self.begun[peer]))
            if epochs is not None:
                if not epochs.current:
                    continue
                epochs.admit()
            self.feeders.add(peer)
            yield self._directory(peer)

    def _directory(self, peer: Peer) -> Tell:
        name = evaluation_of(self.begun[peer])
        table, epochs = self.movements.table, self.evaluations.stored.get(name)
        directory = KeyedDirectory(
            evaluation=name,
            workers=listed(self.movements.sites, deep=True),
            you=peer,
            owners=table.owners,
            version=table.version,
            paused=self.movements.paused(),
            attempt=epochs.attempt.number if epochs is not None and epochs.attempt is not None else 0,
            costs=dict(self.costs.rows),
            overhead=self.costs.overhead,
        )
        return Tell(peer, directory)

    def give_up_stored(self, event: CheckpointTaken) -> Iterator[Instruction]:
        """Queries whose state is stored end for good: another cluster goes on with them."""
        for name in list(self.evaluations.stored):
            yield from self.stored.poison(event.time, name, event.why)
            yield from self._end(event.time, name, event.why)

    def store_failed(self, event: Stored) -> Iterator[Instruction]:
        """What a batch came to cannot be noted, nor could it later: tasks under way are told, and why."""
        name = f"query {event.save.query}"
        if name in self.evaluations.stored:
            yield from self.stored.poison(event.time, name, f"the checkpoint cannot be written: {event.error}")

    def leave(self, feeder: FeederJoined, event: PeerLeft, ended: bool) -> Iterator[Instruction]:
        """A task is over, maybe since its query was stopped."""
        self.feeders.discard(feeder.peer)
        self.draining.discard(feeder.peer)
        begun = self.begun.pop(feeder.peer, None) is not None
        why = self.evaluations.leave(feeder, event.time, begun, ended)
        if event.stopped and begun and not ended:
            why = why or self.evaluations.interrupted(feeder)
        yield from self.movements.feeder_left(feeder.peer)
        if why:
            stored = evaluation_of(feeder) in self.evaluations.stored
            rest = ": the batch is to be run again" if stored else ", which cannot be taken back: start again"
            if event.stopped:
                why = f"the query was stopped in the middle of batch {feeder.epoch}"
                rest = ", which is run again when it is started again" if stored else ": its state goes with it"
            yield from self._fail(event.time, feeder, why + rest, event.stopped, silent=True)

    def _fail(
        self, time: float, feeder: FeederJoined, why: str, stopped: bool = False, silent: bool = False
    ) -> Iterator[Instruction]:
        """A task cannot go on, and nobody can in its stead."""
        name = evaluation_of(feeder)
        if name in self.evaluations.stored:
            return self.stored.poison(time, name, why, "attempt-stopped" if stopped else "attempt-poisoned", silent)
        return self._end(time, name, why)

    def _end(self, time: float, name: str, why: str) -> Iterator[Instruction]:
        """Close an evaluation: its feeders are told, its state is dropped everywhere."""
        yield Record(time, "evaluation-ended", {"region": self.name, "evaluation": name, "why": why})
        feeders = self.evaluations.end(name, why)
        if not self.evaluations.stateful:
            self.statistics.unit_bytes[:] = 0
        for peer in sorted(feeders):
            yield Tell(peer, EvaluationLost(why))
        for site in self.movements.sites.values():
            yield Tell(site.peer, ForgetEvaluation(self.name, name))

    # -- time and decisions

    def tick(self, time: float) -> Iterator[Instruction]:
        """What only the passing of time brings about."""
        yield from self.movements.tick(time)
        yield from self.stored.load(time)
        yield from self._free(time)
        for peer in self.waiting if self.movements.sites else ():
            yield Tell(peer, Loading())  # a sign of life
        late = self.movements.overdue(time)
        if late is not None:
            why = f"units {list(late.units)[:5]} could be neither moved nor taken back ({late.reason})"
            yield from self._give_up(time, f"{why}; their workers do not answer")
        for name, over in list(self.evaluations.idle(time)):
            yield from self._end(time, name, over)

    def unpersisted(self, event: Unpersisted) -> Iterator[Instruction]:
        """State that was there for the rest of what was persisted is of no use any more."""
        for name in self.evaluations.unpersisted(event.rdds):
            yield from self._end(event.time, name, f"{name} was unpersisted, and its state dropped")

    def _free(self, time: float) -> Iterator[Instruction]:
        """Let movements begin again once no state is being loaded, or waits for that."""
        if self.movements.held and not self.stored.busy:
            yield from self.movements.resume(time, self.feeders)

    def snapshot(self, time: float) -> KeyedSnapshot:
        """The operator now."""
        known, movements = self.statistics, self.movements
        return KeyedSnapshot(
            time=time,
            region=self.name,
            feeders=len(self.feeders),
            table=movements.table,
            consumers=tuple(known.consumers.values()),
            unit_rows=known.unit_rows.copy(),
            unit_bytes=known.unit_bytes.copy(),
            unit_arrived=known.unit_arrived.copy(),
            moving=movements.moving,
            moved=movements.moved,
            bytes_moved=movements.bytes_moved,
            pause_s=movements.pause_s,
            undone=movements.undone,
            unit_resident=known.resident(),
            counts=dict(known.counts),
        )

    def _rebalance(self, time: float) -> Iterator[Instruction]:
        """Ask the balance; one that fails costs its own region this round, and nobody else anything."""
        if time - self._sampled >= SAMPLE_S:
            self._sampled = time
            yield sampled(self.snapshot(time))
        try:
            moves = self.decide(time)
        except Exception as error:
            yield balance_failed(time, self.name, self.balance.name, error)
        else:
            if moves:
                yield self._decided(time, moves)
            yield from self.carry_out(time, moves)

    def decide(self, time: float) -> list[MoveUnits]:
        """Ask the balance, while rows come in and no other operator on these workers moves.

        One that goes by rows that arrived is asked until all are through: a small micro-batch is taken in at once.
        """
        self.statistics.fresh.clear()
        telling = self.feeders if getattr(self.balance, "by_arrivals", False) else self.feeders - self.draining
        shown = self._sharing.view(self.snapshot(time)) if telling else None
        moves = self.balance.decide(shown) if shown is not None else []
        self._sharing.begin(self.name, moves)
        return moves

    def _decided(self, time: float, moves: Sequence[MoveUnits]) -> Record:
        """For the event log: what the balance wants moved, with the units' rows so far, and what it saw."""
        units = [unit for move in moves for unit in move.units if 0 <= unit < self.units]
        rows = self.statistics.unit_rows[units].tolist()
        fields = {"region": self.name, "balance": self.balance.name, "why": moves[0].reason, "moves": len(moves)}
        fields |= {"units": len(units), "unit_rows": rows, "detail": dict(moves[0].detail)}
        return Record(time, "rebalance", fields)

    def carry_out(self, time: float, moves: Iterable[MoveUnits]) -> Iterator[Instruction]:
        """Begin the moves, or record why not."""
        for move in moves:
            sizes = {unit: int(self.statistics.unit_bytes[unit]) for unit in move.units if 0 <= unit < self.units}
            yield from self.movements.ask(time, move, sizes, self.feeders)
