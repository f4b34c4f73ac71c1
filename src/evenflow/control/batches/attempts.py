"""An attempt at a batch: its stages, its partitions, and which of them are durable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.control.events import FeederJoinedEvent, Peer, StageFacts
from evenflow.model.checkpoint import NOTHING, AttemptKey, Segments

KIND_BITS = 20
"""Partitions of the second kind of stage, that of the ticks, are numbered from 1 << KIND_BITS on."""


@dataclass(slots=True)
class Attempt:
    """One try to run the tasks of a batch: one Spark stage, or several that share its partitions.

    It is whole when each partition of the operator's input is accounted for: its rows are durable, or it had none.
    """

    number: int
    stage: str
    """The first of its stages."""
    run: str = ""
    before: AttemptKey = NOTHING
    """The batch and attempt whose state it starts from."""
    stages: set[str] = field(default_factory=set)
    running: str = ""
    """The stage whose tasks came last; the stage of the ticks is not in `stages`, which tell a task's attempt."""
    kept: int | None = None
    """The persisted RDD that its results go into; None if there is none."""
    rdd: int = 0
    """The RDD that its first stage computes; 0 if it is not known."""
    numbered: bool = False
    """Whether tasks and the operator's partitions have the same numbers, so that empty partitions are known, too."""
    expected: dict[int, int] = field(default_factory=dict)
    """By kind of stage, the number of partitions."""
    kinds: int = 1
    """The number of kinds of stages: 2 if there are ticks."""
    feeders: set[Peer] = field(default_factory=set)
    """Tasks that have joined and have not been told that they may end."""
    begun: dict[int, str] = field(default_factory=dict)
    """Partitions whose rows went into state, and the stage of the task that brought them."""
    through: dict[int, Segments] = field(default_factory=dict)
    """Partitions whose rows are durable, and the segments that have them."""
    empty: dict[int, dict[int, int]] = field(default_factory=dict)
    """By Spark's number of a task, and by its tries, the number of partitions without rows that it has finished.

    The number of a partition without rows is not known; a task may have several of them, and may be tried again.
    """
    whole: bool = False
    """Whether every partition is accounted for: then it may count, whatever happens from now on."""
    broad: bool = True
    """Whether its stage reads all partitions, with several tasks: if one breaks off, cancelling it saves the others."""
    noted: bool = False
    """Whether the store has the note that it has begun."""
    waiting: list[Peer] = field(default_factory=list)
    """Tasks that are through and may end once it is noted."""
    poisoned: str = ""
    """Why it can no longer count; empty if it can."""
    repeatable: bool = False
    """Whether later attempts repeat it from its log. Where rows are put in order they need not: attempts are alike."""
    repeats: Attempt | None = None
    """The whole attempt whose results it gives again; it has no log, and the other one counts."""
    left: dict[str, int] = field(default_factory=dict)
    """If it repeats another attempt: by worker, the logged rows that had not come again when a task last asked."""

    @classmethod
    def of(cls, number: int, feeder: FeederJoinedEvent, before: AttemptKey) -> Attempt:
        """The new attempt that begins with a task."""
        facts = facts_of(feeder)
        return cls(
            number,
            feeder.stage,
            feeder.run,
            before,
            kept=facts.kept,
            rdd=facts.rdd,
            numbered=facts.partitions == facts.inputs,
            kinds=feeder.kinds,
            repeatable=feeder.kinds == 1,
            broad=facts.whole and facts.tasks > 1,
        )

    def includes(self, feeder: FeederJoinedEvent, in_memory: bool) -> bool:
        """Whether a task belongs to this attempt: by its stage, or because its stage continues the attempt.

        A stage continues it if both compute the same RDD, as the jobs of one `take` do, or persist the operator's
        results in the same RDD. Then they number partitions alike; and if rows are in state, it must be `in_memory`.
        """
        if self.run != feeder.run or feeder.stage in self.stages:
            return self.run == feeder.run
        facts = facts_of(feeder)
        if self.poisoned or self.whole or self.feeders or not (self.numbered and facts.partitions == facts.inputs):
            return False
        if facts.inputs != self.expected.get(0):
            return False
        same = bool(facts.rdd) and facts.rdd == self.rdd
        if not same and (facts.kept is None or facts.kept != self.kept):
            return False
        return not self.begun or in_memory

    @property
    def key_to_load(self) -> int:
        """Its number if workers have to load rows to repeat for it; 0 if any attempt's load will do."""
        return self.number if self.repeats is not None else 0

    @property
    def short(self) -> bool:
        """Whether it is through although some rows of the attempt that it repeats have not come again."""
        return self.whole and self.repeats is not None and (not self.left or any(self.left.values()))

    @property
    def touched(self) -> bool:
        """Whether Spark may have results of it."""
        return bool(self.begun or self.empty)

    def finish(
        self, feeder: FeederJoinedEvent, segments: Mapping[str, int], rows: bool, left: Mapping[str, int] | None = None
    ) -> None:
        """Note that all rows of a task, or of one of its partitions, are durable, or that it had none."""
        for writer, count in (left or {}).items():  # later tasks are told less
            self.left[writer] = min(count, self.left.get(writer, count))
        if rows:
            self.through[feeder.partition] = dict(segments)
        else:
            tries = self.empty.setdefault(feeder.partition, {})
            tries[feeder.task] = tries.get(feeder.task, 0) + 1

    @property
    def complete(self) -> bool:
        """Whether every partition is accounted for now."""
        if self.poisoned or not self.begun.keys() <= self.through.keys():
            return False
        return all(0 < self.expected.get(kind, 0) <= self._accounted(kind) for kind in range(self.kinds))

    def _accounted(self, kind: int) -> int:
        rows = sum(partition >> KIND_BITS == kind for partition in self.through)
        return rows + sum(max(tries.values()) for task, tries in self.empty.items() if task >> KIND_BITS == kind)

    @property
    def seen(self) -> str:
        """How many of the partitions it has finished, in words for messages."""
        parts = [f"{self._accounted(kind)} of {self.expected.get(kind, 0) or '?'}" for kind in range(self.kinds)]
        return " and ".join(parts)

    @property
    def segments(self) -> Segments:
        """By writer, the number of segments of its log."""
        most: Segments = {}
        for segments in self.through.values():
            for writer, count in segments.items():
                most[writer] = max(count, most.get(writer, 0))
        return most


def facts_of(feeder: FeederJoinedEvent) -> StageFacts:
    """Spark's facts about a task's stage; tasks without such facts have been refused before."""
    assert isinstance(feeder.facts, StageFacts)
    return feeder.facts
