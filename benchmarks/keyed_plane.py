"""What `Cluster.keyed` would cost as a graph of one keyed node: the same operator over the same rows, both ways.

    python -m benchmarks.keyed_plane [--rows 8000000] [--times 7] [--columns 3] [--json out/keyed_plane.json]

Both run in turns after a warm-up: a batch from one partition, then micro-batches, large and small, with and without a
checkpoint. Elapsed time depends on how fast Spark makes rows; CPU time of the workers and of the task that feeds them
does not, and is little disturbed by what else runs on the machine.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import psutil
import typer
from benchmarks.keyed_operators import KEYS, Files, rolling
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

import evenflow as ef
from evenflow_lab.bench import keyed

UNITS = 1024
WAYS = ("keyed", "graph")
Run = Callable[[str, str], float]
"""Runs one way, under a name of its own; returns the seconds it took."""
console = Console(width=130)


def applied(cluster: ef.Cluster, rows: DataFrame, way: str, name: str) -> DataFrame:
    """The rolling mean of each row's key."""
    if way == "keyed":
        return cluster.keyed(rows, "key", rolling(), units=UNITS, name=name)
    graph = ef.Graph("one")
    graph.endpoint("out", graph.source("rows").keyed("key", rolling(), units=UNITS))
    return cluster.run(graph, {"rows": rows}, name=name)["out"]


def cpu_s() -> dict[int, float]:
    """By Python process that Spark runs, the seconds of CPU time that it has used."""
    python = [each for each in psutil.Process().children(recursive=True) if each.name() != "java"]
    return {each.pid: each.cpu_times().user + each.cpu_times().system for each in python}


def turns(cluster: ef.Cluster, run: Run, rows: int, times: int) -> dict[str, Any]:
    """Both ways in turns; rows a second, and CPU seconds for a million rows, in the median."""
    workers = {worker.pid for worker in cluster.workers()}
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    used: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for turn in range(times + 1):
        for way in WAYS if turn % 2 else WAYS[::-1]:
            before = cpu_s()
            seconds = run(way, f"{way}-{turn}")
            spent = {process: cpu - before.get(process, 0.0) for process, cpu in cpu_s().items()}
            if turn:
                rates[way].append(rows / seconds)
                serving = sum(cpu for process, cpu in spent.items() if process in workers)
                used[way].append((serving * 1e6 / rows, (sum(spent.values()) - serving) * 1e6 / rows))
    ratios = [graph / own for own, graph in zip(rates["keyed"], rates["graph"], strict=True)]
    cpu = {way: [round(median(each), 4) for each in zip(*used[way], strict=True)] for way in WAYS}
    sums = {way: sum(cpu[way]) for way in WAYS}
    return {
        "rows_per_s": {way: round(median(found)) for way, found in rates.items()},
        "ratios": [round(ratio, 3) for ratio in ratios],
        "ratio": round(median(ratios), 3),
        "cpu_s_of_workers_and_feeder": cpu,
        "ratio_of_cpu": round(sums["keyed"] / sums["graph"], 3),
    }


def batch(spark: SparkSession, cluster: ef.Cluster, rows: int, columns: int, times: int) -> dict[str, Any]:
    """A batch DataFrame that costs Spark little to make."""
    key, value = F.expr(f"(id * 2654435761) % {KEYS}").alias("key"), (F.col("id") % 1000 * 0.5).alias("value")
    more = [(F.col("id") * number).alias(f"more{number}") for number in range(columns - 3)]
    given = spark.range(0, rows, 1, 1).select(F.col("id").alias("seq"), key, value, *more)
    made = {way: applied(cluster, given, way, f"batch-{way}") for way in WAYS}
    return turns(cluster, lambda way, _: keyed.timed_sum(made[way], "mean")[0], rows, times)


def stream(spark: SparkSession, cluster: ef.Cluster, files: Files, times: int) -> dict[str, Any]:
    """Micro-batches: the median one counts, as if all were like it."""

    def run(way: str, name: str) -> float:
        name = f"{files.rows}-{name}"
        return median(files.run(spark, name, lambda rows: applied(cluster, rows, way, name))[1:]) / 1e3 * files.count

    return turns(cluster, run, files.rows * files.count, times)


def parts(spark: SparkSession, rows: int, columns: int, times: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """All measurements by name."""
    for kept in (False, True):
        with tempfile.TemporaryDirectory() as directory:
            place = str(Path(directory) / "state") if kept else None
            with ef.Cluster(spark, 2, checkpoint=place) as cluster:
                what = "with" if kept else "without"
                if not kept:
                    yield f"batch of {rows:,}", batch(spark, cluster, rows, columns, times)
                for size, count in ((1_000_000, 6), (1_000, 50)):
                    files = Files.make(Path(directory) / f"{size}", size, count)
                    yield f"micro-batches of {size:,} {what} checkpoint", stream(spark, cluster, files, times)


def main(
    rows: Annotated[int, typer.Option(help="Rows of the batch.")] = 8_000_000,
    columns: Annotated[int, typer.Option(help="Columns of its rows, at least 3.")] = 3,
    times: Annotated[int, typer.Option(help="Rounds of which the median counts.")] = 7,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the figures go.")] = None,
) -> None:
    """Measure, and print each part as it is done."""
    done: dict[str, Any] = {}
    spark = ef.local_session(2, slots=2)
    try:
        for name, found in parts(spark, rows, columns, times):
            done[name] = found
            console.print(name, json.dumps(found), highlight=False, soft_wrap=True)
    finally:
        spark.stop()
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(done, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
