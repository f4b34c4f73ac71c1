"""What `evenflow bench cep` shows: the paper's Table 1, and throughput over time as in its Figures 3 and 4."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from evenflow.bench.cep import Outcome, Setting

SMOOTH_S = 2.0


def table(setting: Setting, outcomes: list[Outcome]) -> Table:
    """A row for each run."""
    title = f"{setting.rows:,} texts, workload {setting.workload}, {setting.cost_us:g} us a row (emulated)"
    shown = Table(title=title)
    for heading in (
        "balance",
        "processed",
        "rows/s",
        "of bound",
        "events",
        "rstd",
        "rebal.",
        "keys moved",
        "rows moved",
    ):
        shown.add_column(heading, justify="left" if heading == "balance" else "right")
    for outcome in outcomes:
        shown.add_row(
            f"{outcome.balance} on {outcome.engines}",
            f"{outcome.processed:,}",
            f"{outcome.rows_per_s:,.0f}",
            f"{outcome.of_bound:.3f}",
            f"{outcome.events:,}" if outcome.correct else f"[red]{outcome.events:,}[/red]",
            f"{outcome.rstd:.1f} %",
            str(outcome.rebalances),
            f"{outcome.keys_moved:,}",
            f"{outcome.rows_moved:,}",
        )
    shown.caption = "processed: when the fastest was done; events in red are not those of one engine"
    return shown


def figure(setting: Setting, outcomes: list[Outcome]) -> Figure:
    """Rows a second over time, and rows through."""
    drawn = Figure(figsize=(9, 6), layout="constrained")
    speed, through = drawn.subplots(2, 1, sharex=True)
    for outcome in outcomes:
        seconds, rows = np.array(outcome.through, float).T
        grid = np.arange(0, seconds[-1], 0.25)
        ahead = np.interp(grid + SMOOTH_S / 2, seconds, rows) - np.interp(grid - SMOOTH_S / 2, seconds, rows)
        spans = np.minimum(grid + SMOOTH_S / 2, seconds[-1]) - np.maximum(grid - SMOOTH_S / 2, 0)
        label = f"{outcome.balance} on {outcome.engines}"
        speed.plot(grid, ahead / spans, label=label)
        through.plot(seconds, rows, label=label)
    speed.set(ylabel="rows/s", ylim=(0, None))
    through.set(ylabel="rows through", xlabel="seconds", ylim=(0, None))
    speed.legend(fontsize=8, ncols=3)
    drawn.suptitle(f"First Story Detection, workload {setting.workload}, {setting.cost_us:g} us a row (emulated)")
    return drawn
