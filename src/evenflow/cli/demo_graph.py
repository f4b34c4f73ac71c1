"""The demo's fourth part: a graph of operators, of which a worker turns slow, so that it is placed anew."""

from __future__ import annotations

import numpy as np
from rich.live import Live
from rich.text import Text

from evenflow.bench.placement import PlacementSetting, data, observe
from evenflow.bench.placement_events import GraphRun
from evenflow.cli.demo_stage import DemoPart, DemoRun, Stage

OPERATORS, SCHEME, LOAD, FACTOR = 12, 3, 0.45, 3.0
LEAST_S = 8.0
"""A placement measures for some seconds before it moves anything, and again after a worker has turned slow."""
SLOW_AT = 0.3
"""The part of the time after which a worker turns slow."""
WITHOUT, BALANCED = "random", "potential"


def run_graph(stage: Stage) -> DemoPart:
    """Chains of filters on workers of different speed, with links between them; one worker turns slow."""
    seconds = max(LEAST_S, stage.seconds)
    setting = PlacementSetting(
        stage.workers, OPERATORS, SCHEME, seconds, LOAD, round(SLOW_AT * seconds, 1), FACTOR, period=0.5
    )
    drawn = setting.drawn()
    emulate = drawn.emulate(drawn.fastest, setting.factor, setting.slow_at)
    runs = []
    with data(drawn) as paths:
        for placement in (WITHOUT, BALANCED):
            with Live(console=stage.console, transient=True) as live:

                def watch(rows: float, placement: str = placement, live: Live = live) -> None:
                    live.update(Text(f"{placement}  {rows:,.0f} rows through the operators of the graph"))

                seen = observe(stage.spark, setting, placement, drawn, paths, emulate, stage.log, watch)
            run = _figures(setting, placement, seen)
            stage.console.print(f"  {placement:<12} {run.figure:>9,.0f} ms a result, {seen.moved(0, 1e9)} moved")
            runs.append((run, seen))
    results = [sum(event["results"] for event in _results(seen)) for _, seen in runs]
    return DemoPart(
        "a graph placed anew",
        f"{OPERATORS} operators in chains on {stage.workers} workers; after {setting.slow_at:g} s one worker is "
        f"{FACTOR:g} times slower, and what is on it falls behind.",
        "ms",
        runs[0][0],
        runs[1][0],
        sound=results[0] == results[1] and results[0] > 0,
        checked=f"both gave the same {results[0]:,} results",
        lower=True,
    )


def _results(seen: GraphRun) -> list[dict[str, int]]:
    return [event for event in seen.events if event["event"] == "graph-results"]


def _figures(setting: PlacementSetting, placement: str, seen: GraphRun) -> DemoRun:
    """Mean latency of results while the worker is slow, and latency second by second."""
    seconds = [float(second) for second in np.arange(1.0, setting.seconds + 0.5)]
    means = [(second, seen.latency(second - 1, second).mean) for second in seconds]
    known = [(second, mean) for second, mean in means if mean == mean]
    figure = seen.latency(*setting.measured_slow).mean
    return DemoRun(placement, figure, tuple(second for second, _ in known), tuple(mean for _, mean in known))
