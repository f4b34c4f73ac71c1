"""An attempt at a batch, as `epochs` sees it: its stages, its partitions, and what of them is durable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.control.events import FeederJoined, Peer
from evenflow.model.checkpoint import NOTHING, Key, Segments

KIND_BITS = 20
"""Partitions of the second stage of an evaluation, if there is one, are numbered from 1 << KIND_BITS on."""


@dataclass(slots=True)
class Attempt:
    """One evaluation of one batch: one Spark stage, or several that share its partitions.

    It is whole when each partition of the operator's input is accounted for: its rows are durable, or it had none.
    """

    number: int
    stage: str
    """The first of its stages."""
    run: str = ""
    before: Key = NOTHING
    """The state it starts from."""
    stages: set[str] = field(default_factory=set)
    running: str = ""
    """The stage whose tasks came last: that of the ticks is none of `stages`, which tell whose attempt a task is of."""
    kept: int | None = None
    """What persists its results, if something does: what was evaluated for one stage is not evaluated again."""
    rdd: int = 0
    """What its first stage computes; 0 if that is not known."""
    numbered: bool = False
    """Whether its tasks have the numbers of the operator's partitions, so that those without rows are known, too."""
    expected: dict[int, int] = field(default_factory=dict)
    """By kind of stage, how many partitions there are."""
    kinds: int = 1
    """How many kinds of stages an evaluation has."""
    feeders: set[Peer] = field(default_factory=set)
    """Tasks that have come, and have not been told that they may end."""
    begun: dict[int, str] = field(default_factory=dict)
    """Partitions whose rows went into state, and the stage of the task that brought them."""
    through: dict[int, Segments] = field(default_factory=dict)
    """Partitions whose rows are durable, and where."""
    empty: dict[int, dict[int, int]] = field(default_factory=dict)
    """By Spark's number of a task and by its tries, how many partitions without rows it has come to the end of.

    Nobody knows the number of a partition without rows; a task may go through several of them, and may be tried again.
    """
    whole: bool = False
    """Whether every partition is accounted for, so that it may count whatever happens from now on."""
    broad: bool = True
    """Whether its stage reads all there is, with more than one task: others are spared if one of them breaks off."""
    noted: bool = False
    """Whether it is in the store that it has begun."""
    waiting: list[Peer] = field(default_factory=list)
    """Tasks that are through and may end once that is so."""
    poisoned: str = ""
    """Why it cannot count any more."""

    @property
    def touched(self) -> bool:
        """Whether anybody may have results of it."""
        return bool(self.begun or self.empty)

    def finish(self, feeder: FeederJoined, segments: Mapping[str, int], rows: bool) -> None:
        """All rows of a task, or of one of its partitions, are durable; or it had none."""
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
        """How much of the batch it has seen, in words."""
        parts = [f"{self._accounted(kind)} of {self.expected.get(kind, 0) or '?'}" for kind in range(self.kinds)]
        return " and ".join(parts)

    @property
    def segments(self) -> Segments:
        """All segments of its log."""
        most: Segments = {}
        for segments in self.through.values():
            for writer, count in segments.items():
                most[writer] = max(count, most.get(writer, 0))
        return most
