"""Batches of streaming queries as the event log tells of them: how long each took, and until it was durable."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from evenflow.model.entries import (
    AttemptPoisonedEntry,
    EventEntry,
    FeederJoinedEntry,
    FeederLeftEntry,
    TaskDurableEntry,
)

KEPT = 240
"""Batches that are kept."""
SHOWN = 60
"""Batches that the page gets."""


@dataclass(slots=True)
class EpochState:
    """One batch of one query in one region, with all attempts at it."""

    region: str
    query: str
    epoch: int
    began: float
    ended: float | None = None
    tasks: int = 0
    open: set[int] = field(default_factory=set)
    """Partitions whose tasks run."""
    attempts: int = 0
    durable: int = 0
    """Tasks whose work is durable."""
    log_s: float = 0.0
    note_s: float = 0.0
    """The longest that a task waited for its log, and for the note of the attempt."""
    failed: str = ""

    def shown(self, now: float) -> dict[str, object]:
        """What the page shows of it."""
        return {
            "region": self.region,
            "query": self.query[:8],
            "epoch": self.epoch,
            "began": round(self.began, 3),
            "seconds": round((self.ended if self.ended is not None else now) - self.began, 3),
            "running": self.ended is None,
            "tasks": self.tasks,
            "attempts": self.attempts,
            "durable": self.durable,
            "durable_s": round(self.log_s + self.note_s, 4),
            "failed": self.failed,
        }


class EpochTable:
    """The latest batches of all streaming queries."""

    def __init__(self) -> None:
        self._all: deque[EpochState] = deque(maxlen=KEPT)
        self._latest: dict[tuple[str, str], EpochState] = {}
        self._feeders: dict[tuple[str, int], EpochState] = {}
        """By region and partition, the batch of the task that runs there."""

    def apply(self, entry: EventEntry) -> None:
        """Take in an entry."""
        match entry:
            case FeederJoinedEntry() if entry.query:
                self._joined(entry)
            case FeederLeftEntry():
                self._left(entry)
            case TaskDurableEntry():
                known = self._latest.get((entry.region, entry.query))
                if known is not None:
                    known.durable += 1
                    known.log_s = max(known.log_s, entry.log_s)
                    known.note_s = max(known.note_s, entry.note_s)
            case AttemptPoisonedEntry():
                query = entry.evaluation.removeprefix("query ")
                known = self._latest.get((entry.region, query))
                if known is not None and known.ended is None:
                    known.failed = entry.why[:300]

    def shown(self, now: float) -> list[dict[str, object]]:
        """The latest batches, the latest first."""
        return [each.shown(now) for each in list(self._all)[: -SHOWN - 1 : -1]]

    def _joined(self, entry: FeederJoinedEntry) -> None:
        region, query, epoch, at = entry.region, entry.query, entry.epoch, entry.at
        known = self._latest.get((region, query))
        if known is None or known.epoch != epoch:
            known = self._latest[region, query] = EpochState(region, query, epoch, at)
            self._all.append(known)
            if len(self._latest) > KEPT:
                self._latest.pop(next(iter(self._latest)))
        if not known.open and known.ended is not None:
            known.attempts += 1
            known.failed = ""
        known.attempts = max(1, known.attempts)
        known.ended = None
        known.tasks = max(known.tasks, len(known.open) + 1)
        known.open.add(entry.partition)
        self._feeders[region, entry.partition] = known

    def _left(self, entry: FeederLeftEntry) -> None:
        known = self._feeders.pop((entry.region, entry.partition), None)
        if known is not None:
            known.open.discard(entry.partition)
            if not known.open:
                known.ended = entry.at
