"""Entries about graphs of operators. The controller writes all of them."""

from __future__ import annotations

from msgspec import UNSET, field

from evenflow.model.entries.base import EntryPart, EventEntry, Maybe, RegionEntry
from evenflow.model.latency import Bucket, Latencies, Rows, Seconds


class PlacedPart(EntryPart, frozen=True, kw_only=True):
    """One operator that is in one place."""

    name: str
    worker: int
    load: float = 0.0
    pe: Maybe[float] = UNSET
    """Its potential energy where it is; left out in large graphs."""


class HostPart(EntryPart, frozen=True, kw_only=True):
    """One worker, as the placement saw it."""

    worker: int
    coefficient: float = 1.0
    """How much longer a row takes there than usual."""
    load: float
    rows_s: Maybe[float] = UNSET
    """Rows a second; older logs have none."""
    queue: Maybe[int] = UNSET
    """Rows that wait there, if the worker told."""


class LinkPart(EntryPart, frozen=True, kw_only=True):
    """What goes from one worker to another."""

    source: int = field(name="from")
    target: int = field(name="to")
    rows_s: float = 0.0
    bytes_s: float = 0.0


class OperatorMovePart(EntryPart, frozen=True, kw_only=True):
    """An operator that is to go to another worker."""

    name: str
    worker: int


class UnitsMovePart(EntryPart, frozen=True, kw_only=True):
    """Units of one operator that are to go to another worker."""

    name: str
    units: int
    """How many."""
    source: int = field(name="from")
    target: int = field(name="to")


class GraphSampleEntry(RegionEntry, frozen=True, kw_only=True, tag="graph-sample"):
    """What the placement of a graph saw in the last period, and what is to move."""

    placement: str = ""
    seconds: Maybe[float] = UNSET
    """Of the period; older logs have none."""
    operators: list[PlacedPart] = []
    hosts: list[HostPart] = []
    links: list[LinkPart] = []
    total_pe: float = 0.0
    """Potential energy of the graph as placed."""
    load_std: float = 0.0
    """Standard deviation of the loads of hosts."""
    level: int | str | None = None
    """What is to move: lanes, units or operators, as `model.graphs.spread` has it."""
    why: str = ""
    moves: list[OperatorMovePart] = []
    units: list[UnitsMovePart] = []
    latency_ms: Maybe[dict[str, float]] = UNSET
    results: Maybe[int] = UNSET
    """Left out, as `latency_ms`, if there were none."""


class GraphResultsEntry(RegionEntry, frozen=True, kw_only=True, tag="graph-results"):
    """The results of a graph since the last such entry, and how long they took."""

    arrived: int = 0
    """Rows that came."""
    results: int = 0
    total_s: Seconds = 0.0
    """Seconds of all rows together."""
    buckets: dict[Bucket, Rows] = {}
    """Rows by bucket of latency (`model.latency`)."""
    latency_ms: Maybe[dict[str, float]] = UNSET
    """Mean, p50 and p99; left out if there are no rows."""

    @property
    def latencies(self) -> Latencies:
        """The histogram, which can be added to others."""
        return Latencies(self.buckets, self.total_s)


class FiltersOrderedEntry(RegionEntry, frozen=True, kw_only=True, tag="filters-ordered"):
    """A worker applies filters that commute in another order."""

    worker: int = 0
    operator: str = ""
    filters: list[str] = []
    cost_us: list[float] = []
    """Microseconds a row, of each filter."""
    selectivity: list[float] = []
    """The share of rows that each filter lets through."""


KINDS: tuple[type[EventEntry], ...] = (GraphSampleEntry, GraphResultsEntry, FiltersOrderedEntry)
