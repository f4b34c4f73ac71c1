"""How long the results of a graph took, second by second, for the event log.

Any part of a run can be looked at afterwards: entries have the results since the last entry, by bucket of latency, and
histograms can be added.
"""

from __future__ import annotations

from collections.abc import Iterator

from evenflow.model.entries import GraphResultsEntry, histogram
from evenflow.model.latency import Latencies
from evenflow.model.messages import FlowProgress


class GraphResults:
    """The results of one graph since the last entry, which is `period` seconds ago or less."""

    def __init__(self, region: str, period: float) -> None:
        self._region, self._period = region, period
        self._latencies = Latencies()
        self._arrived = 0
        self._noted: float | None = None

    def add(self, told: FlowProgress) -> None:
        """Take in a feeder's report of the results that have come to it."""
        self._latencies += told.latencies
        self._arrived += sum(told.arrived.values())

    @property
    def noted(self) -> bool:
        """Whether all results are in the event log."""
        return not self._latencies and not self._arrived

    def note(self, time: float, final: bool = False) -> Iterator[GraphResultsEntry]:
        """The entry for the event log, if it is time for one, or the last moment, and there is anything to tell."""
        if self._noted is None:
            self._noted = time
        if time - self._noted < self._period and not final:
            return
        self._noted = time
        if not self._latencies and not self._arrived:
            return
        arrived, latencies = self._arrived, self._latencies
        self._latencies, self._arrived = Latencies(), 0
        yield GraphResultsEntry(
            time=time,
            region=self._region,
            arrived=arrived,
            results=sum(latencies.rows.values()),
            **histogram(latencies),
        )
