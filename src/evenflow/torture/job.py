"""The child of a torture run: the driver of some jobs, one after the other. `python -m evenflow.torture.job FOLDER...`.

It may be killed at any time, and is then started again with the same folders; what has ended has an `ended.json`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evenflow.errors import EvenflowError, StoreError
from evenflow.runtime.cluster import Cluster
from evenflow.runtime.session import local_session
from evenflow.runtime.supervise import supervise
from evenflow.runtime.threads import heard
from evenflow.torture import store
from evenflow.torture.hooks import BEGUN, DRIVER, ENDED, STATE, WORK, Hooks, hooks_of
from evenflow.torture.inject import Injector
from evenflow.torture.operator import Counted, Slowly
from evenflow.torture.rows import SCHEMA
from evenflow.torture.schedule import Job

REGION = "counted"
MOST_WORKERS = 4
SLOTS = 3
STARTS = 60
"""A query that fails so often does not go through."""
TRIES = 8
BACKOFF_S = 0.2
FINE = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
    "spark.sql.files.openCostInBytes": "128m",  # one file a partition
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.port.maxRetries": "100",
}


class Refused(EvenflowError):
    """A query was not started again, because state is damaged."""


class Attempts:
    """Starts a job's query, and looks at how it failed before."""

    def __init__(self, spark: SparkSession, cluster: Cluster, folder: Path, hooks: Hooks) -> None:
        self._spark, self._cluster, self._folder, self._job = spark, cluster, folder, hooks.schedule.job
        self._query: StreamingQuery | None = None
        self.starts = 0

    def __call__(self) -> StreamingQuery:
        failure = str(self._query.exception() or "") if self._query is not None else ""
        if "CorruptState" in failure or "is damaged at byte" in failure:
            self._query = None
            raise Refused(failure)
        if self.starts >= STARTS:
            raise EvenflowError(f"the query failed {self.starts} times; the last time: {failure}")
        self.starts += 1
        files = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", self._job.partitions)
        rows = files.parquet(str(self._folder / "in")).mapInArrow(Slowly(self._job.pause_s), SCHEMA)
        operator = Counted(str(self._folder), self._job.ballast)
        job = self._job
        out = self._cluster.keyed(
            rows, "k", operator, units=job.units, ordered=job.ordered, transfer=job.transfer, name=REGION
        )
        writer = out.writeStream.format("parquet").option("checkpointLocation", str(self._folder / "spark"))
        self._query = writer.option("path", str(self._folder / "out")).trigger(availableNow=True).start()
        return self._query


def run(spark: SparkSession, folder: Path) -> dict[str, object]:
    """One job to its end; what there is to tell."""
    hooks = hooks_of(folder)
    refused: list[str] = []
    job = hooks.schedule.job
    with cluster_on(spark, job, folder) as cluster:
        attempts = Attempts(spark, cluster, folder, hooks)
        with Injector(cluster, REGION, hooks, folder / "spark" / "offsets"):
            while True:
                try:
                    supervise(attempts, cluster, backoff=BACKOFF_S, healthy=1e-9)
                    break
                except Refused as error:
                    damaged = store.flip_back(folder, str(error))
                    if not damaged:
                        raise EvenflowError(f"refused, and not for a blob that was damaged: {error}") from error
                    refused += damaged
        moved = sum(len(event["units"]) for event in cluster.events() if event["event"] == "moved")
    return {"starts": attempts.starts, "moved": moved, "refused": refused}


def cluster_on(spark: SparkSession, job: Job, folder: Path) -> Cluster:
    """A cluster; a store that fails now and then may fail just now."""
    for attempt in range(TRIES):
        try:
            log = folder / "events.jsonl"
            return Cluster(spark, job.workers, checkpoint=folder / STATE, event_log=log, memory=job.memory or None)
        except StoreError:
            if attempt + 1 == TRIES:
                raise
            time.sleep(BACKOFF_S)
    raise AssertionError("unreachable")


def session(job: Job) -> SparkSession:
    """Spark in one process, or with executors of their own."""
    if not job.executors:
        master = {"spark.master": f"local[{MOST_WORKERS + SLOTS},{job.tries}]"}
        return local_session(MOST_WORKERS, slots=SLOTS, name="evenflow-torture", conf=FINE | master)
    builder = SparkSession.builder.master(f"local-cluster[{job.executors},3,1024]").appName("evenflow-torture")
    for key, value in (FINE | {"spark.task.maxFailures": str(job.tries)}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def die_with(parent: int) -> None:
    """End when the process that started this one is gone, however it went."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.killpg(0, signal.SIGKILL)

    def failed(error: BaseException) -> None:
        os.killpg(0, signal.SIGKILL)  # as if the parent were gone: rather no driver than one that nobody can end

    threading.Thread(target=heard, args=(watch, failed), name="evenflow-torture-parent", daemon=True).start()


def main(folders: list[Path]) -> None:
    """All jobs that have not ended yet."""
    die_with(os.getppid())
    store.install()
    waiting = [folder for folder in folders if not (folder / ENDED).exists()]
    if not waiting:
        return
    job = hooks_of(waiting[0]).schedule.job
    spark = session(job)
    if job.executors:
        work = Path(_find_spark_home(), "work", spark.sparkContext.applicationId)
        with (waiting[0].parent / WORK).open("a") as file:
            file.write(f"{work}\n")
        spark.sparkContext.setLogLevel("OFF")
    for folder in waiting:
        (folder / DRIVER).write_text(str(os.getpgid(0)))
        with (folder / BEGUN).open("a") as file:
            file.write(f"{time.time()}\n")
        try:
            told = run(spark, folder)
        except (EvenflowError, OSError) as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        beside = folder / f"{ENDED}.new"
        beside.write_text(json.dumps(told))
        beside.rename(folder / ENDED)
    spark.stop()


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
