"""The workers as the event log tells of them: where they are, whether they live, and what they do."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from evenflow.eventlog.standing import LoggedEvent

MOST = 1 << 62
"""Counts are smaller."""
STALE_S = 4.0
"""Figures of a region that has told nothing for so long are no longer those of now."""


@dataclass(slots=True)
class LoadShown:
    """What one worker did for one region, between its last two samples."""

    time: float
    utilisation: float = 0.0
    """Share of the time that was service time."""
    rows_s: float | None = None
    """Rows a second; None if they are not counted by worker."""
    row_s: float | None = None
    """Seconds of service a row; None if there were no rows."""
    queue: float | None = None
    """Rows that were sent to it and not answered; None if that is not known."""


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

    def utilisation(self, now: float) -> float | None:
        """Share of its time that is service time, over all regions; None if none has told of late."""
        told = [load.utilisation for load in self.loads.values() if now - load.time <= STALE_S]
        return min(1.0, sum(told)) if told else None

    def rows_s(self, now: float) -> float | None:
        """Rows a second, over all regions that count them."""
        told = [load.rows_s for load in self.loads.values() if now - load.time <= STALE_S and load.rows_s is not None]
        return sum(told) if told else None

    def queue(self, now: float) -> float | None:
        """Rows that were sent to it and not answered."""
        told = [load.queue for load in self.loads.values() if now - load.time <= STALE_S and load.queue is not None]
        return sum(told) if told else None


class WorkerTable:
    """All workers, by their number."""

    def __init__(self) -> None:
        self.all: dict[int, WorkerState] = {}

    def get(self, number: int) -> WorkerState:
        """The worker of a number."""
        return self.all.setdefault(number, WorkerState(number))

    @property
    def live(self) -> list[WorkerState]:
        """Those that serve."""
        return [worker for worker in self.all.values() if worker.state == "live"]

    def apply(self, entry: LoggedEvent) -> None:
        """Take in an entry, if it is about workers."""
        match entry["event"]:
            case "worker-joined":
                worker = self.get(int(entry["worker"]))
                again = worker.incarnation != entry["incarnation"]
                worker.state, worker.why, worker.incarnation = "live", "", int(entry["incarnation"])
                worker.host, worker.pid = str(entry.get("host", "")), int(entry.get("pid", 0))
                if again:
                    worker.executor = ""
                    worker.loads.clear()
            case "executors":
                for number, executor in entry["workers"].items():
                    self.get(int(number)).executor = str(executor)
            case "worker-lost" | "worker-stopped":
                worker = self.get(int(entry["worker"]))
                worker.state, worker.why = entry["event"].removeprefix("worker-"), str(entry.get("reason", ""))
                worker.loads.clear()
            case "memory-set":
                worker = self.get(int(entry["worker"]))
                worker.memory, worker.resident = whole(entry["memory"]), whole(entry["resident"])
                worker.spilled = whole(entry["spilled"])

    def shown(self, now: float, speeds: dict[int, float]) -> list[dict[str, Any]]:
        """What the page shows of them; `speeds` are relative to the usual worker."""
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
