"""The event log of a keyed operator as a figure: throughput, latency, each worker's units and use, and the moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from evenflow.cli.plot_latency import LatencySeries, draw_latency, latency_series


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


def keyed_series(name: str, events: list[dict[str, Any]]) -> KeyedSeries:
    """The series of a keyed operator in an event log."""
    mine = [event for event in events if event.get("region") == name]
    samples = [event for event in mine if event["event"] == "keyed-sample"]
    opened: dict[str, Any] = next((event for event in mine if event["event"] == "region-opened"), {})
    workers = sorted({c["worker"] for event in samples for c in event["consumers"]})
    times = np.array([event["time"] for event in samples])
    spans = np.maximum(np.diff(times), 1e-9)
    moves = [event for event in mine if event["event"] == "moved"]
    grids = {key: grid(samples, "consumers", workers, key) for key in ("rows", "units", "busy_s")}
    return KeyedSeries(
        region=name,
        balance=opened.get("balance", ""),
        workers=workers,
        seconds=times[1:] - times[0],
        rows_per_s=np.clip(np.diff(grids["rows"].sum(axis=1)), 0, None) / spans,
        units=grids["units"][1:],
        used=np.clip(np.diff(grids["busy_s"], axis=0), 0, None) / spans[:, None],
        move_seconds=np.array([event["time"] for event in moves]) - times[0],
        move_units=np.array([len(event["units"]) for event in moves]),
        latency=latency_series([event for event in mine if event["event"] == "performance"], times[0]),
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


def grid(samples: list[dict[str, Any]], members: str, workers: list[int], key: str) -> np.ndarray:
    """One value of each worker, a column, in each sample, a row; 0 where a worker is not among the sample's members."""
    found = [{c["worker"]: c[key] for c in event[members]} for event in samples]
    return np.array([[row.get(worker, 0.0) for worker in workers] for row in found], dtype=float)
