"""How long results take, from when the row that caused them came until they are at the feeder: a histogram."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.model.latency import bucket_of

Longs = npt.NDArray[np.int64]


class Latencies:
    """Results since the last report, by how long they took."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._total_s = 0.0
        self.rows = 0
        """Results since the last report."""

    def add(self, seconds: float, rows: int) -> None:
        """Some results took so long."""
        bucket = bucket_of(seconds)
        self._rows[bucket] = self._rows.get(bucket, 0) + rows
        self._total_s += seconds * rows
        self.rows += rows

    def news(self) -> tuple[Longs, Longs, float]:
        """Buckets, the results in each, and the seconds of all together; resets."""
        buckets = np.array(sorted(self._rows), np.int64)
        rows = np.array([self._rows[int(each)] for each in buckets], np.int64)
        total, self._rows, self._total_s, self.rows = self._total_s, {}, 0.0, 0
        return buckets, rows, total
