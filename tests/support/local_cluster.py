"""What test_local_cluster.py runs in a process of its own, on three executors; prints one JSON line a step."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

import evenflow as ef
from tests.support.background import Holding, Query
from tests.support.comparison import assert_same, committed, micro_batches, plain_map
from tests.support.moving import Moving, Nth, nth_of, region, source

ROWS = 30_000
WORKERS = 5
"""Of six slots: no executor can hold more than two of them, so all three have some."""
SCHEMA = "id long, square long"
KEYED_ROWS = 4_000


def square(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = batch.column("id")
    return pa.record_batch({"id": values, "square": pc.multiply(values, values)})


def say(step: str, **facts: object) -> None:
    print(json.dumps({"step": step, **facts}), flush=True)


def wait(condition, what: str, seconds: float = 90.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)


def batch(spark, cluster) -> None:
    df = spark.range(0, ROWS, 1, 4)
    assert_same(cluster.ordered_map(df, square, SCHEMA), plain_map(df, square, SCHEMA), ROWS)


def stream(spark, cluster, folder: Path) -> None:
    spark.range(0, ROWS, 1, 4).write.parquet(str(folder / "in"))

    def source():
        return spark.readStream.schema("id long").option("maxFilesPerTrigger", 2).parquet(str(folder / "in"))

    got = micro_batches(cluster.ordered_map(source(), square, SCHEMA), folder / "evenflow")
    want = micro_batches(plain_map(source(), square, SCHEMA), folder / "plain")
    assert list(got) == list(want) == [0, 1]
    for number in want:
        assert_same(got[number], want[number])


def keyed(spark, cluster) -> dict[str, object]:
    """Units go from executor to executor all the time; two partitions, each with keys of its own."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    keys = [f"{number * 2 // KEYED_ROWS}-{number % 60}" for number in range(KEYED_ROWS)]
    rows = pa.table({"id": list(range(KEYED_ROWS)), "k": keys})
    name = region("across")
    out = cluster.keyed(
        source(spark, rows, partitions=2, pause_s=0.05), "k", Nth(), tuning=ef.Tuning(units=64), ordered=True, name=name
    )
    with Moving(cluster, name, least=20) as moving:  # so many that some will have gone to another executor
        while moving.wanted():
            got = out.toArrow()
            assert got["id"].to_pylist() == list(range(KEYED_ROWS))
            assert got["nth"].to_pylist() == nth_of(keys)
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    homes = {worker.id: worker.executor for worker in cluster.workers()}
    moves = [event for event in cluster.events() if event["event"] == "moved" and event["region"] == name]
    across = sum(homes[move["source"]] != homes[move["target"]] for move in moves)
    return {"moved": cluster.region(name).snapshot().moved, "across": across}


def lose_executor(spark, cluster, folder: Path) -> dict[str, object]:
    """Kill an executor's JVM while one of its workers is at work; rows and workers must come back."""
    holding = Holding(folder)
    df = spark.range(0, ROWS, 1, 2)
    out = cluster.ordered_map(df, holding.function(), "id long")
    query = Query(lambda: out.write.parquet(str(folder / "out")))
    wait(holding.inside, "a worker is at work")
    before = cluster.workers()
    victim = next(worker for worker in before if worker.pid == holding.inside()[0])
    dead = {worker.id for worker in before if worker.executor == victim.executor}
    java = next(parent for parent in psutil.Process(victim.pid).parents() if parent.name() == "java")
    assert java.pid != os.getppid()
    os.kill(java.pid, signal.SIGKILL)
    wait(lambda: lost(cluster) >= dead, "the loss is noticed")
    holding.let_go()
    wait(lambda: live(cluster) == WORKERS, "all workers are back")
    wait(lambda: executors_told(cluster) == executors(cluster), "the event log has their executors")
    query.result()
    assert_same(committed(folder / "out"), plain_map(df, lambda b: b, "id long"), ROWS)
    restarts = {worker.id: worker.restarts for worker in cluster.workers()}
    return {"killed": sorted(dead), "restarts": restarts}


def lost(cluster) -> set[int]:
    return {event["worker"] for event in cluster.events() if event["event"] == "worker-lost"}


def executors(cluster) -> dict[str, str]:
    return {str(worker.id): worker.executor for worker in cluster.workers()}


def executors_told(cluster) -> dict[str, str]:
    return [event["workers"] for event in cluster.events() if event["event"] == "executors"][-1]


def live(cluster) -> int:
    return sum(worker.state == "live" for worker in cluster.workers())


def main(folder: Path) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    builder = SparkSession.builder.master("local-cluster[3,2,1024]").appName("evenflow-tests")
    for key, value in {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    say("session", work=str(Path(_find_spark_home(), "work", spark.sparkContext.applicationId)))
    with ef.Cluster(spark, workers=WORKERS) as cluster:
        workers = cluster.workers()
        say("workers", executors=[w.executor for w in workers], hosts=[w.host for w in workers])
        batch(spark, cluster)
        say("batch")
        stream(spark, cluster, folder)
        say("stream")
        say("keyed", **keyed(spark, cluster))
        say("lost", **lose_executor(spark, cluster, folder))
        batch(spark, cluster)
        say("batch again")
        say("keyed again", **keyed(spark, cluster))
    say("stopped")
    spark.stop()
    say("end")
