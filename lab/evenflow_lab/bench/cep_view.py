"""The output of `evenflow bench cep`: the paper's Table 1, and throughput over time as in its Figures 3 and 4."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from evenflow_lab.bench import latency
from evenflow_lab.bench.cep import CepResult, CepSetting
from evenflow_lab.bench.latency import LATENCY

SMOOTH_S = 2.0
"""Rows a second are averaged over this time."""


def table(setting: CepSetting, results: list[CepResult]) -> Table:
    """A row for each run."""
    title = f"{setting.rows:,} texts, workload {setting.workload}, {setting.cost_us:g} us a row (emulated)"
    shown = Table(title=title)
    for heading in (
        "balance",
        "processed",
        "rows/s",
        "of bound",
        "steady",
        "events",
        "rstd",
        "rebal.",
        "keys moved",
        "rows moved",
    ):
        shown.add_column(heading, justify="left" if heading == "balance" else "right")
    for result in results:
        shown.add_row(
            f"{result.balance} on {result.engines}",
            f"{result.processed:,}",
            f"{result.rows_per_s:,.0f}",
            f"{result.of_bound:.3f}",
            f"{result.steady_of_bound:.3f}",
            f"{result.events:,}" if result.correct else f"[red]{result.events:,}[/red]",
            f"{result.rstd:.1f} %",
            str(result.rebalances),
            f"{result.keys_moved:,}",
            f"{result.rows_moved:,}",
        )
    shown.caption = "processed: when the fastest was done; events in red are not those of one engine"
    return shown


def engines(results: list[CepResult]) -> Table:
    """A row for each run: latency of rows, then input rate and latency of each engine."""
    shown = Table(title="by engine: rows/s that came, p50/p99 until they were answered (ms)")
    shown.add_column("balance")
    shown.add_column(LATENCY, justify="right")
    for engine in range(max(result.engines for result in results)):
        shown.add_column(f"engine {engine}", justify="right")
    for result in results:
        cells = [
            f"{one['rows_per_s']:,.0f}, {one.get('p50', 0.0):,.0f}/{one.get('p99', 0.0):,.0f}"
            for one in result.by_engine
        ]
        shown.add_row(f"{result.balance} on {result.engines}", latency.shown(result.latency_ms), *cells)
    return shown


def figure(setting: CepSetting, results: list[CepResult]) -> Figure:
    """Two panels over time: rows a second, and the rows that are through."""
    drawn = Figure(figsize=(9, 6), layout="constrained")
    speed, through = drawn.subplots(2, 1, sharex=True)
    for result in results:
        seconds, rows = np.array(result.through, float).T
        grid = np.arange(0, seconds[-1], 0.25)
        ahead = np.interp(grid + SMOOTH_S / 2, seconds, rows) - np.interp(grid - SMOOTH_S / 2, seconds, rows)
        spans = np.minimum(grid + SMOOTH_S / 2, seconds[-1]) - np.maximum(grid - SMOOTH_S / 2, 0)
        label = f"{result.balance} on {result.engines}"
        speed.plot(grid, ahead / spans, label=label)
        through.plot(seconds, rows, label=label)
    speed.set(ylabel="rows/s", ylim=(0, None))
    through.set(ylabel="rows through", xlabel="seconds", ylim=(0, None))
    speed.legend(fontsize=8, ncols=3)
    drawn.suptitle(f"First Story Detection, workload {setting.workload}, {setting.cost_us:g} us a row (emulated)")
    return drawn
