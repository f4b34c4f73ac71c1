"""The table of `evenflow bench ordered`."""

from __future__ import annotations

from rich.table import Table

from evenflow_lab.bench import latency
from evenflow_lab.bench.latency import LATENCY
from evenflow_lab.bench.ordered import OrderedResult, OrderedSetting


def table(setting: OrderedSetting, results: list[OrderedResult]) -> Table:
    """A row for each run."""
    load = f"{setting.slow} of {setting.workers} workers {setting.factor:g}x slower"
    load += "".join(f", {count} {factor:g}x" for count, factor in setting.also)
    if setting.since:
        load += f" from second {setting.since:g}"
    if setting.until:
        load += f" until second {setting.until:g}"
    if setting.change:
        load = f"{setting.workers} workers change every {setting.change:g} s, 1x to {setting.factor:g}x slower"
    ideal = setting.ideal(0, setting.seconds)
    shown = Table(title=f"{load}, {setting.cost_us:g} us a row: ideal {ideal:,.0f} rows/s (emulated)")
    for heading in ("balance", "rows/s", "of ideal", "steady", "reaction", "delay p50/p99", LATENCY, "in order"):
        shown.add_column(heading, justify="left" if heading == "balance" else "right")
    for result in results:
        shown.add_row(
            result.balance,
            f"{result.rows_per_s:,.0f}",
            f"{result.of_ideal:.3f}",
            f"{result.steady_of_ideal:.3f}",
            "-" if result.reaction_s is None else f"{result.reaction_s:.1f} s",
            f"{result.delay_ms['p50']:,.0f} / {result.delay_ms['p99']:,.0f} ms",
            latency.shown(result.latency_ms),
            "yes" if result.in_order else "[red]NO[/red]",
        )
    return shown
