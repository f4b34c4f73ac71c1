"""Evaluations: which feeders may apply rows to which state, so that none is applied twice, or to half of the state.

An evaluation is one use of one keyed operator's state: a streaming query, batch after batch; or, for a batch DataFrame,
one run of one Spark stage, with fresh state. Without a store nothing can be taken back. So a task whose rows are in
state already, wholly or in part, may not come again, and a query whose state is lost or never was here may not go on.
With a store, a query's batches can be run again: see `epochs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from evenflow.control.epochs import Epochs
from evenflow.control.events import FIRST_SHARE, FeederJoined, Peer

IDLE_S = 60.0
"""State of a batch evaluation that nobody has fed for this long is dropped."""
AWAITED_S = 600.0
"""The same where rows wait for ticks that have not come: other parts of Spark's plan may be done before them."""
REMEMBERED = 1000
"""Evaluations whose end is remembered, so that latecomers are refused and not given fresh state."""


@dataclass(slots=True)
class Evaluation:
    """One use of the operator's state."""

    id: str
    streaming: bool
    feeders: set[Peer] = field(default_factory=set)
    epoch: int = 0
    begun: set[int] = field(default_factory=set)
    """Partitions of the present epoch whose rows went into state."""
    stateful: bool = False
    """Whether any rows of it are in state; of a query whose state is stored, its epochs say."""
    idle_since: float = 0.0
    awaited: bool = False
    """Whether its rows wait for ticks of which none has come."""


class Evaluations:
    """All evaluations of one region."""

    def __init__(self, durable_units: int = 0) -> None:
        self._durable_units = durable_units
        """How many units queries store; 0 if there is no store."""
        self.stored: dict[str, Epochs] = {}
        """The live queries whose state is stored."""
        self._live: dict[str, Evaluation] = {}
        self._over: dict[str, str] = {}

    @property
    def ids(self) -> list[str]:
        """The live ones."""
        return list(self._live)

    def register(self, feeder: FeederJoined) -> str:
        """A task has started, which may or may not have rows; why it must not, or nothing."""
        name = evaluation_of(feeder)
        if name in self._over:
            return self._over[name]
        streaming = bool(feeder.query)
        known = self._live.get(name)
        if known is None:
            if isinstance(feeder.saved, str):
                return feeder.saved
            if streaming and not feeder.first and feeder.saved is None:
                return (
                    f"batch {feeder.epoch} of query {feeder.query} comes to a cluster that has no state of the batches "
                    "before it: start the query with a new checkpointLocation"
                )
            known = self._live[name] = Evaluation(name, streaming)
            if streaming and self._durable_units:
                self.stored[name] = Epochs(self._durable_units, feeder.saved)
        if name in self.stored:
            why = self.stored[name].join(feeder)
            if not why:
                known.feeders.add(feeder.peer)
            return why
        if feeder.epoch < known.epoch:
            return self._again(feeder)
        if feeder.epoch > known.epoch:
            known.epoch = feeder.epoch
            known.begun.clear()
        known.feeders.add(feeder.peer)
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
        if feeder.epoch != known.epoch or feeder.partition in known.begun:
            known.feeders.discard(feeder.peer)
            return self._again(feeder)
        known.begun.add(feeder.partition)
        known.stateful = True
        known.awaited = feeder.kinds > 1 and feeder.partition < FIRST_SHARE
        return ""

    def _again(self, feeder: FeederJoined) -> str:
        return (
            f"partition {feeder.partition} of {_what(feeder)} is here again (attempt {feeder.attempt}), and its rows "
            "are in the operator's state already, which cannot be taken back. If a DataFrame is used more than once, "
            "in foreachBatch or in a union with itself, persist() it first; if a task failed, start again "
            "from the beginning"
        )

    def leave(self, feeder: FeederJoined, time: float, begun: bool, ended: bool) -> str:
        """A task is over; if it broke off with some of its rows applied, why the evaluation cannot go on."""
        known = self._live.get(evaluation_of(feeder))
        if known is None or feeder.peer not in known.feeders:
            return ""
        known.feeders.discard(feeder.peer)
        known.idle_since = time
        if known.id in self.stored:
            return self.stored[known.id].leave(feeder, begun)
        if begun and not ended and known.streaming:
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
        self._over[name] = why
        while len(self._over) > REMEMBERED:
            del self._over[next(iter(self._over))]
        return known.feeders if known else set()

    def idle(self, time: float) -> Iterator[str]:
        """Batch evaluations that seem to be over."""
        for known in self._live.values():
            patience = AWAITED_S if known.awaited else IDLE_S
            if not known.streaming and not known.feeders and time - known.idle_since > patience:
                yield known.id

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


def evaluation_of(feeder: FeederJoined) -> str:
    """The evaluation a task belongs to."""
    return f"query {feeder.query}" if feeder.query else f"stage {feeder.stage}"


def _what(feeder: FeederJoined) -> str:
    return f"batch {feeder.epoch} of query {feeder.query}" if feeder.query else f"stage {feeder.stage}"
