"""A keyed operator: its feeders, its workers, and the consequences for its state if one of them is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import cast

import numpy as np
from msgspec import UNSET

from evenflow.control.batches.evaluation import evaluation_of
from evenflow.control.batches.evaluations import Evaluations
from evenflow.control.batches.stored_queries import StoredQueries
from evenflow.control.events import (
    CancelInstruction,
    CheckpointTakenEvent,
    FeederJoinedEvent,
    Instruction,
    Peer,
    PeerLeftEvent,
    RegionOpenedEvent,
    ResultUnpersistedEvent,
    SaveEndedEvent,
    SendInstruction,
    WarnInstruction,
)
from evenflow.control.moves.movements import Movements
from evenflow.control.moves.owners import OwnersLog
from evenflow.control.moves.waits import Waits
from evenflow.control.regions.balancing import Balancing
from evenflow.control.regions.endings import Endings
from evenflow.control.regions.late_rows import LateRows
from evenflow.control.regions.ordered import refused
from evenflow.control.regions.region import Region
from evenflow.control.regions.statistics import Statistics
from evenflow.control.workers import WorkerLife, listed
from evenflow.errors import SEVERAL_ACTIONS, ProtocolError
from evenflow.model import KeyedSnapshot, MoveUnits, RoutingTable
from evenflow.model.entries import (
    FeederDrainingEntry,
    FeederUnreadEntry,
    RegionOpenedEntry,
)
from evenflow.model.messages import (
    ConsumerReport,
    DropState,
    FeederArrivals,
    FeederBegan,
    FeederDraining,
    FeederEnded,
    FeederFailed,
    FeederMessage,
    FeederReport,
    FeederUnread,
    KeyedDirectory,
    Loading,
    MoveReport,
    RowsDiffer,
    StateLoaded,
    UnitsSaved,
    WorkerRegionMessage,
)
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.policy.keyed.sharing import Sharing


class KeyedRegion(Region):
    """One keyed region. Its routing table and its balance outlive the feeders, which last for one micro-batch."""

    def __init__(
        self, event: RegionOpenedEvent, sharing: Sharing, numbers: Iterator[int], stall_timeout: float = inf
    ) -> None:
        super().__init__(event.region, event.operator, event.units)
        self.draining: set[Peer] = set()
        """Feeders that have taken in all their rows: now workers become idle one by one, which says nothing of load."""
        self.waits = Waits()
        self.statistics = Statistics(self.units)
        self.evaluations = Evaluations(self.units if event.durable else 0)
        self.movements = Movements(
            region=self.name,
            table=RoutingTable(0, np.zeros(self.units, np.int32)),
            evaluations=lambda: self.evaluations.stateful,
            transfer=event.transfer,
            stall_s=stall_timeout,
            wait_s=self.waits.median_s,
            numbers=numbers,
        )
        self.stored = StoredQueries(self.name, self.operator, self.evaluations, self.movements)
        self._endings = Endings(
            region=self.name,
            evaluations=self.evaluations,
            stored=self.stored,
            movements=self.movements,
            statistics=self.statistics,
        )
        self._sharing = sharing
        self.balancing = Balancing(
            balance=cast(KeyedBalance, event.balance),
            sharing=sharing,
            statistics=self.statistics,
            movements=self.movements,
            performance=self.performance,
            opened=event.time,
        )
        self.begun: dict[Peer, FeederJoinedEvent] = {}
        """Feeders that have had a row: all of `feeders`, feeders that wait, and feeders of given up attempts."""
        self._owners = OwnersLog(event.region)
        self._order_warning = event.order_warning
        self._late = LateRows(event.region)
        self._sources: tuple[tuple[str, int], int] | None = None
        """The newest batch of an evaluation, and its first partition with rows."""

    @property
    def balance(self) -> KeyedBalance:
        """The balance that decides which units move."""
        return self.balancing.balance

    @property
    def senders(self) -> set[Peer]:
        """The peers that send rows to its units."""
        return self.feeders

    @property
    def in_use(self) -> bool:
        return self.evaluations.feeding

    @property
    def kept(self) -> set[int]:
        return self.evaluations.kept

    def knows(self, feeder: FeederJoinedEvent) -> bool:
        return self.evaluations.knows(feeder)

    def opened(self, time: float) -> RegionOpenedEntry:
        weight = self._sharing.weight(self.name) if self._sharing.qos else UNSET
        balance = self.balance.name
        return RegionOpenedEntry(time=time, region=self.name, balance=balance, units=self.units, weight=weight)

    def reopen(self, event: RegionOpenedEvent) -> Iterator[Instruction]:
        self._late.start_again()
        if event.operator != self.operator and not self.feeders:
            for name, epochs in self.evaluations.stored.items():
                epochs.drop()
                for life in self.movements.workers.values():
                    yield SendInstruction(life.peer, DropState(self.name, name))
        self.operator = self.stored.operator = event.operator
        self.movements.transfer = event.transfer

    def close(self, time: float) -> Iterator[Instruction]:
        yield from self.note_rest(time)
        self._sharing.forget(self.name)
        for evaluation in self.evaluations.ids:
            yield from self._endings.drop(time, evaluation, f"region {self.name} is long out of use")
        yield from self.movements.abandon(time, "the region is closed")

    # -- workers

    def set_workers(
        self, time: float, workers: Mapping[int, WorkerLife], reasons: Mapping[int, str] | None = None
    ) -> Iterator[Instruction]:
        """Set the live workers. If a worker with units is gone, their state is lost, and with it every evaluation."""
        self.statistics.set_workers(workers)
        for worker in [worker for worker, life in self.movements.workers.items() if workers.get(worker) != life]:
            self.service.forget(worker)
            self.waits.worker_left(worker)
            self.performance.forget(worker)
            owned = len(self.movements.table.units_of(worker))
            if owned or any(movement.source == worker for movement in self.movements.under_way.values()):
                why = (reasons or {}).get(worker)
                gone = f"worker {worker} was lost{f' ({why})' if why else ''}, and with it {self._on(worker)}"
                yield from self._endings.lose_state(time, gone)
            yield from self.movements.worker_lost(time, worker)
        self.movements.workers = dict(workers)
        for epochs in self.evaluations.stored.values():
            epochs.loading.clear()  # units may have other owners now: load again
        self.movements.deal(self.evaluations.stateless)
        yield from self.stored.load(time)
        for peer in self.feeders if workers else ():
            yield self._directory(peer)
        yield from self._admit()

    def check(self, message: WorkerRegionMessage | FeederMessage) -> None:
        for name in ("units", "sized", "on_disk"):
            units = getattr(message, name, None)
            if units is not None and len(units) and not 0 <= units.min() <= units.max() < self.units:
                raise ProtocolError(f"{type(message).__name__} of region {self.name} names units it does not have")

    def hear_worker(self, time: float, worker: int, message: WorkerRegionMessage) -> Iterator[Instruction]:
        match message:
            case ConsumerReport():
                self.statistics.report(worker, message)
                if self.statistics.due:
                    yield from self.rebalance(time)
            case MoveReport():
                movement = self.movements.under_way.get(message.move)
                if message.outcome != "lost":
                    yield from self.movements.hear(time, worker, message, self.senders)
                elif (
                    movement is not None and worker == movement.source
                ):  # it could not put back the units that it had taken out
                    why = f"units {list(movement.units)[:5]} are lost: {message.reason}"
                    yield from self._endings.lose_state(time, why)
                yield from self.stored.load(time)
            case RowsDiffer():
                yield from self.stored.differs(time, message)
            case UnitsSaved():
                yield from self.stored.saved(time, worker, message)
            case StateLoaded():
                yield from self.stored.loaded(time, worker, message)
                yield from self._free(time)
                yield from self._admit()

    def _on(self, worker: int) -> str:
        """The part of this region that a worker has, in words."""
        owned = len(self.movements.table.units_of(worker))
        return f"the state of {owned} of {self.units} units of {self.name}"

    # -- feeders

    def register(self, feeder: FeederJoinedEvent) -> str:
        return self.evaluations.register(feeder)

    def join(self, feeder: FeederJoinedEvent) -> Iterator[Instruction]:
        return self.stored.join(feeder)

    def hear(self, time: float, feeder: FeederJoinedEvent, message: FeederMessage) -> Iterator[Instruction]:
        match message:
            case FeederBegan():
                self.movements.deal(self.evaluations.stateless)
                why = self.evaluations.begin(feeder)
                if why:
                    yield from refused(feeder, why)
                    if SEVERAL_ACTIONS in why:  # a retry would fail as well, and hide the reason
                        yield CancelInstruction(feeder.own_stage, f"region {self.name}: {why}")
                    hopeless = self.evaluations.hopeless(feeder)
                    if hopeless:
                        yield from self._endings.fail(time, feeder, f"{hopeless}: the batch is to be run again")
                else:
                    self.begun[feeder.peer] = feeder
                    yield from self._warn_of_order(feeder, message.partition)
                yield from self._admit()
            case FeederArrivals():
                self.statistics.arrived(message)
                self.stored.arrived(feeder, message)
            case FeederDraining():
                self.draining.add(feeder.peer)
                yield FeederDrainingEntry(time=time, region=self.name, partition=feeder.partition)
            case FeederEnded():
                yield from self.stored.ended(time, feeder, message, feeder.peer in self.begun)
            case FeederUnread():
                self.evaluations.unread(feeder, time, feeder.peer in self.begun)
                yield FeederUnreadEntry(time=time, region=self.name, partition=feeder.partition)
            case FeederFailed():
                yield from self._endings.fail(time, feeder, message.reason)
            case FeederReport():
                for worker, counts in message.connections.items():
                    if worker in self.movements.workers:
                        self.service.add(worker, counts)
                        self.waits.add(feeder.peer, worker, counts.latencies)
                self.service.learn(message.overhead)
                self.performance.add(feeder.partition, message, self.movements.workers)

    def _warn_of_order(self, feeder: FeederJoinedEvent, partition: int) -> Iterator[Instruction]:
        """Warn once if a second partition of a batch has rows: their order against the first's is that of arrival."""
        batch = (evaluation_of(feeder), feeder.epoch)
        if self._order_warning and self._sources is not None and self._sources[0] == batch:
            if self._sources[1] != partition:
                yield WarnInstruction(self._order_warning)
                self._order_warning = ""
        else:
            self._sources = batch, partition

    @property
    def waiting(self) -> list[Peer]:
        """Feeders with rows that wait for workers, or for state to be loaded."""
        begun = self.begun.items()
        return [peer for peer, feeder in begun if peer not in self.feeders and self.evaluations.may_apply(feeder)]

    def _admit(self) -> Iterator[Instruction]:
        """Tell waiting feeders where to send their rows, if the state of their evaluation is there."""
        for peer in self.waiting if self.movements.workers else ():
            epochs = self.evaluations.stored.get(evaluation_of(self.begun[peer]))
            if epochs is not None:
                if not epochs.current:
                    continue
                epochs.admit()
            self.feeders.add(peer)
            yield self._directory(peer)

    def _directory(self, peer: Peer) -> SendInstruction:
        name = evaluation_of(self.begun[peer])
        table, epochs = self.movements.table, self.evaluations.stored.get(name)
        directory = KeyedDirectory(
            evaluation=name,
            workers=listed(self.movements.workers, deep=True),
            you=peer,
            owners=table.owners,
            version=table.version,
            paused=self.movements.paused(),
            attempt=epochs.attempt.number if epochs is not None and epochs.attempt is not None else 0,
            costs=dict(self.service.row_s),
            overhead=self.service.overhead,
            shed=self.shed,
        )
        return SendInstruction(peer, directory)

    def give_up_stored(self, event: CheckpointTakenEvent) -> Iterator[Instruction]:
        for name in list(self.evaluations.stored):
            yield from self.stored.poison(event.time, name, event.why)
            yield from self._endings.end(event.time, name, event.why)

    def note_waits(self, waited_for: dict[int, float]) -> Iterable[Instruction]:
        for worker, since in self.stored.awaited():
            waited_for[worker] = min(since, waited_for.get(worker, since))
        return ()

    def save_ended(self, event: SaveEndedEvent) -> Iterator[Instruction]:
        """A note or a manifest is in the store, or cannot be: if it never can, the query's tasks are told why."""
        name = f"query {event.save.query}"
        if event.save.kind in ("begun", "whole"):
            yield from self.stored.noted(event)
        elif event.final and name in self.evaluations.stored:
            yield from self.stored.poison(event.time, name, f"the checkpoint cannot be written: {event.error}")

    def leave(self, feeder: FeederJoinedEvent, event: PeerLeftEvent, ended: bool) -> Iterator[Instruction]:
        """A task is over; it may have broken off, or its query was stopped."""
        self.feeders.discard(feeder.peer)
        self.draining.discard(feeder.peer)
        self.waits.feeder_left(feeder.peer)
        begun = self.begun.pop(feeder.peer, None) is not None
        why = self.evaluations.leave(feeder, event.time, begun, ended)
        if event.stopped and begun and not ended:
            why = why or self.evaluations.interrupted(feeder)
        yield from self.movements.feeder_left(feeder.peer)
        if why:
            yield from self._endings.break_off(event.time, feeder, why, event.stopped)

    # -- time and decisions

    def tick(self, time: float) -> Iterator[Instruction]:
        yield from self.performance.note(time)
        yield from self._late.note(time, self.statistics.counts)
        yield from self._owners.note(time, self.movements.table, self.movements.workers) if self.feeders else ()
        yield from self.movements.tick(time)
        yield from self.stored.load(time)
        yield from self._free(time)
        for peer in self.waiting if self.movements.workers else ():
            yield SendInstruction(peer, Loading())  # so that they do not give up
        yield from self._endings.give_up_stuck(time)
        for name, over in list(self.evaluations.idle(time)):
            yield from self._endings.drop(time, name, over)

    def note_rest(self, time: float) -> Iterator[Instruction]:
        yield from self.performance.note(time, final=True)
        yield from self._late.note(time, self.statistics.counts, final=True)

    def unpersisted(self, event: ResultUnpersistedEvent) -> Iterator[Instruction]:
        for name in self.evaluations.unpersisted(event.rdds):
            yield from self._endings.drop(event.time, name, f"{name} was unpersisted, and its state dropped")

    def _free(self, time: float) -> Iterator[Instruction]:
        """Let movements begin again if no state is being loaded or is to be loaded."""
        yield from self.stored.give_way(time)
        if self.movements.held and not self.stored.busy:
            yield from self.movements.resume(time, self.senders)

    def rebalance(self, time: float) -> Iterator[Instruction]:
        """Called when all workers have reported: ask the balance."""
        return self.balancing.rebalance(time, self.feeders, self.draining)

    def snapshot(self, time: float) -> KeyedSnapshot:
        return self.balancing.snapshot(time, self.feeders)

    def carry_out(self, time: float, moves: Iterable[MoveUnits]) -> Iterator[Instruction]:
        return self.balancing.carry_out(time, moves, self.senders)
