"""Rows that wait for their time, far more than fit into memory: are results right, how fast is it, what does it take.

    .venv/bin/python benchmarks/lateness.py [--rate 100000] [--lateness 600] [--seconds 750] [--memory 256m]

A stream whose rows are `rate` to a second of their own time, fed as fast as it goes, with order_by and lateness: rate
times lateness of them wait at once. What comes out is compared with what must: rows, their sum, and each key's running
count.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

import evenflow as ef

WORKERS = 2
KEYS = 16_384
FILES = 2
"""A micro-batch comes from so many partitions."""
NAME = "late"
console = Console(width=130)


class Peaks(threading.Thread):
    """Watches how much memory some processes take, and the workers' files."""

    def __init__(self, processes: dict[str, psutil.Process], cluster: ef.Cluster) -> None:
        super().__init__(daemon=True)
        self._processes, self._cluster = processes, cluster
        self._done = threading.Event()
        self.start_mb = {name: _megabytes(process) for name, process in processes.items()}
        self.above_mb = dict.fromkeys(processes, 0.0)
        self.spilled_mb = 0.0

    def run(self) -> None:
        """Until it is told to stop."""
        while not self._done.wait(0.2):
            for name, process in self._processes.items():
                above = _megabytes(process) - self.start_mb[name]
                self.above_mb[name] = max(self.above_mb[name], above)
            found = sum(consumer.spilled for consumer in self._cluster.region(NAME).snapshot().consumers) / 1e6
            self.spilled_mb = max(self.spilled_mb, found)

    def stop(self) -> None:
        """End."""
        self._done.set()
        self.join()


def _megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 1e6


def workers_of() -> list[psutil.Process]:
    """The cluster's workers: before any query, nothing else runs Python below this process."""
    daemons = [each for each in psutil.Process().children(recursive=True) if "python" in each.name()]
    return [each for each in daemons if not each.children()]


def feed(spark: SparkSession, directory: Path, starts: list[int], rows: int, rate: int) -> DataFrame:
    """A stream with `rows` rows from each of the starts on: files name these, Spark counts. Oldest first."""
    directory.mkdir()
    for number, start in enumerate(starts):
        path = directory / f"{number:05}.parquet"
        pq.write_table(pa.table({"start": pa.array([start], pa.int64())}), path)
        os.utime(path, (number + 1, number + 1))
    files = spark.readStream.schema("start long").option("maxFilesPerTrigger", FILES).parquet(str(directory))
    seq = F.explode(F.sequence(F.col("start"), F.col("start") + (rows - 1))).alias("seq")
    at = F.timestamp_micros((F.col("seq") * (1_000_000 / rate)).cast("long")).alias("at")
    return files.select(seq).select("seq", (F.col("seq") % KEYS).alias("key"), at)


def run(out: DataFrame, directory: Path) -> tuple[dict[str, int], float]:
    """What came out, and seconds."""
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
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    return sums, time.perf_counter() - started


def main(
    rate: Annotated[int, typer.Option(help="Rows a second of their own time.")] = 100_000,
    lateness: Annotated[int, typer.Option(help="Seconds that rows wait.")] = 600,
    seconds: Annotated[int, typer.Option(help="Of the rows' own time.")] = 750,
    batch: Annotated[int, typer.Option(help="Rows of a micro-batch.")] = 1_000_000,
    memory: Annotated[str, typer.Option(help="Of each worker.")] = "256m",
) -> None:
    """Run it, and print what it took."""
    each = batch // FILES
    total = rate * seconds // batch * batch
    spark = ef.local_session(WORKERS, slots=FILES)
    directory = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
    try:
        with ef.Cluster(spark, WORKERS, memory=memory) as cluster:
            processes = {f"worker {number}": each for number, each in enumerate(workers_of())}
            if len(processes) != WORKERS:
                raise RuntimeError(f"{len(processes)} processes look like the {WORKERS} workers")

            def counted(rows: DataFrame, name: str) -> DataFrame:
                operator = ef.RunningCount("seq", into="n")
                return cluster.keyed(rows, "key", operator, order_by="at", lateness=lateness, name=name)

            few = feed(spark, directory / "few", [0, 1000], 1000, rate)
            run(counted(few, "few"), directory / "first")  # imports, compiles
            peaks = Peaks(processes | {"driver": psutil.Process()}, cluster)
            rows = counted(feed(spark, directory / "in", list(range(0, total, each)), each, rate), NAME)
            peaks.start()
            found, took = run(rows, directory / "second")
            peaks.stop()
    finally:
        spark.stop()
        shutil.rmtree(directory)
    out = max(0, total - 1 - rate * lateness)
    expected = {"rows": out, "sum": out * (out - 1) // 2, "wrong": 0}
    figures: dict[str, Any] = {
        "rows_in": total,
        "waiting_at_most": min(total, rate * lateness),
        "rows_out": found["rows"],
        "right": {name: found[name] for name in expected} == expected,
        "micro_batches": found["batches"],
        "seconds": round(took, 1),
        "rows_per_s": round(total / took),
        "memory": memory,
        "start_mb": {name: round(value) for name, value in peaks.start_mb.items()},
        "above_start_mb": {name: round(value) for name, value in peaks.above_mb.items()},
        "spilled_at_most_mb": round(peaks.spilled_mb),
    }
    console.print(json.dumps(figures, indent=1), highlight=False)
    if not figures["right"]:
        raise RuntimeError(f"{found} came out instead of {expected}")


if __name__ == "__main__":
    typer.run(main)
