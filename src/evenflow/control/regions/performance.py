"""How many rows come to a region and how long they take, by feeder and by worker (cep §3)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from evenflow.model.entries import AnsweredPart, FeederPart, PerformanceEntry, histogram
from evenflow.model.latency import Latencies
from evenflow.model.messages import FeederReport
from evenflow.model.statistics import Performance

PERIOD_S = 1.0
"""Seconds between two entries in the event log."""
SHORTEST = 0.95
"""An entry is due after this part of a period: ticks are never quite on time, and the next one would be too late."""
FEEDERS = 32
"""The most feeders in an entry: the ones with the most rows."""


class PerformanceLog:
    """The performance of one region so far, and entries of the news for the event log."""

    def __init__(self, region: str) -> None:
        self.total = Performance()
        self._region = region
        self._noted: float | None = None
        self._last = self.total
        self._feeders: dict[int, Performance] = {}
        """By partition, the performance that is not in an entry yet."""
        self._answered: dict[int, int] = {}
        """By worker, rows that were answered and are not in an entry yet."""

    def add(self, partition: int, told: FeederReport, workers: Collection[int]) -> None:
        """Add a feeder's report, but for the parts about workers that are gone."""
        known = self._feeders.get(partition, Performance())
        self._feeders[partition] = _grown(known, told)
        by_worker = dict(self.total.workers)
        for worker in told.connections.keys() & set(workers):
            counts = told.connections[worker]
            by_worker[worker] = by_worker.get(worker, Latencies()) + counts.latencies
            self._answered[worker] = self._answered.get(worker, 0) + counts.rows_done
        self.total = replace(_grown(self.total, told), workers=by_worker)

    def forget(self, worker: int) -> None:
        """A worker is gone: counting begins anew for its next incarnation."""
        self.total, self._last = (
            replace(known, workers={each: rows for each, rows in known.workers.items() if each != worker})
            for known in (self.total, self._last)
        )
        self._answered.pop(worker, None)

    def note(self, time: float, final: bool = False) -> Iterator[PerformanceEntry]:
        """The entry for the event log, if it is time for one, or the last moment, and there is anything to tell."""
        if self._noted is None:
            self._noted = time
        seconds = time - self._noted
        if seconds < SHORTEST * PERIOD_S and not (final and seconds > 0):
            return
        self._noted = time
        came = any(known.rows_in or known.shed or known.latencies for known in self._feeders.values())
        if came or any(self._answered.values()):
            yield self._entry(time, seconds)
        self._last, self._feeders, self._answered = self.total, {}, {}

    def _entry(self, time: float, seconds: float) -> PerformanceEntry:
        now, before = self.total, self._last
        taken = sorted(self._feeders.items(), key=lambda item: -item[1].rows_in)[:FEEDERS]
        return PerformanceEntry(
            time=time,
            region=self._region,
            seconds=round(seconds, 6),
            rows_in=now.rows_in - before.rows_in,
            shed=now.shed - before.shed,
            **histogram(now.latencies - before.latencies),
            feeders=[
                FeederPart(partition=partition, **_rates(known.rows_in, seconds, known.latencies))
                for partition, known in sorted(taken)
            ],
            workers=[
                AnsweredPart(
                    worker=worker,
                    **_rates(
                        self._answered.get(worker, 0), seconds, latencies - before.workers.get(worker, Latencies())
                    ),
                )
                for worker, latencies in sorted(now.workers.items())
            ],
        )


def _grown(known: Performance, told: FeederReport) -> Performance:
    rows_in, shed = known.rows_in + told.rows_in, known.shed + told.shed
    return replace(known, rows_in=rows_in, shed=shed, latencies=known.latencies + told.latencies)


def _rates(rows: int, seconds: float, latencies: Latencies) -> dict[str, Any]:
    """The rows of one feeder or worker, their rate, and their latencies; Any, since the values become keywords."""
    return {"rows": rows, "rows_per_s": round(rows / seconds, 1), "latency_ms": latencies.summary_ms}
