"""The table of `evenflow bench placement`."""

from __future__ import annotations

from rich.table import Table

from evenflow_lab.bench.placement import PlacementResult, PlacementSetting


def table(setting: PlacementSetting, results: list[PlacementResult]) -> Table:
    """A row for each placement."""
    title = (
        f"scheme {setting.scheme}: {setting.operators} operators on {setting.workers} workers, load {setting.load:g} "
        "(emulated)"
    )
    if setting.slow_at:
        title += f", one worker {setting.factor:g}x slower from second {setting.slow_at:g}"
    shown = Table(title=title)
    headings = ["placement", "mean ms", "p50", "p99", "rows/s", "total PE", "load std", "moved", "late"]
    headings += ["again", "before ms", "after", "best", "of best"] if setting.slow_at else []
    for heading in headings:
        shown.add_column(heading, justify="left" if heading == "placement" else "right")
    for each in results:
        cells = [
            each.placement,
            *(f"{each.latency_ms[what]:,.0f}" for what in ("mean", "p50", "p99")),
            f"{each.rows_per_s:,.0f}",
            f"{each.total_pe:,.1f}",
            f"{each.load_std:.3f}",
            f"{each.moved}",
            f"{each.late_moved}",
        ]
        shown.add_row(*cells, *_slow(each))
    return shown


def _slow(each: PlacementResult) -> list[str]:
    if each.slow is None:
        return []
    again = each.slow.placed_again_s
    times = (each.slow.before_ms, each.slow.after_ms, each.slow.best_ms)
    return ["-" if again is None else f"{again:.1f} s", *(f"{ms:,.0f}" for ms in times), f"{each.slow.of_best:.2f}"]
