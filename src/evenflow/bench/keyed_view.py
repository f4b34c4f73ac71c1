"""The table of `evenflow bench keyed`."""

from __future__ import annotations

from rich.table import Table

from evenflow.bench.keyed import KeyedResult, KeyedSetting


def table(setting: KeyedSetting, results: list[KeyedResult]) -> Table:
    """A row for each run."""
    data = f"{setting.rows:,} rows of {setting.keys:,} keys, " + (
        f"Zipf {setting.zipf:g}" if setting.zipf else "uniform"
    )
    load = f", {setting.cost_us:g} us a row (emulated)" if setting.cost_us else ""
    if setting.slow:
        load += f", {setting.slow} of {setting.workers} workers {setting.factor:g}x slower"
    shown = Table(title=f"{data} on {setting.workers} workers{load}")
    against = ["of bound", "steady"] if setting.cost_us else ["of identity", "of shuffle"]
    for heading in ("balance", "rows/s", *against, "rstd", "moves", "pause p50/p99", "correct"):
        shown.add_column(heading, justify="left" if heading == "balance" else "right")
    for result in results:
        pair = (result.of_bound, result.steady_of_bound) if setting.cost_us else (result.of_identity, result.of_shuffle)
        pause = result.pause_ms
        shown.add_row(
            result.balance,
            f"{result.rows_per_s:,.0f}",
            *("-" if value is None else f"{value:.3f}" for value in pair),
            f"{result.rstd:.1f} %",
            f"{result.moves:,}",
            f"{pause['p50']:.0f} / {pause['p99']:.0f} ms" if pause else "-",
            "yes" if result.correct else "[red]NO[/red]",
        )
    return shown
