"""The demo's third part: First Story Detection over a stream of texts."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.text import Text

from evenflow.cli.demo_keyed import keyed_look
from evenflow.cli.demo_stage import DemoPart, DemoRun, Stage, play
from evenflow.model.capacity import Emulate
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.runtime.cluster.first_story import first_story
from evenflow.workloads.tweets import Tweets

MICRO_BATCH_S = 1.0
COST_US = 1000.0
TWEETS = Tweets(seed=1, words=3_000, zipf=1.2, about=0.8, copies=0.6, spacing=8_000, life=80_000)
LATEST = 4
WINDOW_S = 1.5
"""Seconds over which loads are counted; the default is too long for a demo."""
WITHOUT, BALANCED = "kg", "dlb-h"


def run_stories(stage: Stage) -> DemoPart:
    """Texts of topics, of which some are much talked of."""
    with Cluster(stage.spark, stage.workers, period=0.2, emulate=Emulate(COST_US), event_log=stage.log) as cluster:
        runs = [_run(stage, cluster, balance) for balance in (WITHOUT, BALANCED)]
    common = min(whole for _, _, whole in runs)
    found = [{number for number in alarms if number < common} for _, alarms, _ in runs]
    return DemoPart(
        "First Story Detection",
        "Which text is the first to tell of something new? Topics that many write about make some workers busy, while "
        "others wait.",
        "texts/s",
        runs[0][0],
        runs[1][0],
        sound=found[0] == found[1] and bool(found[0]),
        checked=f"both found the same {len(found[0]):,} first stories among the first {common:,} texts",
    )


def _run(stage: Stage, cluster: Cluster, balance: str) -> tuple[DemoRun, set[int], int]:
    """Run one balance; also the first stories that it found, and the texts that are through."""
    table = f"stories_{balance.replace('-', '_')}"
    batch = int(stage.workers / COST_US * 1e6 * MICRO_BATCH_S)
    numbers = stage.spark.readStream.format("rate-micro-batch").options(rowsPerBatch=batch, numPartitions=1).load()
    tweets = numbers.select("value").mapInArrow(TWEETS.over, "id long, time timestamp, topic int, text string")
    options: dict[str, Any] = {"window": WINDOW_S} if balance == BALANCED else {}
    stories = first_story(tweets, cluster=cluster, balance=balance, name=balance, **options)
    query = stories.select("id", "text").writeStream.format("memory").queryName(table).start()
    found = stage.spark.table(table)
    run = play(stage, balance, query, keyed_look(cluster, balance, stage.seconds, "texts/s", lambda: _latest(found)))
    whole = batch * ((query.lastProgress["batchId"] + 1) if query.lastProgress else 0)
    return run, {row.id for row in found.select("id").collect()}, whole


def _latest(alarms: DataFrame) -> list[Text]:
    """The first stories that were found last."""
    latest = alarms.orderBy(F.desc("id")).limit(LATEST).collect()
    return [Text(f"  {row.id:>8,}  {row.text[:80]}", style="yellow", no_wrap=True) for row in latest]
