"""The demo's second part: First Story Detection over a stream of texts, under key grouping and dynamic balances."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evenflow.cli.demo_ordered import await_batch
from evenflow.model import KeyedSnapshot
from evenflow.model.capacity import Emulate
from evenflow.policy.keyed.loads import imbalance
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.runtime.cluster.first_story import first_story
from evenflow.workloads.tweets import Tweets

REFRESH_S = 0.5
BAR = 24
MICRO_BATCH_S = 1.0
REGION = "stories"
COST_US = 400.0
TWEETS = Tweets(seed=1, words=3_000, zipf=1.2, about=0.8, copies=0.6, spacing=8_000, life=80_000)
LATEST = 4
WINDOW_S = 2.0
"""Seconds over which loads are counted; the default is too long for a demo."""


@dataclass(frozen=True)
class Shown:
    """The figures of one balance."""

    balance: str
    rows: int
    rows_per_s: float
    rstd: float
    moved: int
    alarms: frozenset[int]
    whole: int
    """All texts before this number are through."""


def run_stories(console: Console, spark: SparkSession, seconds: float, workers: int, balances: list[str]) -> None:
    """Run each balance for `seconds`, show it live, and compare them at the end."""
    shown = [_run(console, spark, name, seconds, workers) for name in balances]
    common = min(one.whole for one in shown)
    sets = [{number for number in one.alarms if number < common} for one in shown]
    ideal = workers / COST_US * 1e6
    table = Table(title=f"First Story Detection on {workers} workers: at most {ideal:,.0f} texts/s (emulated)")
    for heading in ("balance", "texts", "texts/s", "of most", "imbalance", "keys moved", "first stories"):
        table.add_column(heading, justify="left" if heading == "balance" else "right")
    for one in shown:
        table.add_row(
            one.balance,
            f"{one.rows:,}",
            f"{one.rows_per_s:,.0f}",
            f"{one.rows_per_s / ideal:.2f}",
            f"{one.rstd:.0f} %",
            f"{one.moved:,}",
            f"{len(one.alarms):,}",
        )
    console.print(table)
    same = "the same" if all(found == sets[0] for found in sets) else "[red]NOT the same[/red]"
    console.print(f"first stories among the first {common:,} texts: {len(sets[0]):,}, {same} under each balance")


def _run(console: Console, spark: SparkSession, balance: str, seconds: float, workers: int) -> Shown:
    spark.sparkContext.setLogLevel("ERROR")
    table = f"stories_{balance.replace('-', '_')}"
    batch = int(workers / COST_US * 1e6 * MICRO_BATCH_S)
    numbers = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=batch, numPartitions=1).load()
    tweets = numbers.select("value").mapInArrow(TWEETS.over, "id long, time timestamp, topic int, text string")
    options: dict[str, Any] = {"window": WINDOW_S} if balance in ("dlb-h", "dlb-l", "lptf") else {}
    with Cluster(spark, workers, period=0.2, emulate=Emulate(COST_US)) as cluster:
        stories = first_story(tweets, cluster=cluster, balance=balance, name=REGION, **options)
        query = stories.select("id", "text").writeStream.format("memory").queryName(table).start()
        seen = [cluster.keyed_snapshot(REGION)]
        started: float | None = None
        try:
            with Live(console=console, refresh_per_second=4, transient=not console.is_terminal) as live:
                while (started is None or time.monotonic() - started < seconds) and query.isActive:
                    time.sleep(REFRESH_S)
                    seen.append(cluster.keyed_snapshot(REGION))
                    if started is None and _rows(seen[-1]).sum():
                        started = time.monotonic()
                    elapsed = 0.0 if started is None else time.monotonic() - started
                    live.update(_page(balance, elapsed, seconds, seen[-2], seen[-1], spark.table(table)))
            if (error := query.exception()) is not None:
                raise error
            spark.sparkContext.setLogLevel("OFF")  # stopping an endless query is no error
            await_batch(query)
            seen.append(cluster.keyed_snapshot(REGION))
        finally:
            query.stop()
        whole = batch * max(0, (query.lastProgress["batchId"] + 1) if query.lastProgress else 0)
        flowing = [snapshot for snapshot in seen if _rows(snapshot).sum()]
        alarms = frozenset(row.id for row in spark.table(table).select("id").collect())
    done, span = int(_rows(flowing[-1]).sum()), flowing[-1].time - flowing[0].time
    late = flowing[len(flowing) // 2 :]
    return Shown(
        balance,
        done,
        (done - int(_rows(flowing[0]).sum())) / max(span, 1e-9),
        imbalance(_rows(late[-1]) - _rows(late[0])),
        seen[-1].moved,
        alarms,
        whole,
    )


def _rows(snapshot: KeyedSnapshot) -> np.ndarray:
    return np.array([consumer.rows for consumer in snapshot.consumers], np.int64)


def _page(
    balance: str, elapsed: float, seconds: float, before: KeyedSnapshot, now: KeyedSnapshot, alarms: DataFrame
) -> Group:
    span = max(1e-9, now.time - before.time)
    load = _rows(now) - _rows(before)
    head = Text.assemble(
        (f"{balance}  ", "bold"),
        f"{elapsed:4.0f} of {seconds:.0f} s   {load.sum() / span:>9,.0f} texts/s   ",
        f"imbalance {imbalance(load):3.0f} %   {now.moved:,} keys moved   {alarms.count():,} first stories",
    )
    table = Table("worker", "texts/s", "", "keys", box=None, pad_edge=False)
    for place in (0, 1, 3):
        table.columns[place].justify = "right"
    owners = np.bincount(now.table.owners, minlength=len(now.consumers))
    for place, consumer in enumerate(now.consumers):
        bar = Text("█" * round(BAR * load[place] / max(1, load.max())), style="cyan")
        table.add_row(str(consumer.worker), f"{load[place] / span:,.0f}", bar, f"{owners[consumer.worker]:,}")
    latest = alarms.orderBy(F.desc("id")).limit(LATEST).collect()
    lines = [Text(f"  {row.id:>8,}  {row.text[:80]}", style="yellow", no_wrap=True) for row in latest]
    return Group(head, table, *lines)
