"""Counts how long rows take, in one feeder."""

from __future__ import annotations

from evenflow.model.latency import Latencies, bucket_of


class LatencyCounter:
    """Latencies that are being counted; its size is bounded by the number of buckets."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._total_s = 0.0

    def add(self, seconds: float, rows: int) -> None:
        """Some rows took so long."""
        if rows > 0:
            bucket = bucket_of(seconds)
            self._rows[bucket] = self._rows.get(bucket, 0) + rows
            self._total_s += max(0.0, seconds) * rows

    def __bool__(self) -> bool:
        return bool(self._rows)

    def news(self) -> Latencies:
        """The latencies counted since the last call."""
        news = Latencies(self._rows, self._total_s)
        self._rows, self._total_s = {}, 0.0
        return news
