"""One evaluation, and which evaluation a task belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field

from evenflow.control.events import FeederJoinedEvent, Peer, StageFacts
from evenflow.model.routing import FIRST_SHARE

RDD = "rdd "
"""The prefix of the names of evaluations whose results are persisted."""


@dataclass(slots=True)
class Evaluation:
    """One use of a keyed operator's state."""

    id: str
    streaming: bool
    feeders: set[Peer] = field(default_factory=set)
    epoch: int = 0
    begun: dict[int, str] = field(default_factory=dict)
    """Partitions of the present epoch whose rows went into state, and the stage that brought them."""
    stateful: bool = False
    """Whether any of its rows are in state; for a query whose state is stored, `Epochs.stateful` says so instead."""
    idle_since: float = 0.0
    awaited: bool = False
    """Whether its rows wait for ticks, and no tick has come yet."""
    ticked: bool = False
    """Whether ticks have come in the present epoch: then `inputs` counts the tasks of the ticks."""
    kept: int | None = None
    """The persisted RDD that its results go into; None if there is none."""
    inputs: int = 0
    """The number of partitions; 0 if it is not known."""
    through: set[int] = field(default_factory=set)
    """Partitions of the present epoch that have ended, as far as their numbers are known."""
    parts: bool = False
    """Whether only stages that read some of the partitions have come in the present epoch."""
    stages: dict[Peer, str] = field(default_factory=dict)
    """If its state is stored: the stage of each task."""
    unread: set[tuple[int, int, int]] = field(default_factory=set)
    """If its state is stored: batch, attempt and partition where Spark did not want the remaining results."""

    @classmethod
    def of(cls, name: str, feeder: FeederJoinedEvent) -> Evaluation:
        """The new evaluation that begins with a task."""
        return cls(
            name,
            streaming=bool(feeder.query),
            epoch=feeder.epoch,
            kept=None if feeder.query else kept_of(feeder),
            inputs=inputs_of(feeder),
            parts=is_partial(feeder),
        )

    @property
    def complete(self) -> bool:
        """Whether all its partitions have ended."""
        through = [each for each in self.through if not self.ticked or each >= FIRST_SHARE]
        return 0 < self.inputs <= len(through)


def evaluation_of(feeder: FeederJoinedEvent) -> str:
    """The name of the evaluation that a task belongs to."""
    if feeder.query:
        return f"query {feeder.query}"
    facts = feeder.facts
    if isinstance(facts, StageFacts) and not feeder.own_stage:
        if facts.kept is not None:
            return f"{RDD}{facts.kept}"
        if facts.result and facts.execution and not facts.whole:
            return f"action {facts.execution} on rdd {facts.rdd}"
    return f"stage {feeder.stage}"


def repeatable(feeder: FeederJoinedEvent) -> bool:
    """Whether a task may be repeated: ticks of a batch DataFrame do not change state."""
    return bool(feeder.own_stage) and not feeder.query


def kept_of(feeder: FeederJoinedEvent) -> int | None:
    """The persisted RDD that the results of a task go into; None if there is none."""
    return feeder.facts.kept if isinstance(feeder.facts, StageFacts) else None


def inputs_of(feeder: FeederJoinedEvent) -> int:
    """The number of partitions of the operator's input; 0 if it is not known."""
    return feeder.facts.inputs if isinstance(feeder.facts, StageFacts) else 0


def is_partial(feeder: FeederJoinedEvent) -> bool:
    """Whether a task's stage reads only some of the partitions."""
    return isinstance(feeder.facts, StageFacts) and not feeder.facts.whole
