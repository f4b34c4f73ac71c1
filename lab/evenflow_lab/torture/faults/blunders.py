"""Mistakes of another user of the cluster: a query that is wrong must fail by itself, with its own error."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import NoReturn

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from evenflow.errors import EvenflowError
from evenflow.runtime.cluster.arguments.tuning import Tuning
from evenflow.runtime.cluster.cluster import Cluster
from evenflow_lab.torture.jobs.operator import Counted

PATIENCE_S = 60.0
"""How long a mistake may take to show: tasks have to start on a busy cluster, some of whose workers are gone."""
POLL_S = 1
WRONG = "as the schedule says"
"""In all errors that are raised here."""
LONG = " AND ".join(f"value <> {number}" for number in range(60))


class Raises(Counted):
    """An operator that fails at the first rows."""

    def process(self, rows: object, units: object, keys: object) -> object:
        raise ValueError(f"this operator is wrong, {WRONG}")


def _raises(cluster: Cluster, rows: DataFrame) -> DataFrame:
    return cluster.keyed(_counted(rows), "k", Raises(), name="raises")


def _breaks(cluster: Cluster, rows: DataFrame) -> DataFrame:
    """An operator whose region fails inside of the controller, as soon as one of its tasks says something."""
    out = cluster.keyed(_counted(rows), "k", Counted(), name="breaks")
    region = cluster._regions.find("breaks")
    cluster._driver.ask(lambda _controller: setattr(region, "hear", _break))
    return out


def _break(*_anything: object) -> NoReturn:
    raise MemoryError(f"this region is broken, {WRONG}")


def _taken_name(cluster: Cluster, rows: DataFrame) -> DataFrame:
    """The name of a job's own operator."""
    taken = next(iter(cluster._driver.ask(lambda controller: list(controller.regions))))
    return cluster.keyed(_counted(rows), "k", Counted(), tuning=Tuning(units=5), name=taken)


def _unnamed(cluster: Cluster, rows: DataFrame) -> DataFrame:
    """Rules whose text is too long for a name, and that have none."""
    return cluster.detect(rows, f"SELECT value, count(*) AS n FROM Row WHERE {LONG} GROUP BY value", key="value")


def _long_name(cluster: Cluster, rows: DataFrame) -> DataFrame:
    return cluster.keyed(_counted(rows), "k", Counted(), name="much" * 80)


def _counted(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("value AS k", "double(value) AS v")


@dataclass(frozen=True, slots=True)
class Blunder:
    """A mistake."""

    make: Callable[[Cluster, DataFrame], DataFrame]
    says: str
    """What its error has to say."""


BLUNDERS = (
    Blunder(_breaks, f"this region is broken, {WRONG}"),
    Blunder(_breaks, f"this region is broken, {WRONG}"),
    Blunder(_raises, f"this operator is wrong, {WRONG}"),
    Blunder(_taken_name, "give another name"),
    Blunder(_unnamed, "the cluster has a checkpoint"),
    Blunder(_long_name, "over 255"),
)
"""The last three are refused by the call, and never reach the controller."""


def commit(spark: SparkSession, cluster: Cluster, folder: Path, share: float, over: Event) -> str:
    """Make a mistake until it fails with its own error, or the job is `over`. Returns what is wrong.

    A query that runs into another fault of the schedule is started again, as its user would.
    """
    blunder = BLUNDERS[int(len(BLUNDERS) * share)]
    name, told, deadline = blunder.make.__name__.strip("_"), "it does not fail", time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and not over.wait(POLL_S):
        try:
            _run(spark, blunder, cluster, folder, deadline, over)
        except (EvenflowError, StreamingQueryException) as error:
            told = str(error)
        if blunder.says in told:
            return ""
    return (
        ""
        if over.is_set()
        else f"the mistake '{name}' should say '{blunder.says}', and within {PATIENCE_S:.0f} s: {told}"
    )


def _run(spark: SparkSession, blunder: Blunder, cluster: Cluster, folder: Path, deadline: float, over: Event) -> None:
    """Run the query that is wrong until it fails, or it is too late."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    out = blunder.make(cluster, rows)
    query = out.writeStream.format("noop").option("checkpointLocation", str(folder / "blunder")).start()
    try:
        while not query.awaitTermination(POLL_S) and time.monotonic() < deadline and not over.is_set():
            pass
    finally:
        query.stop()
