"""The driver process of a torture run: `python -m evenflow_lab.torture.jobs.job SESSION` runs jobs one after the other.

It reads their folders from its standard input. It may be killed at any time; then another one is given the folder of
the job that has not ended: there is no `ended.json` in it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evenflow.errors import EvenflowError, StoreError, StoreInUse
from evenflow.eventlog.reading import entries_of
from evenflow.model.entries import MovedEntry, entry_of
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.runtime.cluster.spark.restarts import supervise
from evenflow.runtime.cluster.spark.session import local_session
from evenflow.runtime.threads import BackgroundThread
from evenflow.state.store.sealed import Place
from evenflow_lab.torture.faults import clock, damage, store
from evenflow_lab.torture.faults.hooks import (
    BEGUN,
    DONE,
    DRIVER,
    ENDED,
    REAL_TIME,
    RUN,
    SCHEDULE,
    SPARK,
    WORK,
    Hooks,
    hooks_of,
)
from evenflow_lab.torture.faults.inject import Injector
from evenflow_lab.torture.jobs import query, rows
from evenflow_lab.torture.jobs.query import TortureQuery
from evenflow_lab.torture.jobs.renaming import Renaming
from evenflow_lab.torture.schedule import MOST_WORKERS, VOID_S, Job, Schedule, SessionKind, place_of

STARTS = 60
"""A query that has been started so often and fails again is given up."""
TRIES = 8
START_S = 150.0
"""A cluster that has not started after this time hangs."""
BACKOFF_S = 0.2
PRACTICE = Schedule(0, Job(batches=1, rows=20, keys=2, partitions=1, workers=2, units=4, pause_s=0.0, sink="peeks"), ())
"""A job that a driver runs before its first."""
FINE = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
    "spark.sql.files.openCostInBytes": "128m",  # one file a partition
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.port.maxRetries": "100",
}


class QueryRefused(EvenflowError):
    """A query is not started again, because its state is damaged."""


class Paused(EvenflowError):
    """A query is not started again, because all are to end."""


class Attempts:
    """Starts one of a job's queries, after a look at its last failure."""

    def __init__(self, query: TortureQuery, paused: threading.Event) -> None:
        self._query, self._paused = query, paused
        self._last: StreamingQuery | None = None
        self._life = query.hooks.life
        self._renaming = Renaming(query.hooks, query.number)
        self.starts = 0

    def __call__(self) -> StreamingQuery:
        failure = str(self._last.exception() or "") if self._last is not None else ""
        if self._paused.is_set():
            raise Paused("the queries are to end, as the schedule says")
        hooks, spark = self._query.hooks, self._query.spark
        naming = self._renaming.after(failure)
        if damage.refused(hooks.folder, failure) or "CorruptState" in failure or "is damaged at byte" in failure:
            self._last = None
            raise QueryRefused(failure)
        if self.starts >= STARTS:
            raise EvenflowError(f"the query failed {self.starts} times; the last time: {failure}")
        self.starts += 1
        job, place = hooks.schedule.job, self._life + self.starts - 1
        for name, value in packed(job.packs[place % len(job.packs)] if job.packs else 0).items():
            spark.conf.set(name, value)
        writer = replace(self._query, naming=naming).writer()
        where = hooks.folder / place_of(SPARK, self._query.number)
        self._last = writer.option("checkpointLocation", str(where)).trigger(availableNow=True).start()
        return self._last


def packed(partitions: int) -> dict[str, str]:
    """Spark settings for about so many partitions from a micro-batch's files; 0 for one partition a file."""
    cost = "1" if partitions else FINE["spark.sql.files.openCostInBytes"]
    return {"spark.sql.files.openCostInBytes": cost, "spark.sql.files.minPartitionNum": str(partitions or 1)}


@dataclass(slots=True)
class DriverReport:
    """What a driver tells of a job."""

    starts: int = 0
    moved: int = 0
    refused: list[str] = field(default_factory=list)
    """What was damaged and refused."""
    error: str = ""


def run(spark: SparkSession, folder: Path) -> DriverReport:
    """Run one job to its end."""
    hooks = hooks_of(folder)
    clock.install(hooks, "driver")
    told = DriverReport()
    try:
        while not _run_cluster(spark, hooks, told):
            pass
    except EvenflowError as error:
        told.error = f"{type(error).__name__}: {error}"
    return told


def _run_cluster(spark: SparkSession, hooks: Hooks, told: DriverReport) -> bool:
    """Run the queries of a job on a new cluster; returns whether they have ended, else another cluster goes on."""
    where = store.state_of(hooks.folder)
    damage.strike(hooks)
    try:
        with cluster_on(spark, hooks, where) as cluster:
            regions = query.regions(hooks.schedule)
            try:
                with Injector(spark, cluster, regions, hooks, where, key_of(hooks)) as injector:
                    _run_queries(spark, cluster, hooks, injector, told)
            finally:
                told.moved += sum(len(entry.units) for entry in entries_of(map(entry_of, cluster.events()), MovedEntry))
        if injector.wrong:
            raise EvenflowError(injector.wrong)
        return not injector.paused.is_set()
    except EvenflowError as error:  # if what was damaged is restored, a new cluster goes on
        restored = damage.restore(hooks.folder, str(error))
        if not restored:
            raise
        told.refused += restored
        return False


def _run_queries(spark: SparkSession, cluster: Cluster, hooks: Hooks, injector: Injector, told: DriverReport) -> None:
    """Run all queries of a job side by side until all have ended; if one is given up, the others end, too."""
    queries = [TortureQuery(spark, cluster, hooks, number) for number in range(hooks.schedule.job.queries)]
    attempts = [Attempts(each, injector.paused) for each in queries]

    def supervised(each: Attempts) -> None:
        try:
            _supervised(each, cluster, hooks.folder, told)
        except Paused:
            return
        except BaseException:
            injector.pause()
            raise

    with ThreadPoolExecutor(len(attempts)) as threads:
        running = [threads.submit(supervised, each) for each in attempts]
    told.starts += sum(each.starts for each in attempts)
    for one in running:
        one.result()


def _supervised(attempts: Attempts, cluster: Cluster, folder: Path, told: DriverReport) -> None:
    """Run a query until it has ended; flipped bits are restored while the cluster goes on."""
    while True:
        try:
            supervise(attempts, cluster, backoff=BACKOFF_S, healthy=1e-9)
            return
        except QueryRefused as error:
            flipped = store.flip_back(folder, str(error))
            if not flipped:
                raise EvenflowError(f"refused, and not for a blob that was flipped: {error}") from error
            told.refused += flipped


def cluster_on(spark: SparkSession, hooks: Hooks, where: str) -> Cluster:
    """A new cluster, after several tries: the store may fail, and a frozen driver keeps its claim for a while."""
    job, log = hooks.schedule.job, hooks.folder / "events.jsonl"
    workers = workers_of(job, hooks.life)
    options: dict[str, Any] = {
        "checkpoint": Place(where, opener=store.open_faulty),
        "checkpoint_key": key_of(hooks),
        "memory": job.memory or None,
    }
    options |= {"start_timeout": START_S} | ({"stall_timeout": job.stall_s} if job.stall_s else {})
    for attempt in range(TRIES):
        try:
            return Cluster(spark, workers, event_log=log, **options)
        except StoreError as error:
            if attempt + 1 == TRIES or damage.refused(hooks.folder, str(error)):
                raise
            time.sleep(VOID_S / TRIES * 2 if isinstance(error, StoreInUse) else BACKOFF_S)
    raise AssertionError("unreachable")


def key_of(hooks: Hooks) -> str | None:
    """The key of a job's checkpoint; None if it has none."""
    return f"the key of the checkpoint of seed {hooks.schedule.seed}" if hooks.schedule.job.key else None


def workers_of(job: Job, life: int) -> int:
    """The number of workers of driver `life`."""
    return job.crews[life % len(job.crews)] if job.crews else job.workers


def session(kind: SessionKind) -> SparkSession:
    """A Spark session: in one process, or with separate executors."""
    executors, tries, slots = kind
    if not executors:
        own = slots - MOST_WORKERS
        master = {"spark.master": f"local[{slots},{tries}]"}
        return local_session(MOST_WORKERS, slots=own, name="evenflow-torture", conf=FINE | master)
    builder = SparkSession.builder.master(f"local-cluster[{executors},3,1024]").appName("evenflow-torture")
    for key, value in (FINE | {"spark.task.maxFailures": str(tries)}).items():
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


def practise(spark: SparkSession) -> None:
    """Run a small job without faults, so that Java has loaded its classes when the first real one comes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "0")
        (folder / DONE).mkdir(parents=True)
        (folder / SCHEDULE).write_text(PRACTICE.to_json())
        rows.write(rows.rows_of(PRACTICE), PRACTICE.job, folder / "in")
        run(spark, folder)


def main(kind: SessionKind) -> None:
    """Run the jobs in the folders that standard input names, one after the other."""
    die_with(os.getppid())
    spark = session(kind)
    if kind[0]:
        work = Path(_find_spark_home(), "work", spark.sparkContext.applicationId)
        with Path(os.environ[RUN], WORK).open("a") as file:
            file.write(f"{work}\n")
        spark.sparkContext.setLogLevel("OFF")
    practise(spark)
    for line in sys.stdin:
        folder = Path(line.rstrip("\n"))
        (folder / DRIVER).write_text(str(os.getpgid(0)))
        with (folder / BEGUN).open("a") as file:
            file.write(f"{REAL_TIME()}\n")
        told = run(spark, folder)
        if not folder.exists() or (folder / DRIVER).read_text() != str(os.getpgid(0)):
            break  # another driver has taken over while this one was frozen
        beside = folder / f"{ENDED}.new"
        beside.write_text(json.dumps(asdict(told)))
        beside.rename(folder / ENDED)
    spark.stop()


if __name__ == "__main__":
    main(tuple(json.loads(sys.argv[1])))
