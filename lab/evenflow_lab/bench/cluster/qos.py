"""Two keyed operators on the same emulated workers, both with more rows than they can serve: what `qos` does.

Prints rows a second and latency of each in the second half of the run; the operator "alerts" has a weight, or a target.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession

import evenflow as ef
from evenflow.cli.terminal import embedded_spark
from evenflow.model.capacity import Emulate
from evenflow.model.entries import QosEntry
from evenflow_lab.bench.measuring import logged

WORKERS, COST_US = 2, 20.0
CONF = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1000"}
"""Rows of one Arrow batch arrive together, and the last of them waits for all."""


def main(
    seconds: Annotated[float, typer.Option(help="How long each run takes.")] = 25.0,
    target: Annotated[float, typer.Option(help="Latency that alerts shall have, in ms.")] = 400.0,
) -> None:
    """Run without `qos`, with a weight, and with a target."""
    with embedded_spark(WORKERS, 2, conf=CONF) as spark:
        print("| qos of alerts | alerts rows/s | p50 / p99 ms | means rows/s | p50 / p99 ms | weights in turn |")
        print("|---|---|---|---|---|---|")
        for qos in (None, 4.0, ef.Qos(latency_ms=target)):
            print(f"| {qos} | {' | '.join(measured(spark, qos, seconds))} |", flush=True)


def measured(spark: SparkSession, qos: float | ef.Qos | None, seconds: float) -> list[str]:
    """Run both operators for so long; the cells of a row."""
    given = {} if qos is None else {"alerts": qos}
    with (
        ThreadPoolExecutor(2) as pool,  # its threads end when the cluster is stopped
        ef.Cluster(spark, WORKERS, emulate=Emulate(COST_US), qos=given, period=0.5) as cluster,
    ):
        rows = int(1.5 * seconds * WORKERS * 1e6 / COST_US)
        for name in ("alerts", "means"):
            keyed = spark.range(0, rows, 1, 1).selectExpr("id", "id % 1000 as key")
            out = cluster.keyed(keyed, "key", ef.RunningMean("id", into="mean"), name=name)
            pool.submit(until_stopped, out)
        time.sleep(seconds / 2)
        half = {name: cluster.region(name).snapshot().performance.latencies for name in ("alerts", "means")}
        time.sleep(seconds / 2)
        cells = []
        for name, before in half.items():
            found = (cluster.region(name).snapshot().performance.latencies - before).summary
            if found is None:
                cells += ["0", "-"]
            else:
                cells += [f"{found.rows / seconds * 2:,.0f}", f"{found.p50:,.0f} / {found.p99:,.0f}"]
        weights = [f"{entry.weight:g}" for entry in logged(cluster, QosEntry)]
    return [*cells, " ".join(weights) or "-"]


def until_stopped(df: DataFrame) -> None:
    """Evaluate a DataFrame until its cluster is stopped."""
    try:
        df.write.format("noop").mode("overwrite").save()
    except Exception as error:  # the cluster was stopped under it, as planned
        if "cluster" not in str(error):
            print(error)
