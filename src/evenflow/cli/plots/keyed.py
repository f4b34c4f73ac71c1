"""The event log of a keyed operator as a figure: throughput, latency, each worker's units and use, and the moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from evenflow.cli.plots.latency import LatencySeries, draw_latency, latency_series
from evenflow.eventlog.reading import entries_of
from evenflow.model.entries import (
    ConnectionPart,
    ConsumerPart,
    HostPart,
    KeyedSampleEntry,
    MovedEntry,
    PerformanceEntry,
    RegionEntry,
    RegionOpenedEntry,
)

OfWorker = ConnectionPart | ConsumerPart | HostPart


@dataclass(frozen=True)
class KeyedSeries:
    """A keyed operator over time: one row a sample, one column a worker. Seconds count from the first sample."""

    region: str
    balance: str
    workers: list[int]
    seconds: np.ndarray
    rows_per_s: np.ndarray
    units: np.ndarray
    used: np.ndarray
    """Busy seconds in a second."""
    move_seconds: np.ndarray
    move_units: np.ndarray
    latency: LatencySeries


def keyed_series(name: str, mine: list[RegionEntry]) -> KeyedSeries:
    """The series of a keyed operator, from its entries in an event log."""
    samples, moves = entries_of(mine, KeyedSampleEntry), entries_of(mine, MovedEntry)
    opened = next(iter(entries_of(mine, RegionOpenedEntry)), None)
    workers = sorted({c.worker for entry in samples for c in entry.consumers})
    times = np.array([entry.time for entry in samples])
    spans = np.maximum(np.diff(times), 1e-9)
    parts = [entry.consumers for entry in samples]
    grids = {key: grid(parts, workers, key) for key in ("rows", "units", "busy_s")}
    return KeyedSeries(
        region=name,
        balance=(opened and opened.balance) or "",
        workers=workers,
        seconds=times[1:] - times[0],
        rows_per_s=np.clip(np.diff(grids["rows"].sum(axis=1)), 0, None) / spans,
        units=grids["units"][1:],
        used=np.clip(np.diff(grids["busy_s"], axis=0), 0, None) / spans[:, None],
        move_seconds=np.array([entry.time for entry in moves]) - times[0],
        move_units=np.array([len(entry.units) for entry in moves]),
        latency=latency_series(entries_of(mine, PerformanceEntry), times[0]),
    )


def draw_keyed(series: KeyedSeries) -> Figure:
    """Five panels over the same seconds."""
    figure = Figure(figsize=(9, 11), layout="constrained")
    speed, latency, used, units, moves = figure.subplots(5, 1, sharex=True)
    draw_latency(latency, series.latency)
    latency.set(xlabel="")
    speed.plot(series.seconds, series.rows_per_s, color="black")
    speed.set(ylabel="rows/s")
    for place, worker in enumerate(series.workers):
        used.plot(series.seconds, series.used[:, place], label=f"worker {worker}")
        units.step(series.seconds, series.units[:, place], where="post")
    used.set(ylabel="busy (s/s)")
    units.set(ylabel="units owned")
    moves.vlines(series.move_seconds, 0, series.move_units, color="#d1602b")
    moves.set(xlabel="seconds", ylabel="units in a move")
    for axes in (speed, used, units, moves):
        axes.set_ylim(bottom=0)
    if len(series.workers) <= 16:
        used.legend(fontsize=8, ncols=4, loc="lower right")
    figure.suptitle(f"region {series.region}, balance {series.balance}, {len(series.workers)} workers")
    return figure


def grid(samples: Sequence[Sequence[OfWorker]], workers: list[int], key: str) -> np.ndarray:
    """One value of each worker, a column, in each sample, a row; 0 where a worker is not in the sample."""
    found = [{each.worker: getattr(each, key) for each in sample} for sample in samples]
    return np.array([[row.get(worker, 0.0) for worker in workers] for row in found], dtype=float)
