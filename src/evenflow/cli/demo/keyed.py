"""The demo's second part: a running count by key, of which one is hot."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from pyspark.sql import functions as F
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evenflow.cli.demo.stage import REFRESH_S, DemoPart, DemoRun, Look, Stage, play_rows
from evenflow.model import KeyedSnapshot
from evenflow.model.capacity import Emulate
from evenflow.operators.aggregates.rolling import RunningCount
from evenflow.policy.keyed.loads import imbalance
from evenflow.runtime.cluster.arguments.tuning import Tuning
from evenflow.runtime.cluster.cluster import Cluster

BAR = 24
COST_US = 500.0
KEYS = 997
HOT = 4
"""One of so many rows has the hot key."""
UNITS = 256
ROOM = "64k"
"""Rows that wait in the feeder, at most: what is longer with Spark can still go where there is room."""
WITHOUT, BALANCED = "hash", "auto"


def run_keyed(stage: Stage) -> DemoPart:
    """A quarter of all rows has the same key."""
    emulate = Emulate(COST_US)
    with Cluster(stage.spark, stage.workers, period=REFRESH_S / 2, emulate=emulate, event_log=stage.log) as cluster:
        runs = [_run(stage, cluster, balance) for balance in (WITHOUT, BALANCED)]
    return DemoPart(
        "a hot key",
        f"One row in {HOT} has the same key: its worker has more to do than the others, and all wait for it, until "
        "the other keys have left that worker.",
        "rows/s",
        runs[0][0],
        runs[1][0],
        sound=all(right for _, right in runs),
        checked="every count of every key",
    )


def _run(stage: Stage, cluster: Cluster, balance: str) -> tuple[DemoRun, bool]:
    """Run one balance; also whether all counts were right."""
    rows = int(0.75 * stage.seconds * stage.workers / COST_US * 1e6)  # some take longer than they would at best
    source = stage.spark.range(0, rows, 1, 1).withColumnRenamed("id", "value")
    key = F.when(F.col("value") % HOT == 0, F.lit(-1)).otherwise(F.col("value") % KEYS)
    out = cluster.keyed(
        source.select("value", key.alias("key")),
        "key",
        RunningCount("value", into="n"),
        balance=balance,
        name=balance,
        tuning=Tuning(units=UNITS, skew_bytes=ROOM),
    )
    count = out.agg(F.count("n"), F.sum("n"))
    run, told = play_rows(stage, balance, count.collect, keyed_look(cluster, balance, stage.seconds, "rows/s"))
    return run, tuple(told[0]) == (rows, _sum_of_counts(rows))


def _sum_of_counts(rows: int) -> int:
    """The sum of all counts: 1 + 2 + ... for each key."""
    values = np.arange(rows)
    keys = np.bincount(np.where(values % HOT == 0, KEYS, values % KEYS))
    return int((keys * (keys + 1) // 2).sum())


def keyed_look(cluster: Cluster, region: str, seconds: float, unit: str) -> Callable[[], Look]:
    """Looks at a keyed region, for `play_rows`."""
    handle = cluster.region(region)
    seen = [cast(KeyedSnapshot, handle.snapshot())]

    def look() -> Look:
        seen.append(cast(KeyedSnapshot, handle.snapshot()))
        before, now = seen[-2:]

        def page(elapsed: float) -> RenderableType:
            return Group(_head(region, elapsed, seconds, unit, before, now), _workers(unit, before, now))

        return Look(now.time, int(_rows(now).sum()), page)

    return look


def _rows(snapshot: KeyedSnapshot) -> np.ndarray:
    return np.array([consumer.rows for consumer in snapshot.consumers], np.int64)


def _head(
    label: str, elapsed: float, seconds: float, unit: str, before: KeyedSnapshot, now: KeyedSnapshot
) -> RenderableType:
    load, span = _rows(now) - _rows(before), max(1e-9, now.time - before.time)
    return Text.assemble(
        (f"{label}  ", "bold"),
        f"{elapsed:4.0f} s, {seconds:.0f} s at best   {load.sum() / span:>9,.0f} {unit}   ",
        f"imbalance {imbalance(load):3.0f} %   {now.moved:,} units moved",
    )


def _workers(unit: str, before: KeyedSnapshot, now: KeyedSnapshot) -> Table:
    load, span = _rows(now) - _rows(before), max(1e-9, now.time - before.time)
    table = Table("worker", unit, "", "units", box=None, pad_edge=False)
    for place in (0, 1, 3):
        table.columns[place].justify = "right"
    owners = np.bincount(now.table.owners, minlength=len(now.consumers))
    for place, consumer in enumerate(now.consumers):
        bar = Text("█" * round(BAR * load[place] / max(1, load.max())), style="cyan")
        table.add_row(str(consumer.worker), f"{load[place] / span:,.0f}", bar, f"{owners[consumer.worker]:,}")
    return table
