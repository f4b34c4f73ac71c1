"""What `evenflow bench ordered` shows."""

from __future__ import annotations

from rich.table import Table

from evenflow.bench.ordered import Outcome, Setting


def table(setting: Setting, outcomes: list[Outcome]) -> Table:
    """A row for each run."""
    load = f"{setting.slow} of {setting.workers} workers {setting.factor:g}x slower"
    load += "".join(f", {count} {factor:g}x" for count, factor in setting.also)
    if setting.since:
        load += f" from second {setting.since:g}"
    if setting.until:
        load += f" until second {setting.until:g}"
    ideal = setting.ideal(0, setting.seconds)
    shown = Table(title=f"{load}, {setting.cost_us:g} us a row: ideal {ideal:,.0f} rows/s (emulated)")
    for heading in ("balance", "rows/s", "of ideal", "steady", "reaction", "delay p50/p99", "in order"):
        shown.add_column(heading, justify="left" if heading == "balance" else "right")
    for outcome in outcomes:
        shown.add_row(
            outcome.balance,
            f"{outcome.rows_per_s:,.0f}",
            f"{outcome.of_ideal:.3f}",
            f"{outcome.steady_of_ideal:.3f}",
            "-" if outcome.reaction_s is None else f"{outcome.reaction_s:.1f} s",
            f"{outcome.delay_ms['p50']:,.0f} / {outcome.delay_ms['p99']:,.0f} ms",
            "yes" if outcome.in_order else "[red]NO[/red]",
        )
    return shown
