"""Histograms of latencies: eight buckets for each doubling, from a microsecond on, each within 9 % of its middle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from typing import Annotated

from msgspec import Meta, Struct, ValidationError, convert

STEPS = 8
"""Buckets for each doubling."""
MOST_BUCKETS = 400
"""The last bucket ends after thirty years."""

Bucket = Annotated[int, Meta(ge=0, le=MOST_BUCKETS - 1)]
Rows = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Meta(ge=0, le=1e300)]


def bucket_of(seconds: float) -> int:
    """The bucket of a latency."""
    return max(0, min(MOST_BUCKETS - 1, int(log2(max(seconds, 1e-6) * 1e6) * STEPS)))


def middle_ms(bucket: int) -> float:
    """The middle of a bucket, in milliseconds."""
    return float(2 ** ((bucket + 0.5) / STEPS) * 1e-3)


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """How long rows took, in ms.

    In ordered and keyed regions: from a row's arrival at its feeder until its results leave the feeder. In a graph:
    each result, from the birth of the youngest row that contributed until the endpoint.
    """

    rows: int
    mean: float
    p50: float
    p99: float


class Latencies(Struct, frozen=True, forbid_unknown_fields=True):
    """A histogram of latencies: rows by bucket, and the seconds of all of them together.

    Histograms are added, of several feeders say; the difference of two that grew is that of the time between them.
    """

    rows: Annotated[dict[Bucket, Rows], Meta(max_length=MOST_BUCKETS)] = {}
    total_s: Seconds = 0.0

    def __add__(self, other: Latencies) -> Latencies:
        rows = dict(self.rows)
        for bucket, count in other.rows.items():
            rows[bucket] = rows.get(bucket, 0) + count
        return Latencies(rows, self.total_s + other.total_s)

    def __sub__(self, earlier: Latencies) -> Latencies:
        grown = {bucket: count - earlier.rows.get(bucket, 0) for bucket, count in self.rows.items()}
        rows = {bucket: count for bucket, count in grown.items() if count > 0}
        return Latencies(rows, max(0.0, self.total_s - earlier.total_s) if rows else 0.0)

    def __bool__(self) -> bool:
        return any(self.rows.values())

    @property
    def summary(self) -> LatencySummary | None:
        """What the histogram says; None if it is empty."""
        return summarised(self.rows, self.total_s)

    @property
    def summary_ms(self) -> dict[str, float]:
        """The summary for logs and reports, in milliseconds; empty if there were no rows."""
        found = self.summary
        return {} if found is None else {"mean": found.mean, "p50": found.p50, "p99": found.p99}

    @classmethod
    def read(cls, entry: Mapping[str, object]) -> Latencies:
        """The histogram in an entry of the event log, as it is written."""
        buckets, total_s = entry["buckets"], entry["total_s"]
        if not isinstance(buckets, Mapping) or not isinstance(total_s, int | float):
            raise TypeError(f"no histogram of latencies: buckets {buckets!r:.50}, total_s {total_s!r:.50}")
        told = {"rows": {int(bucket): rows for bucket, rows in buckets.items()}, "total_s": float(total_s)}
        try:
            return convert(told, cls)
        except ValidationError as error:
            raise ValueError(f"no histogram of latencies: {error}") from None


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
