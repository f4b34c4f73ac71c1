"""How evaluations of a keyed region end: their tasks are told why, and workers drop the state.

A query whose state is stored loses only the attempt at its present batch: the next attempt begins by loading state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evenflow.control.batches.evaluation import evaluation_of
from evenflow.control.batches.evaluations import Evaluations
from evenflow.control.batches.stored_queries import StoredQueries
from evenflow.control.events import FeederJoinedEvent, Instruction, SendInstruction
from evenflow.control.moves.movements import Movements
from evenflow.control.regions.statistics import Statistics
from evenflow.model.entries import (
    AttemptPoisonedEntry,
    AttemptStoppedEntry,
    EvaluationDroppedEntry,
    EvaluationEndedEntry,
    EvaluationOverEntry,
    EvaluationStoppedEntry,
)
from evenflow.model.messages import EvaluationLost, ForgetEvaluation


@dataclass
class Endings:
    """Ends evaluations of one region."""

    region: str
    evaluations: Evaluations
    stored: StoredQueries
    movements: Movements
    statistics: Statistics

    def end(
        self,
        time: float,
        name: str,
        why: str,
        kind: type[EvaluationOverEntry] = EvaluationEndedEntry,
    ) -> Iterator[Instruction]:
        """Close an evaluation: its feeders are told, its state is dropped everywhere."""
        yield kind(time=time, region=self.region, evaluation=name, why=why)
        feeders = self.evaluations.end(name, why)
        if not self.evaluations.stateful:
            self.statistics.unit_bytes[:] = 0
        for peer in sorted(feeders):
            yield SendInstruction(peer, EvaluationLost(why))
        for life in self.movements.workers.values():
            yield SendInstruction(life.peer, ForgetEvaluation(self.region, name))

    def drop(self, time: float, name: str, why: str) -> Iterator[Instruction]:
        """Close an evaluation whose state nobody needs any more."""
        return self.end(time, name, why, EvaluationDroppedEntry)

    def lose_state(self, time: float, why: str) -> Iterator[Instruction]:
        """Some state is lost: end every evaluation that has state, and all movements."""
        why = why.rstrip(". ")
        for name in self.evaluations.stored:
            yield from self.stored.poison(time, name, f"{why}; the batch is to be run again")
        for name in self.evaluations.stateful:
            remedy = "Without a checkpoint it cannot be brought back: start the query again from the beginning"
            yield from self.end(time, name, f"{why}. {remedy}")
        yield from self.movements.abandon(time, why)

    def fail(
        self, time: float, feeder: FeederJoinedEvent, why: str, stopped: bool = False, silent: bool = False
    ) -> Iterator[Instruction]:
        """A task cannot go on, and cannot be repeated alone: its attempt, or its evaluation, fails.

        `stopped`: its query was stopped. `silent`: it broke off without an error.
        """
        name = evaluation_of(feeder)
        if name in self.evaluations.stored:
            return self.stored.poison(time, name, why, AttemptStoppedEntry if stopped else AttemptPoisonedEntry, silent)
        return self.end(time, name, why, EvaluationStoppedEntry if stopped else EvaluationEndedEntry)

    def break_off(self, time: float, feeder: FeederJoinedEvent, why: str, stopped: bool) -> Iterator[Instruction]:
        """A task has broken off without an error, or its query was stopped."""
        stored = evaluation_of(feeder) in self.evaluations.stored
        rest = ": the batch is to be run again" if stored else ", which cannot be taken back: start again"
        if stopped:
            why = f"the query was stopped in the middle of batch {feeder.epoch}"
            rest = ", which is run again when it is started again" if stored else ": its state goes with it"
        return self.fail(time, feeder, why + rest, stopped, silent=True)

    def give_up_stuck(self, time: float) -> Iterator[Instruction]:
        """Count units as lost that could not be taken back in time."""
        late = self.movements.overdue(time)
        if late is not None:
            why = f"units {list(late.units)[:5]} could be neither moved nor taken back ({late.reason})"
            silent = f"worker {late.awaited} has not answered for {time - late.heard:.0f} s"
            remedy = "If a function may take this long, give Cluster a longer stall_timeout"
            yield from self.lose_state(time, f"{why}: {silent}. {remedy}")
