"""Mistakes of another user of the cluster: a query that is wrong must fail by itself, and touch nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from evenflow.errors import EvenflowError
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.torture.operator import Counted
from evenflow.torture.schedule import REGION

PATIENCE_S = 4
LONG = " AND ".join(f"value <> {number}" for number in range(60))


class Raises(Counted):
    """An operator that fails at the first rows."""

    def process(self, rows: object, units: object, keys: object) -> object:
        raise ValueError("this operator is wrong, as the schedule says")


def _unnamed(cluster: Cluster, rows: DataFrame) -> DataFrame:
    """Rules whose text is too long for a name."""
    return cluster.detect(rows, f"SELECT value, count(*) AS n FROM Row WHERE {LONG} GROUP BY value", key="value")


def _long_name(cluster: Cluster, rows: DataFrame) -> DataFrame:
    return cluster.keyed(_counted(rows), "k", Counted(), name="much" * 80)


def _taken_name(cluster: Cluster, rows: DataFrame) -> DataFrame:
    return cluster.keyed(_counted(rows), "k", Counted(), units=5, name=REGION)


def _raises(cluster: Cluster, rows: DataFrame) -> DataFrame:
    return cluster.keyed(_counted(rows), "k", Raises(), name="raises")


def _counted(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("value AS k", "double(value) AS v")


BLUNDERS: tuple[Callable[[Cluster, DataFrame], DataFrame], ...] = (_unnamed, _unnamed, _long_name, _taken_name, _raises)


def commit(spark: SparkSession, cluster: Cluster, folder: Path, share: float) -> None:
    """Start a query that is wrong, and wait for its end, or stop it if nobody minds."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    with suppress(EvenflowError, StreamingQueryException):
        out = BLUNDERS[int(len(BLUNDERS) * share)](cluster, rows)
        query = out.writeStream.format("noop").option("checkpointLocation", str(folder / "blunder")).start()
        try:
            query.awaitTermination(PATIENCE_S)
        finally:
            query.stop()
