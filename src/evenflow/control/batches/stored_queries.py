"""The queries of one keyed operator whose state is stored: notes in the store, and loading of state.

`Epochs` decides for each query which attempt counts and which state it starts from. This module turns that into
messages: workers load or drop state, tasks learn that their attempt was given up, notes and manifests are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from msgspec import UNSET

from evenflow.control import refusals
from evenflow.control.batches.epochs import Epochs
from evenflow.control.batches.evaluation import evaluation_of
from evenflow.control.batches.evaluations import Evaluations
from evenflow.control.events import (
    CancelInstruction,
    FeederJoinedEvent,
    Instruction,
    Peer,
    SaveEndedEvent,
    SaveInstruction,
    SendInstruction,
    WarnInstruction,
)
from evenflow.control.moves.movements import Movements
from evenflow.model.checkpoint import SavedUnits
from evenflow.model.entries import (
    AttemptEntry,
    AttemptPoisonedEntry,
    LoadedEntry,
    LoadingEntry,
    RepeatLeftEntry,
    SnapshotTooLateEntry,
    TaskDurableEntry,
)
from evenflow.model.messages import (
    Committed,
    DropState,
    EvaluationLost,
    FeederArrivals,
    FeederEnded,
    LoadState,
    LogEntry,
    RowsDiffer,
    SaveAgain,
    SnapshotEntry,
    StateLoaded,
    UnitsSaved,
)

LEFT_S = 60.0
"""After so many seconds without a task, an attempt that repeats another counts as over. Until then its stage may be
waiting for slots, and units can wait to be moved."""


@dataclass
class StoredQueries:
    """All queries of one keyed region whose state is stored."""

    region: str
    operator: str
    evaluations: Evaluations
    movements: Movements
    asked: dict[str, float] = field(default_factory=dict)
    """By evaluation, when workers were last told to load its state."""
    warned: bool = False
    """Whether the user was warned that results of part of a batch were given out before all of it was evaluated."""

    # -- tasks

    def join(self, feeder: FeederJoinedEvent) -> Iterator[Instruction]:
        """A task of a query has joined: store the batch that is done, and load the state to start from if needed."""
        name = evaluation_of(feeder)
        epochs = self.evaluations.stored.get(name)
        if epochs is None:
            return
        for peer in sorted(epochs.dropped):
            yield SendInstruction(peer, EvaluationLost("another attempt at its batch has begun"))
        epochs.dropped.clear()
        if epochs.given_up and not self.warned:
            self.warned = True
            yield WarnInstruction(f"region {self.region}: {epochs.given_up}")
        epochs.given_up = ""
        if epochs.settled:
            base, stale = epochs.settle()
            yield SaveInstruction(self.region, feeder.query, "epoch", base, stale)
        if epochs.started is not None:
            yield SaveInstruction(self.region, feeder.query, "begun", epochs.started)
            epochs.started = None
        if epochs.outdated:
            epochs.loading.clear()
        if not epochs.current and not epochs.loading:
            yield from self._load(feeder.time, name, epochs)

    def arrived(self, feeder: FeederJoinedEvent, told: FeederArrivals) -> None:
        """Take in the rows that have arrived at a task since its last message."""
        epochs = self.evaluations.stored.get(evaluation_of(feeder))
        if epochs is not None:
            epochs.arrived(feeder.epoch, told.units)

    def ended(self, time: float, feeder: FeederJoinedEvent, told: FeederEnded, begun: bool) -> Iterator[Instruction]:
        """All rows of a task are durable. The last task ends when it is noted that the attempt is whole."""
        epochs = self.evaluations.stored.get(evaluation_of(feeder))
        if epochs is None:
            yield from self._release([feeder.peer] if feeder.query else ())
            return
        whole = epochs.end(feeder, told.segments, begun, told.left)
        if epochs.attempt is not None and epochs.attempt.short:
            left = sum(epochs.attempt.left.values())
            yield from self._differs(time, evaluation_of(feeder), f"{left or 'all'} of them did not come again")
            return
        if begun and whole is None:
            yield self._durable(time, feeder.query, told.seconds, 0.0)
        if whole is not None:
            peer, waited = feeder.peer, told.seconds
            yield SaveInstruction(self.region, feeder.query, "whole", whole, peer=peer, since=time, waited_s=waited)
        yield from self._release(epochs.released())

    def noted(self, event: SaveEndedEvent) -> Iterator[Instruction]:
        """A note of an attempt is in the store, or could not be put there."""
        save, name = event.save, f"query {event.save.query}"
        epochs = self.evaluations.stored.get(name)
        if epochs is None:
            return
        if not event.error:
            if save.kind == "whole":
                epochs.let_go(save.peer)
                yield self._durable(event.time, save.query, save.waited_s, event.time - save.since)
                yield SendInstruction(save.peer, Committed())
            yield from self._release(epochs.noted(save.content.key))
        elif epochs.unnoted(save.content.key, f"the checkpoint cannot be written: {event.error}"):
            assert epochs.attempt is not None
            yield from self.poison(event.time, name, epochs.attempt.poisoned)

    def _release(self, peers: Iterable[Peer]) -> Iterator[Instruction]:
        for peer in peers:
            yield SendInstruction(peer, Committed())

    def _durable(self, time: float, query: str, log_s: float, note_s: float) -> TaskDurableEntry:
        times = {"log_s": round(log_s, 6), "note_s": round(note_s, 6)}
        return TaskDurableEntry(time=time, region=self.region, query=query, **times)

    def poison(
        self,
        time: float,
        name: str,
        why: str,
        kind: type[AttemptEntry] = AttemptPoisonedEntry,
        silent: bool = False,
    ) -> Iterator[Instruction]:
        """The attempt at a query's present batch cannot count: tell its tasks, and drop the state in memory.

        `silent`: a task broke off without an error. It may belong to an action that needed only some rows; then its
        stage must not be cancelled.
        """
        epochs = self.evaluations.stored[name]
        held, now = epochs.held, epochs.attempt
        counted = now is not None and bool(now.feeders or not now.poisoned)
        feeders = epochs.poison(why)
        yield kind(time=time, region=self.region, evaluation=name, epoch=epochs.epoch, why=why)
        for peer in sorted(feeders):
            yield SendInstruction(peer, EvaluationLost(why))
        if held is not None:
            for life in self.movements.workers.values():
                yield SendInstruction(life.peer, DropState(self.region, name))
        if now is not None and now.poisoned and counted and now.stage and (now.broad or not silent):
            yield CancelInstruction(now.running or now.stage, f"region {self.region}: {why}")

    def differs(self, time: float, told: RowsDiffer) -> Iterator[Instruction]:
        """A worker says that an attempt has other rows than the attempt that it repeats."""
        epochs = self.evaluations.stored.get(told.evaluation)
        now = epochs.attempt if epochs is not None else None
        if epochs is not None and now is not None and (told.epoch, told.attempt) == (epochs.epoch, now.number):
            yield from self._differs(time, told.evaluation, told.why)

    def _differs(self, time: float, name: str, what: str) -> Iterator[Instruction]:
        """The source of a query does not give the rows of a batch again: the batch is to be run afresh."""
        epochs = self.evaluations.stored[name]
        before = epochs.attempt.repeats if epochs.attempt is not None else None
        voided = epochs.void()
        if voided is None:
            return
        now = epochs.attempt
        same_run = now is not None and before is not None and before.run == now.run
        why = refusals.other_rows(name, voided.epoch, what, same_run)
        query = name.removeprefix("query ")
        yield SaveInstruction(self.region, query, "void", voided)
        yield WarnInstruction(f"region {self.region}: {why}")
        yield from self.poison(time, name, why)

    # -- state

    @property
    def busy(self) -> bool:
        """Whether state is being loaded, is to be loaded, or must stay where it was loaded."""
        stored = self.evaluations.stored.values()
        return any(epochs.loading or epochs.wanted or epochs.repeating for epochs in stored)

    def give_way(self, time: float) -> Iterator[Instruction]:
        """If units are to move, end repeats without tasks, such as repeats for actions that read only some rows.

        The state that such a repeat leaves in memory is of no use: the next attempt, or batch, begins by loading state.
        """
        for name, epochs in self.evaluations.stored.items() if self.movements.queue else ():
            if epochs.repeating and self.evaluations.idle_s(name, time) > LEFT_S:
                why = f"batch {epochs.epoch} of {name} was given again in part, and no task has come for {LEFT_S:.0f} s"
                yield from self.poison(time, name, why, RepeatLeftEntry, silent=True)

    def load(self, time: float) -> Iterator[Instruction]:
        """Begin to load state that tasks wait for, if it is not being loaded yet."""
        for name, epochs in self.evaluations.stored.items():
            if epochs.wanted and not epochs.loading:
                yield from self._load(time, name, epochs)

    def _load(self, time: float, name: str, epochs: Epochs) -> Iterator[Instruction]:
        """Have all workers load the state of their units, after movements under way have ended; new ones wait."""
        assert epochs.attempt is not None
        epochs.drop()  # from now on movements do not move this state
        self.movements.held = True
        if not self.movements.workers or self.movements.under_way:
            return  # called again when that changes
        self.movements.deal(self.evaluations.stateless)
        base = epochs.load(self.movements.workers)
        snapshots = tuple(SnapshotEntry(saved.name, saved.epoch) for saved in base.snapshots)
        logs = tuple(LogEntry(log.epoch, log.attempt, dict(log.segments)) for log in base.logs)
        of = epochs.attempt.repeats
        repeated = LogEntry(epochs.epoch, of.number, dict(of.segments)) if of is not None else None
        yield LoadingEntry(
            time=time,
            region=self.region,
            evaluation=name,
            epoch=base.epoch,
            snapshots=len(base.snapshots),
            repeats=of.number if of is not None else UNSET,
        )
        self.asked[name] = time
        for worker, life in self.movements.workers.items():
            order = LoadState(
                region=self.region,
                evaluation=name,
                operator=self.operator,
                count=self.movements.table.units,
                load=epochs.loads,
                epoch=epochs.epoch,
                attempt=epochs.attempt.number,
                snapshots=snapshots,
                logs=logs,
                units=self.movements.table.units_of(worker).astype(np.int32),
                repeated=repeated,
            )
            yield SendInstruction(life.peer, order)

    def awaited(self) -> Iterator[tuple[int, float]]:
        """The workers that are loading state that tasks wait for, and since when."""
        for name, epochs in self.evaluations.stored.items():
            for worker in epochs.loading if epochs.wanted else ():
                yield worker, self.asked.get(name, 0.0)

    def loaded(self, time: float, worker: int, told: StateLoaded) -> Iterator[Instruction]:
        """A worker has loaded its part of the state, or cannot."""
        epochs = self.evaluations.stored.get(told.evaluation)
        if epochs is None or worker not in epochs.loading or told.load != epochs.loads:
            return
        yield LoadedEntry(
            time=time,
            region=self.region,
            evaluation=told.evaluation,
            worker=worker,
            error=told.error,
            bytes=told.bytes,
            rows=told.rows,
            seconds=round(told.seconds, 6),
        )
        if told.error:
            why = f"worker {worker} cannot load state: {told.error}"
            yield from self.poison(time, told.evaluation, why)
        else:
            epochs.loaded(worker)

    def saved(self, time: float, worker: int, told: UnitsSaved) -> Iterator[Instruction]:
        """A worker has saved units; if the report is too late to be used, it has to save them again."""
        epochs = self.evaluations.stored.get(told.evaluation)
        if epochs is not None and not epochs.reported(SavedUnits(told.name, told.epoch, told.units)):
            yield SnapshotTooLateEntry(
                time=time,
                region=self.region,
                evaluation=told.evaluation,
                epoch=told.epoch,
                units=len(told.units),
            )
            peer = self.movements.workers[worker].peer
            yield SendInstruction(peer, SaveAgain(self.region, told.evaluation, told.epoch, told.units))
