"""Evaluations: which feeders may apply rows to which state, so that no row is applied twice, or to incomplete state.

An evaluation is one use of one keyed operator's state: a streaming query over all its batches; or, with fresh state, a
batch DataFrame that is evaluated once. For a batch DataFrame, these belong to one evaluation:

- if its results are persisted, everything that goes into the same persisted RDD, over any number of actions: a
  partition that is persisted is not evaluated again, and the others continue with the state after it;
- the stages of one action that together read some or all partitions (`take`, `show`, `tail`, `toLocalIterator`);
- otherwise one stage, which reads all partitions.

Without a store, rows cannot be taken back out of state. So a task whose rows are in state already, all or some, may not
be repeated, and a query whose state is lost, incomplete or never was here may not go on. With a store, the batches of a
query can be run again: see `epochs`.
"""

from __future__ import annotations

from collections.abc import Iterator

from evenflow.control import refusals
from evenflow.control.batches.epochs import Epochs
from evenflow.control.batches.evaluation import (
    RDD,
    Evaluation,
    evaluation_of,
    inputs_of,
    is_partial,
    kept_of,
    repeatable,
)
from evenflow.control.events import FeederJoinedEvent, Peer, StageFacts
from evenflow.model.routing import FIRST_SHARE

IDLE_S = 60.0
"""The state of a batch evaluation without feeders is dropped after this time."""
AWAITED_S = 600.0
"""An evaluation whose rows wait for ticks is kept for this time, since Spark may do other parts of its plan first; so
is the newest evaluation that has had ticks, since further actions on its DataFrame may come."""
REMEMBERED = 1000
"""The number of ended evaluations that are remembered, so that late tasks are refused and not given fresh state."""


class Evaluations:
    """All evaluations of one keyed region."""

    def __init__(self, durable_units: int = 0) -> None:
        self._durable_units = durable_units
        """The number of units whose state queries store; 0 if there is no store."""
        self.stored: dict[str, Epochs] = {}
        """The live queries whose state is stored, by the names of their evaluations."""
        self._live: dict[str, Evaluation] = {}
        self._over: dict[str, str] = {}
        self._forgotten = -1
        """The newest persisted RDD whose evaluation is over and no longer remembered."""

    @property
    def ids(self) -> list[str]:
        """The names of the live evaluations."""
        return list(self._live)

    def register(self, feeder: FeederJoinedEvent) -> str:
        """Register a task that has started, with or without rows; returns why it is refused, or an empty text."""
        if isinstance(feeder.facts, str):
            return feeder.facts
        if isinstance(feeder.saved, str):
            return feeder.saved
        name = evaluation_of(feeder)
        if name in self._over:
            return self._over[name]
        known = self._live.get(name)
        if known is None:
            why = refusals.unfit(feeder, self._forgotten)
            if why:
                return why
            known = self._live[name] = Evaluation.of(name, feeder)
            if known.streaming and self._durable_units:
                self.stored[name] = Epochs(self._durable_units, feeder.saved)
        if name in self.stored:
            self._outlive(known, feeder)
            why = self.stored[name].join(feeder)
            if not why:
                known.feeders.add(feeder.peer)
                known.stages[feeder.peer] = feeder.own_stage or feeder.stage
            return why
        if feeder.epoch < known.epoch:
            return refusals.already_applied(feeder)
        if feeder.epoch > known.epoch:
            waits = known.awaited and not known.ticked
            if waits or ((known.parts or (known.ticked and known.inputs)) and not known.complete):
                return refusals.read_in_parts(feeder.query, known.epoch)
            known.epoch, known.parts, known.inputs = feeder.epoch, is_partial(feeder), inputs_of(feeder)
            known.begun.clear()
            known.through.clear()
            known.ticked = known.awaited = False
        if feeder.own_stage and not known.ticked:  # all its rows have come: from now on the tasks of the ticks count
            known.ticked, known.parts = True, is_partial(feeder)
            known.inputs, known.kept = inputs_of(feeder), None if feeder.query else kept_of(feeder)
        known.parts &= is_partial(feeder)
        known.feeders.add(feeder.peer)
        return ""

    def _outlive(self, known: Evaluation, feeder: FeederJoinedEvent) -> None:
        """Give up tasks whose stage is over; they notice late that their results are not read."""
        live = feeder.facts.live if isinstance(feeder.facts, StageFacts) else frozenset()
        over = {peer for peer in known.feeders if live and known.stages[peer] not in live}
        self.stored[known.id].abandon(over)
        known.feeders -= over
        known.idle_since = feeder.time

    def unread(self, feeder: FeederJoinedEvent, time: float, begun: bool) -> None:
        """Spark does not want the remaining results of a task. With a store, its attempt cannot become whole."""
        known = self._live.get(evaluation_of(feeder))
        if known is None or known.id not in self.stored or feeder.peer not in known.feeders:
            return
        epochs = self.stored[known.id]
        epochs.abandon({feeder.peer})
        known.feeders.discard(feeder.peer)
        known.idle_since = time
        if begun and epochs.attempt is not None:
            now = epochs.epoch, epochs.attempt.number
            known.unread = {each for each in known.unread if each[:2] == now} | {(*now, feeder.partition)}

    def interrupted(self, feeder: FeederJoinedEvent) -> str:
        """Why the present attempt of a stopped query fails; empty if it does not."""
        epochs = self.stored.get(evaluation_of(feeder))
        now = epochs.attempt if epochs is not None else None
        under_way = now is not None and feeder.stage in now.stages and not now.whole and not now.poisoned
        return f"{refusals.what(feeder)} was interrupted" if under_way else ""

    def hopeless(self, feeder: FeederJoinedEvent) -> str:
        """Why an attempt has to fail, or nothing: Spark starts a partition again whose results it stopped reading."""
        known = self._live.get(evaluation_of(feeder))
        epochs = self.stored.get(known.id) if known is not None else None
        if known is None or epochs is None or epochs.attempt is None:
            return ""
        again = (epochs.epoch, epochs.attempt.number, feeder.partition) in known.unread
        if not again or epochs.attempt.stage != feeder.stage:
            return ""
        return f"partition {feeder.partition} of {refusals.what(feeder)} broke off, and is to be evaluated again"

    def begin(self, feeder: FeederJoinedEvent) -> str:
        """A task has its first row; returns why it is refused, or an empty text."""
        name = evaluation_of(feeder)
        known = self._live.get(name)
        if known is None:
            return self._over.get(name, "its evaluation is over")
        if name in self.stored:
            why = self.stored[name].begin(feeder)
            if why:
                known.feeders.discard(feeder.peer)
            return why
        stage = feeder.own_stage or feeder.stage
        again = feeder.partition in known.begun and not repeatable(feeder)
        if feeder.epoch != known.epoch or again:
            known.feeders.discard(feeder.peer)
            return refusals.already_applied(feeder, tried=known.begun.get(feeder.partition) == stage)
        known.begun[feeder.partition] = stage
        known.stateful = True
        known.awaited = feeder.kinds > 1 and feeder.partition < FIRST_SHARE
        return ""

    def leave(self, feeder: FeederJoinedEvent, time: float, begun: bool, ended: bool) -> str:
        """A task is over; if it broke off with some of its rows applied, returns why the evaluation cannot go on."""
        known = self._live.get(evaluation_of(feeder))
        if known is None or feeder.peer not in known.feeders:
            return ""
        known.feeders.discard(feeder.peer)
        known.stages.pop(feeder.peer, None)
        known.idle_since = time
        if known.id in self.stored:
            return self.stored[known.id].leave(feeder, begun)
        if ended:
            known.through.add(feeder.partition)
        elif begun and known.streaming:
            return (
                f"partition {feeder.partition} of {refusals.what(feeder)} broke off, and some of its rows are in "
                "state (in foreachBatch, persist() the DataFrame before an action that may read only some of its rows)"
            )
        elif begun and known.kept is not None and not repeatable(feeder):
            return (
                f"partition {feeder.partition} of {refusals.what(feeder)} broke off, and some of its rows are in state"
            )
        return ""

    def may_apply(self, feeder: FeederJoinedEvent) -> bool:
        """Whether rows of a task may go into state: its evaluation, or its attempt, has not been given up."""
        name = evaluation_of(feeder)
        if name in self.stored:
            now = self.stored[name].attempt
            return now is not None and feeder.peer in now.feeders
        return name in self._live

    def end(self, name: str, why: str) -> set[Peer]:
        """End an evaluation for good; returns its feeders."""
        known = self._live.pop(name, None)
        self.stored.pop(name, None)
        self._over[name] = why if known is None or known.kept is None else f"{why}: {refusals.PERSIST_ANEW}"
        while len(self._over) > REMEMBERED:
            forgotten = next(iter(self._over))
            del self._over[forgotten]
            if forgotten.startswith(RDD):
                self._forgotten = max(self._forgotten, int(forgotten.removeprefix(RDD)))
        return known.feeders if known else set()

    @property
    def kept(self) -> set[int]:
        """The persisted RDDs that results of live evaluations go into."""
        return {known.kept for known in self._live.values() if known.kept is not None}

    def unpersisted(self, rdds: frozenset[int]) -> list[str]:
        """Evaluations without feeders whose RDDs are no longer persisted."""
        return [known.id for known in self._live.values() if known.kept in rdds and not known.feeders]

    def idle(self, time: float) -> Iterator[tuple[str, str]]:
        """Batch evaluations that are over or seem to be, and the reason that a late task is given."""
        newest = next((known for known in reversed(self._live.values()) if known.ticked), None)
        for known in self._live.values():
            patience = AWAITED_S if known.awaited or (known is newest and known.kept is None) else IDLE_S
            if known.streaming or known.feeders or time - known.idle_since <= patience:
                continue
            if known.kept is None:
                yield (
                    known.id,
                    f"its state was dropped after {patience:.0f} s in which nobody fed it: run the action again, on "
                    "the DataFrame made anew; if what reads the rows is slow, persist() it and count() it before",
                )
            elif known.complete:
                yield known.id, f"all of persisted RDD {known.kept} was evaluated, and Spark has not kept some of it"

    def idle_s(self, name: str, time: float) -> float:
        """How long a live evaluation has had no tasks; 0 if it has."""
        known = self._live[name]
        return 0.0 if known.feeders else time - known.idle_since

    @property
    def stateful(self) -> list[str]:
        """The live evaluations that may have rows in state."""
        return [name for name, known in self._live.items() if self.stored.get(name, known).stateful]

    @property
    def stateless(self) -> bool:
        """Whether no worker has state, or is loading any."""
        return not self.stateful and not any(epochs.loading for epochs in self.stored.values())

    def knows(self, feeder: FeederJoinedEvent) -> bool:
        """Whether the evaluation of a task is known, live or ended."""
        name = evaluation_of(feeder)
        return name in self._live or name in self._over

    @property
    def feeding(self) -> bool:
        """Whether there are feeders, or a query that may have feeders again."""
        return any(known.feeders or known.streaming for known in self._live.values())
