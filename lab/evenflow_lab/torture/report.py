"""The outcomes of schedules: of each one, and of all together."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from evenflow_lab.torture.jobs.check import Verdict
from evenflow_lab.torture.schedule import JobKind, Schedule, from_json

VERDICTS = ("rows", "lost", "doubled", "out_of_order", "wrong")


@dataclass(frozen=True, slots=True)
class ScheduleOutcome:
    """The outcome of one schedule."""

    schedule: Schedule
    verdict: Verdict
    struck: tuple[str, ...] = ()
    """The faults that happened."""
    seconds: float = 0.0
    lives: int = 0
    """The number of drivers."""
    starts: int = 0
    """How often the last driver started the query."""
    refused: tuple[str, ...] = ()
    """Damaged blobs that were refused when they were needed."""
    hang: bool = False
    error: str = ""

    @property
    def good(self) -> bool:
        """Whether the result is the same as without faults."""
        return self.verdict.good and not self.hang and not self.error

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> ScheduleOutcome:
        """An outcome that an interrupted run has written."""
        schedule = from_json(json.dumps(given["schedule"]))
        lists = {name: tuple(given[name]) for name in ("struck", "refused")}
        return cls(**(given | lists | {"schedule": schedule, "verdict": Verdict(**given["verdict"])}))


@dataclass(slots=True)
class TortureReport:
    """The outcomes of all schedules."""

    seed: int
    outcomes: list[ScheduleOutcome] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    """Processes that outlived their drivers."""
    kind: JobKind = "keyed"
    """The kind of the jobs."""

    @property
    def good(self) -> bool:
        """Whether nothing went wrong."""
        return all(outcome.good for outcome in self.outcomes) and not self.leaked

    def to_json(self) -> dict[str, object]:
        """The figures that the command writes."""
        verdicts = [outcome.verdict for outcome in self.outcomes]
        return {
            "seed": self.seed,
            "kind": self.kind,
            "schedules": len(self.outcomes),
            "faults": sum(len(outcome.struck) for outcome in self.outcomes),
            **{name: sum(getattr(verdict, name) for verdict in verdicts) for name in VERDICTS},
            "hangs": sum(outcome.hang for outcome in self.outcomes),
            "errors": sum(bool(outcome.error) for outcome in self.outcomes),
            "refused": sum(len(outcome.refused) for outcome in self.outcomes),
            "leaked": self.leaked,
            "runs": [asdict(outcome) for outcome in self.outcomes],
        }

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> TortureReport:
        """The report that an interrupted run has written."""
        outcomes = [ScheduleOutcome.from_json(run) for run in given["runs"]]
        return cls(given["seed"], outcomes, list(given["leaked"]), given.get("kind", "keyed"))
