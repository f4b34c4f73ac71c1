"""The workers as the event log tells of them: where they are, whether they live, and what they do."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from evenflow.dashboard.pace import RECENT_S, Pace
from evenflow.model.entries import (
    EventEntry,
    ExecutorsEntry,
    MemorySetEntry,
    WorkerJoinedEntry,
    WorkerLostEntry,
    WorkerStoppedEntry,
)

MOST = 1 << 62
"""Counts are smaller."""
DRIVER = "driver"
"""The executor of a session without others: all workers stay on it."""
STALE_S = 4.0
"""Figures of a region that has told nothing for so long are no longer those of now."""


@dataclass(slots=True)
class LoadShown:
    """What one worker does for one region."""

    busy: Pace = field(default_factory=Pace)
    """Seconds of service."""
    rows: Pace | None = None
    """None if they are not counted by worker."""
    row_s: float | None = None
    """Seconds of service a row, when there were rows last."""
    queue: float | None = None
    """Rows that were sent to it and not answered; None if that is not known."""
    queued: float = float("-inf")
    """When that was told."""

    def waits(self, at: float, rows: float) -> None:
        """So many rows are sent to it and not answered."""
        self.queue, self.queued = rows, at

    def add(self, at: float, seconds: float, busy_s: float, rows: float | None) -> None:
        """What it did in the last so many seconds; `rows` are None if they are not counted."""
        self.busy.add(at, busy_s, seconds)
        if rows is not None:
            self.rows = self.rows or Pace()
            self.rows.add(at, rows, seconds)
            self.row_s = busy_s / rows if rows else self.row_s


@dataclass(slots=True)
class WorkerState:
    """One worker, in its present life or its last."""

    id: int
    state: str = "starting"
    host: str = ""
    pid: int = 0
    executor: str = ""
    incarnation: int = 0
    why: str = ""
    """Why it was lost; empty while it lives."""
    memory: int = 0
    resident: int = 0
    spilled: int = 0
    pending: int = 0
    loads: dict[str, LoadShown] = field(default_factory=dict)
    """By region."""
    rested: float = float("-inf")
    """When what it did for a region was forgotten last."""

    def load(self, region: str) -> LoadShown:
        """What it does for a region."""
        found = self.loads.get(region)
        if found is None:
            found = self.loads[region] = LoadShown(Pace(self.rested))
        return found

    def lately(self, now: float) -> list[LoadShown]:
        """What it does for the regions that have told of it of late."""
        return [load for load in self.loads.values() if load.busy.lives(now)]

    def utilisation(self, now: float, seconds: float = RECENT_S) -> float | None:
        """Share of its time that is service time, over all regions; None if none has told of late."""
        told = self.lately(now)
        return min(1.0, sum(load.busy.recent(now, seconds) for load in told)) if told else None

    def rows_s(self, now: float) -> float | None:
        """Rows a second, over all regions that count them."""
        told = [load.rows.recent(now) for load in self.lately(now) if load.rows is not None]
        return sum(told) if told else None

    def queue(self, now: float) -> float | None:
        """Rows that were sent to this worker and not answered yet, by recent figures; None if there are none."""
        told = [load.queue for load in self.loads.values() if load.queue is not None and now - load.queued <= STALE_S]
        return sum(told) if told else None

    def step(self, time: float) -> float | None:
        """As `utilisation`, of the step of the history that ends now; what is over for long is forgotten."""
        shares = {region: load.busy.step(time) for region, load in self.loads.items()}
        self.rested = time if any(not load.busy.lives(time) for load in self.loads.values()) else self.rested
        self.loads = {region: load for region, load in self.loads.items() if load.busy.lives(time)}
        told = [share for region, share in shares.items() if share or region in self.loads]
        return min(1.0, sum(told)) if told else None


class WorkerTable:
    """All workers, by their number."""

    def __init__(self) -> None:
        self.all: dict[int, WorkerState] = {}

    def get(self, number: int) -> WorkerState:
        """The worker of a number."""
        found = self.all.get(number)
        if found is None:
            found = self.all[number] = WorkerState(number)
        return found

    @property
    def live(self) -> list[WorkerState]:
        """Those that serve."""
        return [worker for worker in self.all.values() if worker.state == "live"]

    def apply(self, entry: EventEntry) -> None:
        """Take in an entry, if it is about workers."""
        match entry:
            case WorkerJoinedEntry():
                worker = self.get(entry.worker)
                again = worker.incarnation != entry.incarnation
                worker.state, worker.why, worker.incarnation = "live", "", entry.incarnation
                worker.host, worker.pid = entry.host, entry.pid
                if again:
                    worker.executor = worker.executor if worker.executor == DRIVER else ""
                    worker.loads.clear()
            case ExecutorsEntry():
                for number, executor in entry.workers.items():
                    self.get(number).executor = executor
            case WorkerLostEntry() | WorkerStoppedEntry():
                worker = self.get(entry.worker)
                worker.state = "lost" if isinstance(entry, WorkerLostEntry) else "stopped"
                worker.why = entry.reason
                worker.loads.clear()
            case MemorySetEntry():
                worker = self.get(entry.worker)
                worker.memory, worker.resident = whole(entry.memory), whole(entry.resident)
                worker.spilled = whole(entry.spilled)

    def shown(self, now: float, speeds: dict[int, float], tones: dict[int, str]) -> list[dict[str, object]]:
        """What the page shows of them; `speeds` are relative to the usual worker, `tones` of those that stand out."""
        return [
            {
                "id": worker.id,
                "state": worker.state,
                "executor": worker.executor,
                "host": worker.host,
                "pid": worker.pid,
                "restarts": max(0, worker.incarnation - 1),
                "why": worker.why[:300],
                "utilisation": rounded(worker.utilisation(now), 4),
                "tone": tones.get(worker.id, ""),
                "rows_s": rounded(worker.rows_s(now), 1),
                "queue": rounded(worker.queue(now), 0),
                "speed": rounded(speeds.get(worker.id), 3),
                "memory": worker.memory,
                "resident": worker.resident,
                "spilled": worker.spilled,
                "pending": worker.pending,
            }
            for worker in sorted(self.all.values(), key=lambda each: each.id)
        ]


def whole(told: Any) -> int:
    """A count in an entry; what is too large to be one is refused."""
    found = int(told)
    if not -MOST < found < MOST:
        raise OverflowError(f"a count of {found:.3e} is none of ours")
    return found


def rounded(figure: float | None, digits: int) -> float | None:
    """A figure for the page; one that is no number is not known."""
    return None if figure is None or not isfinite(figure) else round(figure, digits) if digits else float(round(figure))
