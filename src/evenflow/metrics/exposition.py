"""Metrics in the form that Prometheus reads: conventional names and units, a small number of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from evenflow.errors import extra
from evenflow.eventlog.reading import DAMAGED
from evenflow.metrics.counts import RegionCounts, RunCounts, WorkerShare
from evenflow.model.entries import ClusterStartedEntry, EventEntry
from evenflow.model.latency import Latencies, middle_ms

with extra("dashboard", "metrics for Prometheus"):
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        InfoMetricFamily,
        Metric,
        SummaryMetricFamily,
    )
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 300.0)
"""Upper ends of the buckets of latency; a row counts with the middle of its own bucket, which is within 9 %."""

OfRegion = Callable[[RegionCounts], float | None]
OfShare = Callable[[WorkerShare], float | None]
Family = type[CounterMetricFamily] | type[GaugeMetricFamily]
REGION: tuple[tuple[Family, str, str, OfRegion], ...] = (
    (CounterMetricFamily, "evenflow_rows", "Rows that came to a region.", lambda r: r.rows),
    (CounterMetricFamily, "evenflow_rows_shed", "Rows dropped on arrival, as Qos(shed=...) allows.", lambda r: r.shed),
    (CounterMetricFamily, "evenflow_rows_late", "Rows that came when time had passed them.", lambda r: r.late),
    (GaugeMetricFamily, "evenflow_feeders", "Spark tasks that feed a region now.", lambda r: r.feeders),
    (
        GaugeMetricFamily,
        "evenflow_imbalance_ratio",
        "How busy the busiest worker is over the mean of all; 1 is even.",
        lambda r: r.imbalance,
    ),
    (CounterMetricFamily, "evenflow_moves_refused", "Moves that were not begun.", lambda r: r.refused),
    (CounterMetricFamily, "evenflow_moves_undone", "Movements that were taken back.", lambda r: r.undone),
    (CounterMetricFamily, "evenflow_units_moved", "Units that were moved.", lambda r: r.units_moved),
    (CounterMetricFamily, "evenflow_state_moved_bytes", "State that was moved.", lambda r: r.bytes_moved),
    (CounterMetricFamily, "evenflow_weights_set", "How often weights were changed.", lambda r: r.weights_set),
    (GaugeMetricFamily, "evenflow_state_bytes", "State of a keyed operator.", lambda r: r.state_bytes),
    (GaugeMetricFamily, "evenflow_graph_energy", "Potential energy of a graph as placed.", lambda r: r.energy),
)
SHARE: tuple[tuple[Family, str, str, OfShare], ...] = (
    (CounterMetricFamily, "evenflow_worker_rows", "Rows that a worker did for a region.", lambda s: s.rows),
    (CounterMetricFamily, "evenflow_worker_busy_seconds", "Service time of a worker.", lambda s: s.busy_s),
    (CounterMetricFamily, "evenflow_worker_blocked_seconds", "Time feeders were blocked by it.", lambda s: s.blocked_s),
    (GaugeMetricFamily, "evenflow_worker_weight_ratio", "A worker's share of an ordered region.", lambda s: s.weight),
    (GaugeMetricFamily, "evenflow_worker_units", "Units that a worker owns.", lambda s: s.units),
    (GaugeMetricFamily, "evenflow_worker_resident_bytes", "State that it has in memory.", lambda s: s.resident),
    (GaugeMetricFamily, "evenflow_worker_spilled_bytes", "State that it has on disk.", lambda s: s.spilled),
)


class Metrics(Collector):
    """Counts entries of an event log; a collector for a registry of one's own, or `exposition` for a page."""

    def __init__(self) -> None:
        self.counts = RunCounts()
        self.unread = 0
        """Entries that could not be counted."""
        self.skipped = 0
        """Lines that were no entries at all; whoever reads the log sets it."""

    def add(self, entries: Iterable[EventEntry]) -> None:
        """Count entries, each once and in their order; of one that makes no sense, only that there was one."""
        for entry in entries:
            try:
                if isinstance(entry, ClusterStartedEntry):  # another run: nothing of the last one holds
                    self.counts = RunCounts()
                self.counts.add(entry)
            except DAMAGED:
                self.unread += 1

    def exposition(self) -> bytes:
        """What is served at /metrics, with CONTENT_TYPE."""
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """All metrics as they are now."""
        yield from _cluster(self.counts)
        about = "Lines and entries that are damaged or of another version."
        yield CounterMetricFamily("evenflow_entries_unread", about, value=self.unread + self.skipped)
        regions = list(self.counts.regions.items())
        for family, name, about, of in REGION:
            yield _family(family, name, about, ["region"], (([each], of(told)) for each, told in regions))
        yield from _latency(regions)
        for family, name, about, part in SHARE:
            shares = (
                ([each, str(worker)], part(share))
                for each, told in regions
                for worker, share in sorted(told.shares.items())
            )
            yield _family(family, name, about, ["region", "worker"], shares)


def _family(
    family: Any, name: str, about: str, labels: list[str], values: Iterable[tuple[list[str], float | None]]
) -> Metric:
    made = family(name, about, labels=labels)
    for label, value in values:
        if value is not None:
            made.add_metric(label, float(value))
    return made  # type: ignore[no-any-return]


def _cluster(counts: RunCounts) -> Iterator[Metric]:
    if counts.about:
        yield InfoMetricFamily("evenflow_cluster", "The cluster that wrote the log.", counts.about)
    workers = sorted(counts.workers.items())
    figures: list[tuple[Any, str, str, Callable[[int], float | None]]] = [
        (GaugeMetricFamily, "evenflow_worker_up", "1 while a worker serves.", lambda w: counts.workers[w].live),
        (
            GaugeMetricFamily,
            "evenflow_worker_utilisation_ratio",
            "Share of its time that a worker is busy, with all regions.",
            counts.utilisation,
        ),
        (
            CounterMetricFamily,
            "evenflow_worker_restarts",
            "How often a worker was started again.",
            lambda w: counts.workers[w].restarts,
        ),
        (
            GaugeMetricFamily,
            "evenflow_worker_memory_budget_bytes",
            "State that a worker may keep in memory.",
            lambda w: counts.workers[w].memory or None,
        ),
    ]
    for family, name, about, of in figures:
        yield _family(family, name, about, ["worker"], (([str(worker)], of(worker)) for worker, _ in workers))
    troubles = (([kind], count) for kind, count in counts.troubles.items())
    yield _family(CounterMetricFamily, "evenflow_troubles", "Entries that tell of a problem.", ["event"], troubles)
    if counts.at:
        about = "When the latest entry was written."
        yield GaugeMetricFamily("evenflow_last_event_timestamp_seconds", about, value=counts.at)


def _latency(regions: list[tuple[str, RegionCounts]]) -> Iterator[Metric]:
    latency = HistogramMetricFamily("evenflow_row_latency_seconds", "How long rows took.", labels=["region"])
    moves = CounterMetricFamily("evenflow_moves", "Movements that began.", labels=["region", "reason"])
    pause = SummaryMetricFamily("evenflow_move_pause_seconds", "How long units that moved stood.", labels=["region"])
    durable = SummaryMetricFamily(
        "evenflow_task_durable_seconds", "How long tasks waited until their rows were durable.", labels=["region"]
    )
    for name, told in regions:
        if told.latencies:
            latency.add_metric([name], _buckets(told.latencies), told.latencies.total_s)
        for reason, count in sorted(told.moves.items()):
            moves.add_metric([name, reason], count)
        if told.movements:
            pause.add_metric([name], told.movements, told.pause_s)
        if told.durable:
            durable.add_metric([name], told.durable, told.durable_s)
    yield from (latency, moves, pause, durable)


def _buckets(latencies: Latencies) -> list[tuple[str, float]]:
    """Rows up to each of BOUNDS_S, and all of them."""
    told = [
        (str(bound), float(sum(n for bucket, n in latencies.rows.items() if middle_ms(bucket) <= bound * 1e3)))
        for bound in BOUNDS_S
    ]
    return [*told, ("+Inf", float(sum(latencies.rows.values())))]
