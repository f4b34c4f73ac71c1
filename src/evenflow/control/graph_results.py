"""How long the results of a graph took, second by second, for the event log.

Any part of a run can be looked at afterwards: entries have the results since the last entry, by bucket of latency, and
histograms can be added.
"""

from __future__ import annotations

from collections.abc import Iterator

from evenflow.control.events import Record
from evenflow.model.latency import summarised
from evenflow.model.messages import FlowProgress


class GraphResults:
    """The results of one graph since the last entry, which is `period` seconds ago or less."""

    def __init__(self, region: str, period: float) -> None:
        self._region, self._period = region, period
        self._rows: dict[int, int] = {}
        """By bucket of latency."""
        self._total_s = 0.0
        self._arrived = 0
        self._noted: float | None = None

    def add(self, told: FlowProgress) -> None:
        """A feeder tells what has come to it."""
        for bucket, rows in zip(told.buckets.tolist(), told.bucket_rows.tolist(), strict=True):
            self._rows[bucket] = self._rows.get(bucket, 0) + rows
        self._total_s += told.total_s
        self._arrived += sum(told.arrived.values())

    def note(self, time: float) -> Iterator[Record]:
        """The entry for the event log, if it is time for one and there is anything to tell."""
        if self._noted is None:
            self._noted = time
        if time - self._noted < self._period:
            return
        self._noted = time
        summary = summarised(self._rows, self._total_s)
        if summary is None and not self._arrived:
            return
        fields = {
            "region": self._region,
            "arrived": self._arrived,
            "results": 0 if summary is None else summary.rows,
            "total_s": round(self._total_s, 6),
            "buckets": {str(bucket): self._rows[bucket] for bucket in sorted(self._rows)},
        }
        if summary is not None:
            fields["latency_ms"] = {"mean": summary.mean, "p50": summary.p50, "p99": summary.p99}
        self._rows, self._total_s, self._arrived = {}, 0.0, 0
        yield Record(time, "graph-results", fields)
