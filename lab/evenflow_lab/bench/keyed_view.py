"""The table of `evenflow bench keyed`."""

from __future__ import annotations

from rich.table import Table

from evenflow_lab.bench import latency
from evenflow_lab.bench.keyed import KeyedResult, KeyedSetting
from evenflow_lab.bench.latency import LATENCY


def table(setting: KeyedSetting, results: list[KeyedResult]) -> Table:
    """A row for each run."""
    data = f"{setting.rows:,} rows of {setting.keys:,} keys, " + (
        f"Zipf {setting.zipf:g}" if setting.zipf else "uniform"
    )
    load = f", {setting.cost_us:g} us a row (emulated)" if setting.cost_us else ""
    if setting.rotate:
        load += f", one after the other {setting.factor:g}x slower for {setting.rotate:g} s"
    elif setting.slow:
        load += f", {setting.slow} of {setting.workers} workers {setting.factor:g}x slower"
    memory = ["most on disk", "in memory after"] if setting.memory else []
    if memory:
        until = f" until second {setting.memory_until:g}" if setting.memory_until else ""
        since = f" from second {setting.memory_since:g}" if setting.memory_since else ""
        load += f", {setting.memory / 2**20:g} MB for state on {setting.short} of them{since}{until}"
    shown = Table(title=f"{data} on {setting.workers} workers{load}")
    against = ["of bound", "steady"] if setting.cost_us else ["of identity", "of shuffle"]
    rooms = len({result.skew_bytes for result in results}) > 1
    for heading in ("balance", "rows/s", *against, "rstd", "moves", "pause p50/p99", LATENCY, *memory, "correct"):
        shown.add_column(heading, justify="left" if heading == "balance" else "right")
    for result in results:
        pair = (result.of_bound, result.steady_of_bound) if setting.cost_us else (result.of_identity, result.of_shuffle)
        pause = result.pause_ms
        shown.add_row(
            f"{result.balance}, room {result.skew_bytes}" if rooms else result.balance,
            f"{result.rows_per_s:,.0f}",
            *("-" if value is None else f"{value:.3f}" for value in pair),
            f"{result.rstd:.1f} %",
            f"{result.moves:,}",
            f"{pause['p50']:.0f} / {pause['p99']:.0f} ms" if pause else "-",
            latency.shown(result.latency_ms),
            *_disk(result, len(memory)),
            "yes" if result.correct else "[red]NO[/red]",
        )
    return shown


def _disk(result: KeyedResult, columns: int) -> list[str]:
    """What the run had on disk."""
    back = "-" if result.back_s is None else f"{result.back_s:.1f} s"
    return [f"{result.most_on_disk / 2**20:.1f} MB", back][:columns]
