"""The tables of `evenflow bench`, and the picture of `evenflow bench cep`, as the Figures 3 and 4 of its paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from evenflow_lab.bench.cep import CepResult, CepSetting
from evenflow_lab.bench.keyed import KeyedResult, KeyedSetting
from evenflow_lab.bench.measuring import checked, table_of
from evenflow_lab.bench.ordered import OrderedResult, OrderedSetting
from evenflow_lab.bench.placement import PlacementResult, PlacementSetting

LATENCY = "latency mean/p50/p99"
SMOOTH_S = 2.0
"""Rows a second are averaged over this time."""


def latency(latency_ms: Mapping[str, float]) -> str:
    """Mean, p50 and p99."""
    return " / ".join(f"{latency_ms[name]:,.0f}" for name in ("mean", "p50", "p99")) + " ms" if latency_ms else "-"


def seconds(value: float | None) -> str:
    """Seconds, if there are any."""
    return "-" if value is None else f"{value:.1f} s"


def ordered(setting: OrderedSetting, results: Sequence[OrderedResult]) -> Table:
    """Runs of an ordered region."""
    load = f"{setting.slow} of {setting.workers} workers {setting.factor:g}x slower"
    load += "".join(f", {count} {factor:g}x" for count, factor in setting.also)
    if setting.since:
        load += f" from second {setting.since:g}"
    if setting.until:
        load += f" until second {setting.until:g}"
    if setting.change:
        load = f"{setting.workers} workers change every {setting.change:g} s, 1x to {setting.factor:g}x slower"
    ideal = setting.ideal(0, setting.seconds)
    rows = (
        (
            result.balance,
            f"{result.rows_per_s:,.0f}",
            f"{result.of_ideal:.3f}",
            f"{result.steady_of_ideal:.3f}",
            seconds(result.reaction_s),
            f"{result.delay_ms['p50']:,.0f} / {result.delay_ms['p99']:,.0f} ms",
            latency(result.latency_ms),
            checked(result.in_order),
        )
        for result in results
    )
    heads = "balance", "rows/s", "of ideal", "steady", "reaction", "delay p50/p99", LATENCY, "in order"
    return table_of(f"{load}, {setting.cost_us:g} us a row: ideal {ideal:,.0f} rows/s (emulated)", heads, rows)


def keyed(setting: KeyedSetting, results: Sequence[KeyedResult]) -> Table:
    """Runs of a keyed operator."""
    compared = ("of bound", "steady") if setting.cost_us else ("of identity", "of shuffle")
    disk = ("most on disk", "in memory after") if setting.memory else ()
    rooms = len({result.skew_bytes for result in results}) > 1
    rows = []
    for result in results:
        pair = (result.of_bound, result.steady_of_bound) if setting.cost_us else (result.of_identity, result.of_shuffle)
        pause = result.pause_ms
        on_disk = (f"{result.most_on_disk / 2**20:.1f} MB", seconds(result.back_s))
        cells = (
            f"{result.balance}, room {result.skew_bytes}" if rooms else result.balance,
            f"{result.rows_per_s:,.0f}",
            *("-" if value is None else f"{value:.3f}" for value in pair),
            f"{result.rstd:.1f} %",
            f"{result.moves:,}",
            f"{pause['p50']:.0f} / {pause['p99']:.0f} ms" if pause else "-",
            latency(result.latency_ms),
        )
        rows.append((*cells, *(on_disk if disk else ()), checked(result.correct)))
    heads = "balance", "rows/s", *compared, "rstd", "moves", "pause p50/p99", LATENCY, *disk, "correct"
    return table_of(_keyed_title(setting), heads, rows)


def _keyed_title(setting: KeyedSetting) -> str:
    keys = f"Zipf {setting.zipf:g}" if setting.zipf else "uniform"
    title = f"{setting.rows:,} rows of {setting.keys:,} keys, {keys} on {setting.workers} workers"
    if setting.cost_us:
        title += f", {setting.cost_us:g} us a row (emulated)"
    if setting.rotate:
        title += f", one after the other {setting.factor:g}x slower for {setting.rotate:g} s"
    elif setting.slow:
        title += f", {setting.slow} of {setting.workers} workers {setting.factor:g}x slower"
    if setting.memory:
        since = f" from second {setting.memory_since:g}" if setting.memory_since else ""
        until = f" until second {setting.memory_until:g}" if setting.memory_until else ""
        title += f", {setting.memory / 2**20:g} MB for state on {setting.short} of them{since}{until}"
    return title


def stories(setting: CepSetting, results: Sequence[CepResult]) -> Table:
    """Runs of First Story Detection, as in the paper's Table 1."""
    title = f"{setting.rows:,} texts, workload {setting.workload}, {setting.cost_us:g} us a row (emulated)"
    heads = (
        *("balance", "processed", "rows/s", "of bound", "steady"),
        *("events", "rstd", "rebal.", "keys moved", "rows moved"),
    )
    rows = (
        (
            f"{result.balance} on {result.engines}",
            f"{result.processed:,}",
            f"{result.rows_per_s:,.0f}",
            f"{result.of_bound:.3f}",
            f"{result.steady_of_bound:.3f}",
            checked(result.correct, f"{result.events:,}"),
            f"{result.rstd:.1f} %",
            str(result.rebalances),
            f"{result.keys_moved:,}",
            f"{result.rows_moved:,}",
        )
        for result in results
    )
    caption = "processed: when the fastest was done; events in red are not those of one engine"
    return table_of(title, heads, rows, caption)


def engines(results: Sequence[CepResult]) -> Table:
    """Runs of First Story Detection: latency of rows, then input rate and latency of each engine."""
    heads = ["balance", LATENCY, *(f"engine {engine}" for engine in range(max(each.engines for each in results)))]
    rows = []
    for result in results:
        cells = (
            f"{one['rows_per_s']:,.0f}, {one.get('p50', 0.0):,.0f}/{one.get('p99', 0.0):,.0f}"
            for one in result.by_engine
        )
        rows.append((f"{result.balance} on {result.engines}", latency(result.latency_ms), *cells))
    return table_of("by engine: rows/s that came, p50/p99 until they were answered (ms)", heads, rows)


def stories_figure(setting: CepSetting, results: Sequence[CepResult]) -> Figure:
    """Two panels over time: rows a second, and the rows that are through."""
    drawn = Figure(figsize=(9, 6), layout="constrained")
    speed, through = drawn.subplots(2, 1, sharex=True)
    for result in results:
        times, rows = np.array(result.through, float).T
        grid = np.arange(0, times[-1], 0.25)
        ahead = np.interp(grid + SMOOTH_S / 2, times, rows) - np.interp(grid - SMOOTH_S / 2, times, rows)
        spans = np.minimum(grid + SMOOTH_S / 2, times[-1]) - np.maximum(grid - SMOOTH_S / 2, 0)
        label = f"{result.balance} on {result.engines}"
        speed.plot(grid, ahead / spans, label=label)
        through.plot(times, rows, label=label)
    speed.set(ylabel="rows/s", ylim=(0, None))
    through.set(ylabel="rows through", xlabel="seconds", ylim=(0, None))
    speed.legend(fontsize=8, ncols=3)
    drawn.suptitle(f"First Story Detection, workload {setting.workload}, {setting.cost_us:g} us a row (emulated)")
    return drawn


def placement(setting: PlacementSetting, results: Sequence[PlacementResult]) -> Table:
    """Runs of a graph, one for each placement."""
    title = f"scheme {setting.scheme}: {setting.operators} operators on {setting.workers} workers"
    title += f", load {setting.load:g} (emulated)"
    heads = ["placement", "mean ms", "p50", "p99", "rows/s", "total PE", "load std", "moved", "late"]
    if setting.slow_at:
        title += f", one worker {setting.factor:g}x slower from second {setting.slow_at:g}"
        heads += ["again", "before ms", "after", "best", "of best"]
    rows = (
        (
            each.placement,
            *(f"{each.latency_ms[what]:,.0f}" for what in ("mean", "p50", "p99")),
            f"{each.rows_per_s:,.0f}",
            f"{each.total_pe:,.1f}",
            f"{each.load_std:.3f}",
            f"{each.moved}",
            f"{each.late_moved}",
            *_slow(each),
        )
        for each in results
    )
    return table_of(title, heads, rows)


def _slow(each: PlacementResult) -> list[str]:
    if each.slow is None:
        return []
    times = (each.slow.before_ms, each.slow.after_ms, each.slow.best_ms)
    return [seconds(each.slow.placed_again_s), *(f"{ms:,.0f}" for ms in times), f"{each.slow.of_best:.2f}"]
