"""Counters of a graph's feeder since its last report: rows by source, and how long results took.

A result took as long as it is ago that the row that caused it came, which is the youngest that contributed to it
(potential-driven §5.2.2).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.model.latency import Latencies
from evenflow.runtime.feeder.latency_counter import LatencyCounter

Seconds = npt.NDArray[np.float64]


class Progress:
    """Counters since the last report."""

    def __init__(self) -> None:
        self._results = LatencyCounter()
        self._arrived: dict[int, int] = {}
        """By source."""
        self._expected: dict[int, Seconds] = {}
        """By source whose rows have times, when those arrive that have not arrived yet."""

    def add(self, seconds: float, rows: int) -> None:
        """Some results took so long."""
        self._results.add(seconds, rows)

    def arrived(self, source: int, rows: int) -> None:
        """Rows of a source are here."""
        self._arrived[source] = self._arrived.get(source, 0) + rows

    def expect(self, source: int, times: Seconds) -> None:
        """Rows of an emulated source arrive at these times, whether or not there is room for them then."""
        self._expected[source] = np.concatenate([self._expected.get(source, times[:0]), times])

    def pass_time(self, now: float) -> None:
        """Count the rows of emulated sources that have arrived."""
        for source, times in self._expected.items():
            here = int(np.searchsorted(times, now, side="right"))
            self.arrived(source, here)
            self._expected[source] = times[here:]

    @property
    def any(self) -> bool:
        """Whether there is anything to report."""
        return bool(self._results or self._arrived)

    def news(self) -> tuple[dict[int, int], Latencies]:
        """Rows by source, and how long results took. Resets the counters."""
        arrived, self._arrived = {source: rows for source, rows in self._arrived.items() if rows}, {}
        return arrived, self._results.news()
