"""`evenflow plot LOG`: an event log as a figure, like Figures 8, 11 and 12 of ordered-regions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evenflow.cli.plots.graph import GraphSeries, draw_graph, graph_series
from evenflow.cli.plots.keyed import KeyedSeries, draw_keyed, grid, keyed_series
from evenflow.cli.plots.latency import LatencySeries, draw_latency, latency_series
from evenflow.errors import InvalidArgument
from evenflow.eventlog.reading import entries_of, read_log, refuse_damaged
from evenflow.model.entries import (
    GraphResultsEntry,
    GraphSampleEntry,
    KeyedSampleEntry,
    MovedEntry,
    PerformanceEntry,
    RegionEntry,
    RegionOpenedEntry,
    SampleEntry,
    WeightsEntry,
)

MOST_PANELS = 12
"""If there are more connections, heat maps are drawn instead of one panel for each."""
WEIGHT, RATE = "#1f5fa8", "#d1602b"


@dataclass(frozen=True)
class Series:
    """An ordered region over time: one row a sample, one column a worker. Seconds count from the first sample."""

    region: str
    balance: str
    workers: list[int]
    seconds: np.ndarray
    weights: np.ndarray
    """Shares in percent."""
    rates: np.ndarray
    """Blocking rates: seconds blocked in a second of feeding."""
    rows_per_s: np.ndarray
    cluster_seconds: np.ndarray
    clusters: np.ndarray
    """The cluster of each worker at each decision; empty if there was no clustering."""
    latency: LatencySeries


SAMPLES = (SampleEntry, KeyedSampleEntry, GraphSampleEntry)
DRAWN = (*SAMPLES, RegionOpenedEntry, WeightsEntry, PerformanceEntry, GraphResultsEntry, MovedEntry)


def read(path: Path, region: str | None = None) -> Series | KeyedSeries | GraphSeries:
    """The series of one region in an event log; of the first region if none is named."""
    entries = read_log(path)
    refuse_damaged(path, entries, DRAWN)
    sampled = [entry for entry in entries if isinstance(entry, SAMPLES)]
    names = list(dict.fromkeys(entry.region for entry in sampled))
    if not names:
        raise InvalidArgument(f"{path} has no samples: was anything fed while it was written?")
    if region is not None and region not in names:
        raise InvalidArgument(f"{path} has no region {region!r}: it has {', '.join(names)}")
    name = region or names[0]
    mine = [entry for entry in entries_of(entries, RegionEntry) if entry.region == name]
    if entries_of(mine, GraphSampleEntry):
        return graph_series(name, mine)
    return keyed_series(name, mine) if entries_of(mine, KeyedSampleEntry) else _ordered_series(name, mine)


def _ordered_series(name: str, mine: list[RegionEntry]) -> Series:
    samples, opened = entries_of(mine, SampleEntry), next(iter(entries_of(mine, RegionOpenedEntry)), None)
    workers = sorted({c.worker for entry in samples for c in entry.connections})
    times, parts = np.array([entry.time for entry in samples]), [entry.connections for entry in samples]
    grids = {key: grid(parts, workers, key) for key in ("weight", "blocked_s")}
    fed = np.diff([0.0, *(entry.feeding_s for entry in samples)])
    blocked = np.diff(np.vstack([np.zeros(len(workers)), grids["blocked_s"]]), axis=0)
    rows = np.diff([0, *(entry.rows_out for entry in samples)])
    spans = np.diff([times[0] - max(1e-9, fed[0]), *times])
    decided = [entry for entry in entries_of(mine, WeightsEntry) if entry.detail.get("clusters")]
    clusters = np.array([_ranked(entry, workers) for entry in decided], dtype=int)
    return Series(
        region=name,
        balance=(opened and opened.balance) or "",
        workers=workers,
        seconds=times - times[0],
        weights=grids["weight"] / 10,
        rates=np.clip(blocked, 0, None) / np.maximum(fed, 1e-9)[:, None],
        rows_per_s=rows / np.maximum(spans, 1e-9),
        cluster_seconds=np.array([entry.time for entry in decided]) - times[0],
        clusters=clusters,
        latency=latency_series(entries_of(mine, PerformanceEntry), times[0]),
    )


def draw(series: Series | KeyedSeries | GraphSeries) -> Figure:
    """Panels like Figure 8 for few connections, heat maps like Figure 12 for many; keyed and graphs have their own."""
    if isinstance(series, GraphSeries):
        return draw_graph(series)
    if isinstance(series, KeyedSeries):
        return draw_keyed(series)
    return _panels(series) if len(series.workers) <= MOST_PANELS else _maps(series)


def _panels(series: Series) -> Figure:
    count = len(series.workers)
    figure = Figure(figsize=(9, 1.6 * (count + 2) + 0.6), layout="constrained")
    axes = figure.subplots(count + 2, 1, sharex=True)
    top = max(5.0, float(series.weights.max()) * 1.08)
    highest = max(0.05, float(series.rates.max()) * 1.08)
    for place, worker in enumerate(series.workers):
        left: Axes = axes[place]
        left.step(series.seconds, series.weights[:, place], where="post", color=WEIGHT)
        left.set_ylim(0, top)
        left.set_ylabel("weight (%)", color=WEIGHT)
        left.set_title(f"worker {worker}", loc="left", fontsize=9)
        right = left.twinx()
        right.plot(series.seconds, series.rates[:, place], color=RATE, linewidth=1)
        right.set_ylim(0, highest)
        right.set_ylabel("blocking (s/s)", color=RATE)
    _throughput(axes[-2], series)
    draw_latency(axes[-1], series.latency)
    figure.suptitle(_title(series))
    return figure


def _maps(series: Series) -> Figure:
    clustered = series.clusters.size > 0
    figure = Figure(figsize=(11, 9), layout="constrained")
    grid = figure.add_gridspec(3, 2 if clustered else 1, height_ratios=[3, 1, 1])
    left = figure.add_subplot(grid[0, 0])
    edges = np.append(series.seconds, series.seconds[-1] + 1)
    image = left.pcolormesh(np.arange(len(series.workers) + 1), edges, series.weights, cmap="viridis")
    left.invert_yaxis()
    left.set(xlabel="worker", ylabel="seconds", title="weight (%)")
    figure.colorbar(image, ax=left)
    if clustered:
        right = figure.add_subplot(grid[0, 1])
        edges = np.append(series.cluster_seconds, series.cluster_seconds[-1] + 1)
        top = max(1, int(series.clusters.max()))
        image = right.pcolormesh(
            np.arange(len(series.workers) + 1), edges, series.clusters, cmap="nipy_spectral", vmin=0, vmax=top
        )
        right.invert_yaxis()
        right.set(xlabel="worker", ylabel="seconds", title="cluster, by its mean weight")
        figure.colorbar(image, ax=right)
    _throughput(figure.add_subplot(grid[1, :]), series)
    draw_latency(figure.add_subplot(grid[2, :]), series.latency)
    figure.suptitle(_title(series))
    return figure


def _ranked(entry: WeightsEntry, workers: list[int]) -> list[int]:
    """Each worker's cluster at one decision, numbered by mean weight, so that colours keep their meaning."""
    member = {int(worker): cluster for worker, cluster in entry.detail["clusters"].items()}
    shares: dict[int, list[float]] = {}
    for worker, cluster in member.items():
        shares.setdefault(cluster, []).append(entry.weights.get(worker, 0))
    order = sorted(shares, key=lambda cluster: sum(shares[cluster]) / len(shares[cluster]))
    return [order.index(member[worker]) if worker in member else -1 for worker in workers]


def _throughput(axes: Axes, series: Series) -> None:
    axes.plot(series.seconds, series.rows_per_s, color="black")
    axes.set_ylim(bottom=0)
    axes.set(xlabel="seconds", ylabel="rows/s")


def _title(series: Series) -> str:
    return f"region {series.region}, balance {series.balance}, {len(series.workers)} workers"
