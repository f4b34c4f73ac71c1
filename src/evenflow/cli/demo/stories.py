"""The demo's third part: First Story Detection over a stream of texts."""

from __future__ import annotations

from typing import Any

from evenflow.cli.demo.keyed import ROOM, keyed_look
from evenflow.cli.demo.stage import DemoPart, DemoRun, Stage, play_rows
from evenflow.model.capacity import Emulate
from evenflow.runtime.cluster.arguments.tuning import Tuning
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.runtime.cluster.plans.first_story import first_story
from evenflow.workloads.tweets import Tweets

COST_US = 1000.0
TWEETS = Tweets(seed=1, words=3_000, zipf=1.2, about=0.8, copies=0.6, spacing=8_000, life=80_000)
WINDOW_S = 1.0
"""Seconds over which loads are counted; the default is too long for a demo."""
WITHOUT, BALANCED = "kg", "dlb-h"


def run_stories(stage: Stage) -> DemoPart:
    """Texts of topics, of which some are much talked of."""
    emulate = Emulate(COST_US)
    with Cluster(stage.spark, stage.workers, period=0.2, emulate=emulate, event_log=stage.log) as cluster:
        runs = [_run(stage, cluster, balance) for balance in (WITHOUT, BALANCED)]
    found = [stories for _, stories in runs]
    return DemoPart(
        "first stories",
        "Which text is the first to tell of something new? Topics that many write about make some workers busy, while "
        "others wait.",
        "texts/s",
        runs[0][0],
        runs[1][0],
        sound=found[0] == found[1] and bool(found[0]),
        checked=f"both found the same {len(found[0]):,} first stories",
    )


def _run(stage: Stage, cluster: Cluster, balance: str) -> tuple[DemoRun, set[int]]:
    """Run one balance; also the first stories that it found."""
    texts = int(0.75 * stage.seconds * stage.workers / COST_US * 1e6)  # some take longer than they would at best
    numbers = stage.spark.range(0, texts, 1, 1).withColumnRenamed("id", "value")
    tweets = numbers.mapInArrow(TWEETS.over, "id long, time timestamp, topic int, text string")
    options: dict[str, Any] = {"window": WINDOW_S} if balance == BALANCED else {}
    tuning = Tuning(skew_bytes=ROOM)
    stories = first_story(tweets, cluster=cluster, balance=balance, name=balance, tuning=tuning, **options).select("id")
    run, rows = play_rows(stage, balance, stories.collect, keyed_look(cluster, balance, stage.seconds, "texts/s"))
    return run, {row.id for row in rows}
