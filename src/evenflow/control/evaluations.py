"""Evaluations: which feeders may apply rows to which state, so that none is applied twice, or to half of the state.

An evaluation is one use of one keyed operator's state: a streaming query, batch after batch; or, with fresh state, a
batch DataFrame that is evaluated once. That is

- where its results are persisted, whatever goes into the same persisted RDD, over any number of actions: a partition
  that is there is not evaluated again, and the others go on where it ended;
- the stages of one action that together read some or all partitions (`take`, `show`, `tail`, `toLocalIterator`);
- else one stage, which reads all of them.

Without a store nothing can be taken back. So a task whose rows are in state already, wholly or in part, may not come
again, and a query whose state is lost, is not whole or never was here may not go on. With a store, a query's batches
can be run again: see `epochs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from evenflow.control.epochs import Epochs
from evenflow.control.events import FeederJoined, Peer, StageFacts
from evenflow.errors import SEVERAL_ACTIONS
from evenflow.model.routing import FIRST_SHARE

IDLE_S = 60.0
"""State of a batch evaluation that nobody has fed for this long is dropped."""
AWAITED_S = 600.0
"""The same where rows wait for ticks, as other parts of Spark's plan may be done before them; and, of those that had
theirs, for the newest, as further actions on the same DataFrame may come."""
REMEMBERED = 1000
"""Evaluations whose end is remembered, so that latecomers are refused and not given fresh state."""
PERSIST_ANEW = "unpersist() the DataFrame, persist() it again, and let the first action read all of it, as count() does"
"""What to do where the state is gone that the rest of a persisted DataFrame needs."""


@dataclass(slots=True)
class Evaluation:
    """One use of the operator's state."""

    id: str
    streaming: bool
    feeders: set[Peer] = field(default_factory=set)
    epoch: int = 0
    begun: dict[int, str] = field(default_factory=dict)
    """Partitions of the present epoch whose rows went into state."""
    stateful: bool = False
    """Whether any rows of it are in state; of a query whose state is stored, its epochs say."""
    idle_since: float = 0.0
    awaited: bool = False
    """Whether its rows wait for ticks of which none has come."""
    ticked: bool = False
    """Whether ticks have come in the present epoch: then `inputs` are tasks of these."""
    kept: int | None = None
    """The persisted RDD that its results go into."""
    inputs: int = 0
    """How many partitions there are; 0 if not known."""
    through: set[int] = field(default_factory=set)
    """Partitions of the present epoch that came to their end, as far as their numbers are known."""
    parts: bool = False
    """Whether only stages that read some of the partitions have come in the present epoch."""
    stages: dict[Peer, str] = field(default_factory=dict)
    """By task of a query whose state is stored, its stage."""
    unread: set[tuple[int, int, int]] = field(default_factory=set)
    """Of such a query: partitions of which Spark did not want the rest, each with its batch and the attempt at it."""

    @property
    def complete(self) -> bool:
        """Whether all its partitions are through."""
        through = [each for each in self.through if not self.ticked or each >= FIRST_SHARE]
        return 0 < self.inputs <= len(through)


class Evaluations:
    """All evaluations of one region."""

    def __init__(self, durable_units: int = 0) -> None:
        self._durable_units = durable_units
        """How many units queries store; 0 if there is no store."""
        self.stored: dict[str, Epochs] = {}
        """The live queries whose state is stored."""
        self._live: dict[str, Evaluation] = {}
        self._over: dict[str, str] = {}
        self._forgotten = -1
        """The newest of the persisted RDDs whose evaluation is over and not remembered."""

    @property
    def ids(self) -> list[str]:
        """The live ones."""
        return list(self._live)

    def register(self, feeder: FeederJoined) -> str:
        """A task has started, which may or may not have rows; why it must not, or nothing."""
        if isinstance(feeder.facts, str):
            return feeder.facts
        name = evaluation_of(feeder)
        if name in self._over:
            return self._over[name]
        known = self._live.get(name)
        if known is None:
            why = self._unfit(feeder)
            if why:
                return why
            known = self._live[name] = _new(name, feeder)
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
            return self._again(feeder)
        if feeder.epoch > known.epoch:
            waits = known.awaited and not known.ticked
            if waits or ((known.parts or (known.ticked and known.inputs)) and not known.complete):
                return _in_parts(feeder.query, known.epoch)
            known.epoch, known.parts, known.inputs = feeder.epoch, _partial(feeder), _inputs(feeder)
            known.begun.clear()
            known.through.clear()
            known.ticked = known.awaited = False
        if feeder.own_stage and not known.ticked:  # all its rows are here: what matters now is who gets results
            known.ticked, known.parts = True, _partial(feeder)
            known.inputs, known.kept = _inputs(feeder), None if feeder.query else _kept(feeder)
        known.parts &= _partial(feeder)
        known.feeders.add(feeder.peer)
        return ""

    def _outlive(self, known: Evaluation, feeder: FeederJoined) -> None:
        """Give up tasks whose stage is over: if nobody reads what they give, they notice that late."""
        live = feeder.facts.live if isinstance(feeder.facts, StageFacts) else frozenset()
        over = {peer for peer in known.feeders if live and known.stages[peer] not in live}
        self.stored[known.id].abandon(over)
        known.feeders -= over

    def unread(self, feeder: FeederJoined, begun: bool) -> None:
        """Spark does not want the rest of a task. With a store, its attempt cannot count; others of it may go on."""
        known = self._live.get(evaluation_of(feeder))
        if known is None or known.id not in self.stored or feeder.peer not in known.feeders:
            return
        epochs = self.stored[known.id]
        epochs.abandon({feeder.peer})
        known.feeders.discard(feeder.peer)
        if begun and epochs.attempt is not None:
            now = epochs.epoch, epochs.attempt.number
            known.unread = {each for each in known.unread if each[:2] == now} | {(*now, feeder.partition)}

    def interrupted(self, feeder: FeederJoined) -> str:
        """Why an attempt comes to nothing whose query was stopped, though Spark only said that it wants no more."""
        epochs = self.stored.get(evaluation_of(feeder))
        now = epochs.attempt if epochs is not None else None
        under_way = now is not None and feeder.stage in now.stages and not now.whole and not now.poisoned
        return f"{_what(feeder)} was interrupted" if under_way else ""

    def hopeless(self, feeder: FeederJoined) -> str:
        """Why the attempt that a task belongs to comes to nothing: Spark wants a partition after all; or nothing."""
        known = self._live.get(evaluation_of(feeder))
        epochs = self.stored.get(known.id) if known is not None else None
        if known is None or epochs is None or epochs.attempt is None:
            return ""
        again = (epochs.epoch, epochs.attempt.number, feeder.partition) in known.unread
        if not again or epochs.attempt.stage != feeder.stage:
            return ""
        return f"partition {feeder.partition} of {_what(feeder)} broke off, and is to be evaluated again"

    def _unfit(self, feeder: FeederJoined) -> str:
        """Why a task cannot be the first of its evaluation, or nothing."""
        if isinstance(feeder.saved, str):
            return feeder.saved
        if feeder.query:
            if feeder.first or feeder.saved is not None:
                return ""
            return (
                f"batch {feeder.epoch} of query {feeder.query} comes to a cluster that has no state of the batches "
                "before it: start the query with a new checkpointLocation"
            )
        if feeder.own_stage:
            return f"the rows of {_what(feeder)} are gone, and Spark does not read them again: make the DataFrame anew"
        facts = feeder.facts
        if not isinstance(facts, StageFacts):
            return ""
        if facts.kept is not None:
            forgotten = facts.kept <= self._forgotten
            return f"the state of persisted RDD {facts.kept} was dropped: {PERSIST_ANEW}" if forgotten else ""
        some = f"{facts.tasks} of {facts.partitions} partitions"
        if not facts.whole and not facts.result:
            return (
                f"stage {feeder.stage} evaluates only {some}, since Spark has lost the others' files of a shuffle and "
                "not theirs, and the state after these is gone: make the DataFrame anew and run the action again"
            )
        if not facts.whole and not facts.execution:
            return (
                f"stage {feeder.stage} evaluates only {some}, for an action of an RDD, and nothing tells which others "
                "belong to it: use take, limit or toLocalIterator of the DataFrame, or persist() the DataFrame first"
            )
        return ""

    def begin(self, feeder: FeederJoined) -> str:
        """The task has its first row; why it must not go on, or nothing."""
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
        again = feeder.partition in known.begun and not _repeatable(feeder)
        if feeder.epoch != known.epoch or again:
            known.feeders.discard(feeder.peer)
            return self._again(feeder, tried=known.begun.get(feeder.partition) == stage)
        known.begun[feeder.partition] = stage
        known.stateful = True
        known.awaited = feeder.kinds > 1 and feeder.partition < FIRST_SHARE
        return ""

    def _again(self, feeder: FeederJoined, tried: bool = False) -> str:
        """Why rows that are in state must not come once more; `tried`: in the stage that brought them."""
        if feeder.own_stage:
            return (
                f"rows of {_what(feeder)} were put in order and processed before (attempt {feeder.attempt}), and Spark "
                "has not read them again, so they cannot be once more. "
            ) + ("Start again from the beginning" if tried else f"In foreachBatch, {SEVERAL_ACTIONS}")
        return (
            f"partition {feeder.partition} of {_what(feeder)} is here again (attempt {feeder.attempt}), and its rows "
            "are in the operator's state already, which cannot be taken back. "
        ) + (
            f"Spark has not kept it, or two actions evaluate it at once: {PERSIST_ANEW}"
            if not feeder.query and _kept(feeder) is not None
            else "If a DataFrame is used more than once, in foreachBatch or in a union with itself, persist() it first;"
            " if a task failed, start again from the beginning"
        )

    def leave(self, feeder: FeederJoined, time: float, begun: bool, ended: bool) -> str:
        """A task is over; if it broke off with some of its rows applied, why the evaluation cannot go on."""
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
                f"partition {feeder.partition} of {_what(feeder)} broke off, and some of its rows are in state (in "
                "foreachBatch, persist() the DataFrame before an action that may read only some of its rows)"
            )
        elif begun and known.kept is not None and not _repeatable(feeder):
            return f"partition {feeder.partition} of {_what(feeder)} broke off, and some of its rows are in state"
        return ""

    def may_apply(self, feeder: FeederJoined) -> bool:
        """Whether rows of a task that has begun may go into state: its evaluation, or attempt, is not given up."""
        name = evaluation_of(feeder)
        if name in self.stored:
            now = self.stored[name].attempt
            return now is not None and feeder.peer in now.feeders
        return name in self._live

    def end(self, name: str, why: str) -> set[Peer]:
        """Close an evaluation for good; the feeders it had."""
        known = self._live.pop(name, None)
        self.stored.pop(name, None)
        self._over[name] = why if known is None or known.kept is None else f"{why}: {PERSIST_ANEW}"
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
        """Evaluations that nobody feeds, for RDDs that are not persisted any more."""
        return [known.id for known in self._live.values() if known.kept in rdds and not known.feeders]

    def idle(self, time: float) -> Iterator[tuple[str, str]]:
        """Batch evaluations that are over, or seem to be, and why; if a task comes all the same, it hears that."""
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

    @property
    def stateful(self) -> list[str]:
        """Those that may have rows in state."""
        return [name for name, known in self._live.items() if self.stored.get(name, known).stateful]

    @property
    def stateless(self) -> bool:
        """Whether no state is anywhere, or on its way there."""
        return not self.stateful and not any(epochs.loading for epochs in self.stored.values())

    def knows(self, feeder: FeederJoined) -> bool:
        """Whether the evaluation a task belongs to has been here before."""
        name = evaluation_of(feeder)
        return name in self._live or name in self._over

    @property
    def feeding(self) -> bool:
        """Whether anybody feeds, or a query may go on feeding."""
        return any(known.feeders or known.streaming for known in self._live.values())


RDD = "rdd "
"""How the names of evaluations begin whose results are persisted."""


def evaluation_of(feeder: FeederJoined) -> str:
    """The evaluation a task belongs to."""
    if feeder.query:
        return f"query {feeder.query}"
    facts = feeder.facts
    if isinstance(facts, StageFacts) and not feeder.own_stage:
        if facts.kept is not None:
            return f"{RDD}{facts.kept}"
        if facts.result and facts.execution and not facts.whole:
            return f"action {facts.execution} on rdd {facts.rdd}"
    return f"stage {feeder.stage}"


def _repeatable(feeder: FeederJoined) -> bool:
    """Whether a task may come again: ticks of a batch DataFrame take nothing out of state."""
    return bool(feeder.own_stage) and not feeder.query


def _new(name: str, feeder: FeederJoined) -> Evaluation:
    kept = None if feeder.query else _kept(feeder)
    return Evaluation(
        name, bool(feeder.query), epoch=feeder.epoch, kept=kept, inputs=_inputs(feeder), parts=_partial(feeder)
    )


def _kept(feeder: FeederJoined) -> int | None:
    return feeder.facts.kept if isinstance(feeder.facts, StageFacts) else None


def _inputs(feeder: FeederJoined) -> int:
    return feeder.facts.inputs if isinstance(feeder.facts, StageFacts) else 0


def _partial(feeder: FeederJoined) -> bool:
    return isinstance(feeder.facts, StageFacts) and not feeder.facts.whole


def _what(feeder: FeederJoined) -> str:
    if feeder.query:
        return f"batch {feeder.epoch} of query {feeder.query}"
    kept = _kept(feeder)
    return f"stage {feeder.stage}" if kept is None else f"persisted RDD {kept}"


def _in_parts(query: str, epoch: int) -> str:
    return (
        f"batch {epoch} of query {query} was evaluated in parts: only actions that read some of its partitions were "
        "run on it, so rows are missing in the operator's state. In foreachBatch, run an action that reads all of the "
        "DataFrame, such as a write, and persist() it if others look at it before: start the query again from the "
        "beginning"
    )
