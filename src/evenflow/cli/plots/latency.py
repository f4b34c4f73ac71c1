"""How long rows took, over time: the panel that figures of all kinds of regions share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from evenflow.model.entries import GraphResultsEntry, PerformanceEntry


@dataclass(frozen=True)
class LatencySeries:
    """Mean, p50 and p99 of the rows, or results, that left in each period."""

    seconds: np.ndarray
    ms: dict[str, np.ndarray]


def latency_series(entries: Sequence[PerformanceEntry | GraphResultsEntry], zero: float) -> LatencySeries:
    """The series in entries of the event log; seconds count from `zero`. Entries without rows are left out."""
    found = [(entry.time, entry.latency_ms) for entry in entries if entry.latency_ms]
    ms = {what: np.array([told[what] for _, told in found]) for what in ("mean", "p50", "p99")}
    return LatencySeries(np.array([time for time, _ in found]) - zero, ms)


def draw_latency(axes: Axes, series: LatencySeries) -> None:
    """Three lines."""
    for what, style in (("p99", ":"), ("mean", "-"), ("p50", "--")):
        axes.plot(series.seconds, series.ms[what], style, color="black", label=what)
    axes.set(xlabel="seconds", ylabel="latency (ms)")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, loc="upper right")
