"""Jobs that failed and do not run again yet, as the event log tells of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec import UNSET

from evenflow.dashboard.actions import reason_of
from evenflow.dashboard.pace import LAG_S, RECENT_S
from evenflow.model.entries import (
    AttemptPoisonedEntry,
    CheckpointTakenEntry,
    ControllerFailedEntry,
    EvaluationEndedEntry,
    EventEntry,
    FeederFailedEntry,
    FeederJoinedEntry,
    FeederRefusedEntry,
    PerformanceEntry,
    RegionFailedEntry,
    RegionOpenedEntry,
)

MOST_FAILURES = 200
"""Regions whose failure is kept; of more, the oldest are forgotten."""
MOST_REGIONS = 1000
"""Regions of which it is kept what they were called and who fed them; of more, the oldest are forgotten."""
TOGETHER_S = 5.0
"""Failures of one region within so many seconds have one cause, which is told first, or by the user's function."""
CANCELLED_S = 1.0
"""Tasks that begin so soon after a failure belong to the job that failed, and are about to be cancelled."""
WELL_S = RECENT_S + LAG_S
"""A region that was fed again, and has not failed for so many seconds since, runs again."""
LAPSE_S = 300.0
"""Once other jobs have had rows for so many seconds, taken together, a batch job that failed is no headline any more.
A streaming query that failed is: it should run all the time."""


@dataclass(frozen=True, slots=True)
class JobFailure:
    """What went wrong in one region; in the whole cluster, if `region` is empty."""

    region: str
    at: float
    why: str
    by_function: bool = False
    """Whether the user's function raised the error."""
    again: float | None = None
    """Since when the region is fed again."""
    tasks: frozenset[int] = frozenset()
    """The partitions of tasks that failed and were not tried again: without them Spark does not end the job well."""
    others_s: float = 0.0
    """For how many seconds other jobs have had rows since."""

    def stands(self, now: float) -> bool:
        """Whether the region has not run well since."""
        return self.again is None or now - self.again < WELL_S


@dataclass(slots=True)
class _Known:
    """What is known of a region."""

    name: str
    """The one that it was given: "name-2" may be a further use of a name, or the name itself."""
    batch: bool = False
    """Whether what feeds it is no streaming query."""


class JobFailures:
    """The latest failure of each region. A query that was stopped on purpose has not failed."""

    def __init__(self) -> None:
        self._latest: dict[str, JobFailure] = {}
        """By given name: further uses of it count as the same job, started again."""
        self._known: dict[str, _Known] = {}

    def apply(self, entry: EventEntry) -> None:
        """Take in an entry."""
        match entry:
            case RegionOpenedEntry(region=region):
                self._of(region).name = region if entry.given is UNSET else entry.given
            case FeederFailedEntry(region=region, at=at):
                by_function, tasks = entry.worker is not UNSET, frozenset({entry.partition})
                self._failed(JobFailure(region, at, reason_of(entry), by_function, tasks=tasks))
            case FeederRefusedEntry() | AttemptPoisonedEntry() | EvaluationEndedEntry() | RegionFailedEntry():
                self._failed(JobFailure(entry.region, entry.at, reason_of(entry)))
            case ControllerFailedEntry() | CheckpointTakenEntry():
                self._failed(JobFailure("", entry.at, reason_of(entry)))
            case FeederJoinedEntry():
                known = self._of(entry.region)
                known.batch = not entry.query
                self._joined(known.name, entry.at, entry.partition, entry.attempt)
            case PerformanceEntry():
                self._went_well(self._of(entry.region).name, entry.seconds)

    def standing(self, now: float) -> list[JobFailure]:
        """Those of regions that do not run again yet: those of the cluster first, then the latest first."""
        found = [failure for failure in self._latest.values() if failure.stands(now)]
        return sorted(found, key=lambda failure: (failure.region != "", -failure.at))

    def _of(self, region: str) -> _Known:
        known = self._known.pop(region, None) or _Known(region)
        self._known[region] = known
        if len(self._known) > MOST_REGIONS:
            del self._known[next(iter(self._known))]
        return known

    def _joined(self, name: str, at: float, partition: int, attempt: int) -> None:
        """A task has begun: that of a new job, or one that Spark tries again."""
        failure = self._latest.get(name)
        if failure is None or failure.again is not None:
            return
        left = failure.tasks - {partition} if attempt else frozenset()
        runs = not left if attempt else at - failure.at > CANCELLED_S
        if runs:
            self._latest[name] = replace(failure, again=at, tasks=left)
        elif attempt:
            self._latest[name] = replace(failure, tasks=left)

    def _went_well(self, name: str, seconds: float) -> None:
        """A region has had rows: if it runs well, what batch jobs beside it ran into becomes less of a headline."""
        failure = self._latest.get(name)
        if failure is not None and failure.again is None:
            return
        for other, known in list(self._latest.items()):
            if other != name and self._of(known.region).batch:
                self._latest[other] = replace(known, others_s=known.others_s + seconds)
                if known.others_s + seconds >= LAPSE_S:
                    del self._latest[other]

    def _failed(self, failure: JobFailure) -> None:
        name = self._of(failure.region).name
        known = self._latest.pop(name, None)
        if known is not None:
            failure = replace(failure, tasks=known.tasks | failure.tasks)
            if failure.at - known.at <= TOGETHER_S and (known.by_function or not failure.by_function):
                failure = replace(failure, why=known.why, by_function=known.by_function, region=known.region)
        self._latest[name] = failure
        if len(self._latest) > MOST_FAILURES:
            del self._latest[next(iter(self._latest))]
