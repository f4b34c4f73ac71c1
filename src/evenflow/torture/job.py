"""The driver process of a torture run: `python -m evenflow.torture.job FOLDER...` runs jobs one after the other.

It may be killed at any time, and is then started again with the same folders; a job that has ended has `ended.json`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evenflow.errors import EvenflowError, StoreError, StoreInUse
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.runtime.cluster.restarts import supervise
from evenflow.runtime.cluster.session import local_session
from evenflow.runtime.threads import BackgroundThread
from evenflow.torture import damage, query, store
from evenflow.torture.hooks import BEGUN, DRIVER, ENDED, WORK, Hooks, hooks_of
from evenflow.torture.inject import Injector
from evenflow.torture.schedule import VOID_S, Job

MOST_WORKERS = 4
SLOTS = 3
STARTS = 60
"""A query that has been started so often and fails again is given up."""
TRIES = 8
BACKOFF_S = 0.2
FINE = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
    "spark.sql.files.openCostInBytes": "128m",  # one file a partition
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.port.maxRetries": "100",
}


class QueryRefused(EvenflowError):
    """A query is not started again, because its state is damaged."""


class Attempts:
    """Starts a job's query, after a look at its last failure."""

    def __init__(self, spark: SparkSession, cluster: Cluster, folder: Path, hooks: Hooks) -> None:
        self._spark, self._cluster, self._folder, self._schedule = spark, cluster, folder, hooks.schedule
        self._query: StreamingQuery | None = None
        self._life = hooks.life
        self.starts = 0

    def __call__(self) -> StreamingQuery:
        failure = str(self._query.exception() or "") if self._query is not None else ""
        bad = any(name in failure for name in damage.names(self._folder))
        if bad or "CorruptState" in failure or "is damaged at byte" in failure:
            self._query = None
            raise QueryRefused(failure)
        if self.starts >= STARTS:
            raise EvenflowError(f"the query failed {self.starts} times; the last time: {failure}")
        self.starts += 1
        job = self._schedule.job
        place = self._life + self.starts - 1
        for name, value in packed(job.packs[place % len(job.packs)] if job.packs else 0).items():
            self._spark.conf.set(name, value)
        writer = query.writer(self._spark, self._cluster, self._folder, self._schedule)
        writer = writer.option("checkpointLocation", str(self._folder / "spark"))
        self._query = writer.trigger(availableNow=True).start()
        return self._query


def packed(partitions: int) -> dict[str, str]:
    """Spark settings for about so many partitions from a micro-batch's files; 0 for one partition a file."""
    cost = "1" if partitions else FINE["spark.sql.files.openCostInBytes"]
    return {"spark.sql.files.openCostInBytes": cost, "spark.sql.files.minPartitionNum": str(partitions or 1)}


def run(spark: SparkSession, folder: Path) -> dict[str, object]:
    """Run one job to its end; returns its starts, moved units and refused blobs."""
    hooks = hooks_of(folder)
    where = store.state_of(folder)
    refused: list[str] = []
    starts = moved = 0
    damage.strike(hooks, where)
    while True:
        try:
            with cluster_on(spark, hooks, where) as cluster:
                attempts = Attempts(spark, cluster, folder, hooks)
                try:
                    with Injector(cluster, query.regions(hooks.schedule), hooks, where) as injector:
                        _supervised(attempts, cluster, folder, refused)
                    if injector.wrong:
                        raise EvenflowError(injector.wrong)
                finally:
                    starts += attempts.starts
                    moved += sum(len(event["units"]) for event in cluster.events() if event["event"] == "moved")
            return {"starts": starts, "moved": moved, "refused": refused}
        except EvenflowError as error:  # if damaged blobs were restored, a new cluster is started
            restored = damage.restore(folder, where, str(error))
            if not restored:
                raise
            refused += restored


def _supervised(attempts: Attempts, cluster: Cluster, folder: Path, refused: list[str]) -> None:
    """Run the query until it has ended; flipped bits are restored while the cluster goes on."""
    while True:
        try:
            supervise(attempts, cluster, backoff=BACKOFF_S, healthy=1e-9)
            return
        except QueryRefused as error:
            flipped = store.flip_back(folder, str(error))
            if not flipped:
                raise EvenflowError(f"refused, and not for a blob that was flipped: {error}") from error
            refused += flipped


def cluster_on(spark: SparkSession, hooks: Hooks, where: str) -> Cluster:
    """A new cluster, after several tries: the store may fail, and a frozen driver keeps its claim for a while."""
    job, log = hooks.schedule.job, hooks.folder / "events.jsonl"
    workers = workers_of(job, hooks.life)
    options: dict[str, Any] = {"stall_timeout": job.stall_s} if job.stall_s else {}
    for attempt in range(TRIES):
        try:
            return Cluster(spark, workers, checkpoint=where, event_log=log, memory=job.memory or None, **options)
        except StoreError as error:
            if attempt + 1 == TRIES:
                raise
            time.sleep(VOID_S / TRIES * 2 if isinstance(error, StoreInUse) else BACKOFF_S)
    raise AssertionError("unreachable")


def workers_of(job: Job, life: int) -> int:
    """The number of workers of driver `life`."""
    return job.crews[life % len(job.crews)] if job.crews else job.workers


def session(job: Job, life: int) -> SparkSession:
    """The Spark session of driver `life` of a job: in one process, or with separate executors."""
    if not job.executors:
        workers = workers_of(job, life) if job.cores else MOST_WORKERS
        slots = job.cores[life % len(job.cores)] if job.cores else SLOTS
        master = {"spark.master": f"local[{workers + slots},{job.tries}]"}
        return local_session(workers, slots=slots, name="evenflow-torture", conf=FINE | master)
    builder = SparkSession.builder.master(f"local-cluster[{job.executors},3,1024]").appName("evenflow-torture")
    for key, value in (FINE | {"spark.task.maxFailures": str(job.tries)}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def die_with(parent: int) -> None:
    """Kill this process group when the parent process is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.killpg(0, signal.SIGKILL)

    def failed(error: BaseException) -> None:
        os.killpg(0, signal.SIGKILL)  # a driver that might outlive its parent must not go on

    BackgroundThread("torture parent", watch, failed).begin()


def main(folders: list[Path]) -> None:
    """Run all jobs that have not ended yet."""
    die_with(os.getppid())
    store.install()
    waiting = [folder for folder in folders if not (folder / ENDED).exists()]
    if not waiting:
        return
    hooks = hooks_of(waiting[0])
    spark = session(hooks.schedule.job, hooks.begun)
    if hooks.schedule.job.executors:
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
        if (folder / DRIVER).read_text() != str(os.getpgid(0)):
            return  # another driver has taken over while this one was frozen, and runs the rest
        beside = folder / f"{ENDED}.new"
        beside.write_text(json.dumps(told))
        beside.rename(folder / ENDED)
    spark.stop()


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
