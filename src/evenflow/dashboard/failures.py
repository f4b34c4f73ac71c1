"""Jobs that failed and do not run again yet, as the event log tells of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evenflow.dashboard.actions import reason_of
from evenflow.dashboard.pace import LAG_S, RECENT_S
from evenflow.eventlog.standing import LoggedEvent
from evenflow.model.weights import given_name

MOST_FAILURES = 200
"""Regions whose failure is kept; of more, the oldest are forgotten."""
TOGETHER_S = 5.0
"""JobFailures of one region within so many seconds have one cause, which is told first, or by the user's function."""
CANCELLED_S = 1.0
"""Tasks that begin so soon after a failure belong to the job that failed, and are about to be cancelled."""
WELL_S = RECENT_S + LAG_S
"""A region that was fed again, and has not failed for so many seconds since, runs again."""


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

    def stands(self, now: float) -> bool:
        """Whether the region has not run well since."""
        return self.again is None or now - self.again < WELL_S


class JobFailures:
    """The latest failure of each region. A query that was stopped on purpose has not failed."""

    def __init__(self) -> None:
        self._latest: dict[str, JobFailure] = {}
        """By name; further uses of a name ("name-2") count as the same job, started again."""

    def apply(self, entry: LoggedEvent) -> None:
        """Take in an entry."""
        at, region = float(entry["at"]), str(entry.get("region", ""))
        match entry["event"]:
            case "feeder-failed" | "feeder-refused" | "attempt-poisoned" | "evaluation-ended" | "region-failed":
                self._failed(JobFailure(region, at, reason_of(entry), "worker" in entry))
            case "controller-failed" | "checkpoint-taken":
                self._failed(JobFailure("", at, reason_of(entry)))
            case "feeder-joined":
                name = given_name(region)
                known = self._latest.get(name)
                if known is not None and known.again is None and at - known.at > CANCELLED_S:
                    self._latest[name] = replace(known, again=at)

    def standing(self, now: float) -> list[JobFailure]:
        """Those of regions that do not run again yet: those of the cluster first, then the latest first."""
        found = [failure for failure in self._latest.values() if failure.stands(now)]
        return sorted(found, key=lambda failure: (failure.region != "", -failure.at))

    def _failed(self, failure: JobFailure) -> None:
        name = given_name(failure.region)
        known = self._latest.pop(name, None)
        if known is not None and failure.at - known.at <= TOGETHER_S and (known.by_function or not failure.by_function):
            failure = replace(known, at=failure.at, again=None)
        self._latest[name] = failure
        if len(self._latest) > MOST_FAILURES:
            del self._latest[next(iter(self._latest))]
