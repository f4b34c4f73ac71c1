"""The demo's fourth part: a graph of operators, one of whose workers is slow, so that it is placed anew."""

from __future__ import annotations

import numpy as np
from rich.live import Live
from rich.text import Text

from evenflow.cli.demo.graph_run import GraphRun, data, observe_on
from evenflow.cli.demo.stage import DemoPart, DemoRun, Stage
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.workloads.schemes import scheme

OPERATORS, SCHEME, LOAD, FACTOR = 12, 3, 0.4, 6.0
LEAST_S = 5.0
"""A placement measures for some seconds before it moves anything."""
PERIOD_S = 0.25
WITHOUT, BALANCED = "round-robin", "potential"


def run_graph(stage: Stage) -> DemoPart:
    """Chains of filters on workers with links between them, one of which is slow."""
    drawn = scheme(SCHEME, stage.workers, OPERATORS, max(LEAST_S, stage.seconds), LOAD)
    emulate = drawn.emulate(drawn.fastest, FACTOR)
    runs = []
    with (
        data(drawn) as paths,
        Cluster(stage.spark, stage.workers, period=PERIOD_S, emulate=emulate, event_log=stage.log) as cluster,
    ):
        for placement in (WITHOUT, BALANCED):
            with Live(console=stage.console, transient=True) as live:

                def watch(rows: float, placement: str = placement, live: Live = live) -> None:
                    live.update(Text(f"{placement}  {rows:,.0f} rows through the operators of the graph"))

                seen = observe_on(stage.spark, cluster, placement, PERIOD_S, placement, drawn, paths, watch)
            runs.append((_figures(placement, seen), seen))
            moved = seen.moved(0, np.inf)
            stage.console.print(f"  {placement:<12} {runs[-1][0].figure:>9,.0f} ms a result, {moved} moved")
    results = [seen.latency(0, np.inf).rows for _, seen in runs]
    return DemoPart(
        "a graph placed anew",
        f"{OPERATORS} operators in chains on {stage.workers} workers, one of which is {FACTOR:g} times slower: what is "
        "on it falls behind, until it is elsewhere.",
        "ms",
        runs[0][0],
        runs[1][0],
        sound=results[0] == results[1] and results[0] > 0,
        checked=f"both gave the same {results[0]:,} results",
        lower=True,
    )


def _figures(placement: str, seen: GraphRun) -> DemoRun:
    """Mean latency of all results, and latency second by second."""
    seconds = [float(second) for second in np.arange(1.0, np.ceil(seen.seconds) + 0.5)]
    means = [(second, seen.latency(second - 1, second).mean) for second in seconds]
    known = [(second, mean) for second, mean in means if mean == mean]
    figure = seen.latency(0, np.inf).mean
    return DemoRun(placement, figure, tuple(second for second, _ in known), tuple(mean for _, mean in known))
