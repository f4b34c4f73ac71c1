"""Buckets of latencies: eight for each doubling, from a microsecond on, so that any is within 9 % of its middle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2

STEPS = 8
"""Buckets for each doubling."""
MOST_BUCKETS = 400
"""The last bucket ends after thirty years."""


def bucket_of(seconds: float) -> int:
    """The bucket of a latency."""
    return max(0, min(MOST_BUCKETS - 1, int(log2(max(seconds, 1e-6) * 1e6) * STEPS)))


def middle_ms(bucket: int) -> float:
    """The middle of a bucket, in milliseconds."""
    return float(2 ** ((bucket + 0.5) / STEPS) * 1e-3)


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """How long results took, from the birth of the youngest row that contributed until the endpoint, in ms."""

    rows: int
    mean: float
    p50: float
    p99: float


def summarised(rows: Mapping[int, int], total_s: float) -> LatencySummary | None:
    """What a histogram says; None if it is empty."""
    count = sum(rows.values())
    if not count:
        return None

    def quantile(share: float) -> float:
        seen = 0
        for bucket in sorted(rows):
            seen += rows[bucket]
            if seen >= share * count:
                break
        return middle_ms(bucket)

    return LatencySummary(count, total_s / count * 1e3, quantile(0.5), quantile(0.99))
