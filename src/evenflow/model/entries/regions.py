"""Entries about regions of any kind, and the weights of ordered ones. The controller writes all of them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from evenflow.model.entries.base import EntryPart, EventEntry, Maybe, Number, RegionEntry
from evenflow.model.latency import Bucket, Latencies, Rows, Seconds


class OperatorPart(EntryPart, frozen=True, kw_only=True):
    """One operator of a graph."""

    name: str
    kind: str = ""
    units: int = 1
    endpoint: bool = False
    """Whether its rows are results."""


class RegionOpenedEntry(RegionEntry, frozen=True, kw_only=True, tag="region-opened"):
    """A region is there. One with `operators` is a graph, another one with `units` is keyed, any other is ordered."""

    balance: Maybe[str] = UNSET
    placement: Maybe[str] = UNSET
    """Of a graph, instead of the balance."""
    splitting: Maybe[str] = UNSET
    units: Maybe[int] = UNSET
    weight: Maybe[float] = UNSET
    """Where the cluster has `qos`."""
    sources: Maybe[list[str]] = UNSET
    operators: Maybe[list[OperatorPart]] = UNSET
    edges: Maybe[list[tuple[int, int]]] = UNSET
    """Pairs of operators by number; source s of the graph is -1 - s."""
    given: Maybe[str] = UNSET
    """The name that the user gave, if the region has another one because that was taken."""


class RegionFailedEntry(RegionEntry, frozen=True, kw_only=True, tag="region-failed"):
    """A region was closed because of an error."""

    error: str = ""


class BalanceFailedEntry(RegionEntry, frozen=True, kw_only=True, tag="balance-failed"):
    """A balance has raised an error; this round of this region is lost."""

    balance: str = ""
    error: str = ""


class QosEntry(RegionEntry, frozen=True, kw_only=True, tag="qos"):
    """What a region gets of workers, or what it drops, changes: for a target of latency, or asked for."""

    why: str = ""
    p99_ms: float = 0.0
    target_ms: float | None = None
    weight: float = 1.0
    shed: float = 0.0
    """The share of rows that is dropped."""


class RowsLateEntry(RegionEntry, frozen=True, kw_only=True, tag="rows-late"):
    """Rows came when time had passed them; every 10 s at most."""

    rows: int
    """Since the last such entry."""
    total: int = 0
    inputs: dict[str, int] = {}
    """By input, all so far."""


def histogram(latencies: Latencies) -> dict[str, Any]:
    """The fields of an entry that has these latencies."""
    rows = {bucket: latencies.rows[bucket] for bucket in sorted(latencies.rows)}
    return {"total_s": round(latencies.total_s, 6), "buckets": rows, "latency_ms": latencies.summary_ms or UNSET}


class FeederPart(EntryPart, frozen=True, kw_only=True):
    """The rows of one feeder."""

    partition: int = 0
    rows: int = 0
    rows_per_s: float = 0.0
    latency_ms: dict[str, float] = {}


class AnsweredPart(EntryPart, frozen=True, kw_only=True):
    """The rows that one worker has answered."""

    worker: int
    rows: int
    rows_per_s: float = 0.0
    latency_ms: dict[str, float] = {}


class PerformanceEntry(RegionEntry, frozen=True, kw_only=True, tag="performance"):
    """How many rows came and left in the last second or more, and how long they took."""

    seconds: float = 0.0
    rows_in: int
    shed: int = 0
    """Rows that were dropped."""
    total_s: Seconds = 0.0
    """Seconds of all rows together."""
    buckets: dict[Bucket, Rows] = {}
    """Rows by bucket of latency (`model.latency`)."""
    latency_ms: Maybe[dict[str, float]] = UNSET
    """Mean, p50 and p99; left out if there are no rows."""
    feeders: list[FeederPart] = []
    """Those with the most rows."""
    workers: list[AnsweredPart] = []

    @property
    def latencies(self) -> Latencies:
        """The histogram, which can be added to others."""
        return Latencies(self.buckets, self.total_s)


class ConnectionPart(EntryPart, frozen=True, kw_only=True):
    """Counters of one worker in an ordered region since the worker or the region began."""

    worker: int
    weight: Number = 0
    """Of 1000."""
    blocked_s: float = 0.0
    """Seconds that feeders were blocked by it."""
    rows_sent: int = 0
    rows_done: int
    busy_s: float
    under_way_s: float = 0.0


class SampleEntry(RegionEntry, frozen=True, kw_only=True, tag="sample"):
    """The statistics of an ordered region, once a period while it is fed."""

    feeders: int = 0
    feeding_s: float = 0.0
    """Seconds of all feeders together."""
    rows_out: int = 0
    resent: int = 0
    rerouted: int = 0
    connections: list[ConnectionPart]


class WeightsEntry(RegionEntry, frozen=True, kw_only=True, tag="weights"):
    """The balance of an ordered region has set other weights."""

    weights: dict[int, Number]
    """By worker, of 1000."""
    reason: str = ""
    balance: str = ""
    detail: dict[str, Any] = {}
    """What the balance saw, in its own terms."""


class WeightsRefusedEntry(RegionEntry, frozen=True, kw_only=True, tag="weights-refused"):
    """The weights that a balance wants are not possible."""

    weights: dict[int, Number] = {}
    reason: str = ""
    why: str = ""


KINDS: tuple[type[EventEntry], ...] = (
    RegionOpenedEntry,
    RegionFailedEntry,
    BalanceFailedEntry,
    QosEntry,
    RowsLateEntry,
    PerformanceEntry,
    SampleEntry,
    WeightsEntry,
    WeightsRefusedEntry,
)
