"""Rows that wait for their time, far more than fit into memory: whether results are right, speed, memory and disk.

A stream whose rows are `rate` to a second of their own time, fed as fast as it goes, with order_by and lateness: rate
times lateness of them wait at once. What comes out is compared with what must: rows, their sum, and each key's running
count.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import psutil
import pyarrow as pa
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.cli.terminal import console, embedded_spark
from evenflow_lab.bench.measuring import Figures, keyed_snapshot, workplace
from evenflow_lab.bench.micro_batches import MicroBatches
from evenflow_lab.bench.processes import children, resident_mb

WORKERS = 2
KEYS = 16_384
FILES = 2
"""A micro-batch comes from so many partitions."""
NAME = "late"


class Peaks:
    """Watches how much memory some processes take, and the workers' files."""

    def __init__(self, processes: dict[str, psutil.Process], cluster: ef.Cluster) -> None:
        self._processes, self._cluster = processes, cluster
        self._done = threading.Event()
        self.start_mb = {name: resident_mb(process) for name, process in processes.items()}
        self.above_mb = dict.fromkeys(processes, 0.0)
        self.spilled_mb = 0.0

        self._pool = ThreadPoolExecutor(1)

    def start(self) -> None:
        """Begin to watch."""
        self._watched = self._pool.submit(self._watch)

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            for name, process in self._processes.items():
                above = resident_mb(process) - self.start_mb[name]
                self.above_mb[name] = max(self.above_mb[name], above)
            found = sum(consumer.spilled for consumer in keyed_snapshot(self._cluster, NAME).consumers) / 1e6
            self.spilled_mb = max(self.spilled_mb, found)

    def stop(self) -> None:
        """End; raises what went wrong while it watched."""
        self._done.set()
        self._pool.shutdown()
        self._watched.result()

    def figures(self) -> Figures:
        """What processes had at the start and above that, and the most that was on disk, in megabytes."""
        return {
            "start_mb": {name: round(value) for name, value in self.start_mb.items()},
            "above_start_mb": {name: round(value) for name, value in self.above_mb.items()},
            "spilled_at_most_mb": round(self.spilled_mb),
        }


def workers_of() -> list[psutil.Process]:
    """The cluster's workers: before any query, nothing else runs Python below this process."""
    return [each for each in children("python") if not each.children()]


def feed(spark: SparkSession, directory: Path, starts: Sequence[int], rows: int, rate: int) -> DataFrame:
    """A stream with `rows` rows from each of the starts on: files name these, Spark counts. Oldest first."""
    tables = (pa.table({"start": pa.array([start], pa.int64())}) for start in starts)
    files = MicroBatches(directory, "start long", trigger=FILES).write(tables).stream(spark)
    seq = F.explode(F.sequence(F.col("start"), F.col("start") + (rows - 1))).alias("seq")
    at = F.timestamp_micros((F.col("seq") * (1_000_000 / rate)).cast("long")).alias("at")
    return files.select(seq).select("seq", (F.col("seq") % KEYS).alias("key"), at)


def run(out: DataFrame, directory: Path) -> tuple[dict[str, int], float]:
    """Counts of the rows that came out, and seconds."""
    sums = {"rows": 0, "sum": 0, "wrong": 0, "batches": 0}
    expected = F.floor(F.col("seq") / KEYS) + 1

    def add(batch: DataFrame, number: int) -> None:
        wrong = F.sum(F.when(F.col("n") == expected, 0).otherwise(1))
        rows, total, bad = batch.agg(F.count("*"), F.sum("seq"), wrong).collect()[0]
        for name, value in (("rows", rows), ("sum", total), ("wrong", bad), ("batches", 1)):
            sums[name] += int(value or 0)

    started = time.perf_counter()
    stream = out.writeStream.foreachBatch(add).option("checkpointLocation", str(directory))
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    return sums, time.perf_counter() - started


def right(found: dict[str, int], rows: int) -> bool:
    """Whether just the first `rows` rows came out, each once and with the right count."""
    return found["rows"] == rows and found["sum"] == rows * (rows - 1) // 2 and not found["wrong"]


def main(
    rate: Annotated[int, typer.Option(help="Rows a second of their own time.")] = 100_000,
    lateness: Annotated[int, typer.Option(help="Seconds that rows wait.")] = 600,
    seconds: Annotated[int, typer.Option(help="Of the rows' own time.")] = 750,
    batch: Annotated[int, typer.Option(help="Rows of a micro-batch.")] = 1_000_000,
    memory: Annotated[str, typer.Option(help="Of each worker.")] = "256m",
) -> None:
    """Run it, and print what it took."""
    total = rate * seconds // batch * batch
    starts = range(0, total, batch // FILES)
    with (
        embedded_spark(WORKERS, FILES) as spark,
        workplace() as home,
        ef.Cluster(spark, WORKERS, memory=memory) as cluster,
    ):
        processes = {f"worker {number}": each for number, each in enumerate(workers_of())}
        if len(processes) != WORKERS:
            raise RuntimeError(f"{len(processes)} processes look like the {WORKERS} workers")

        def counted(name: str, starts: Sequence[int], rows: int) -> DataFrame:
            fed = feed(spark, home / name, starts, rows, rate)
            operator = ef.RunningCount("seq", into="n")
            return cluster.keyed(fed, "key", operator, order_by="at", lateness=lateness, name=name)

        run(counted("few", [0, 1000], 1000), home / "first")  # imports, compiles
        peaks = Peaks(processes | {"driver": psutil.Process()}, cluster)
        rows = counted(NAME, starts, batch // FILES)
        peaks.start()
        found, took = run(rows, home / "second")
        peaks.stop()
    figures: Figures = {
        "rows_in": total,
        "waiting_at_most": min(total, rate * lateness),
        "rows_out": found["rows"],
        "right": right(found, max(0, total - 1 - rate * lateness)),
        "micro_batches": found["batches"],
        "seconds": round(took, 1),
        "rows_per_s": round(total / took),
        "memory": memory,
        **peaks.figures(),
    }
    console.print(json.dumps(figures, indent=1), highlight=False)
    if not figures["right"]:
        raise RuntimeError(f"what came out is wrong: {found}")
