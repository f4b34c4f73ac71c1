"""What `Cluster.keyed` would cost as a graph of one keyed node: the same operator over the same rows, both ways.

Both run in turns after a warm-up: a batch from one partition, then micro-batches, large and small, with and without a
checkpoint. Elapsed time depends on how fast Spark makes rows; CPU time of the workers and of the task that feeds them
does not, and is little disturbed by what else runs on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import psutil
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.cli.terminal import JsonFile, console, embedded_spark, write_figures
from evenflow_lab.bench import keyed
from evenflow_lab.bench.cluster.reliability import KEYS, any_key, rolling, written
from evenflow_lab.bench.measuring import Figures, in_turns, workplace
from evenflow_lab.bench.micro_batches import batch_seconds

UNITS = 1024
WAYS = ("keyed", "graph")


def applied(cluster: ef.Cluster, rows: DataFrame, way: str, name: str) -> DataFrame:
    """The rolling mean of each row's key."""
    if way == "keyed":
        return cluster.keyed(rows, "key", rolling(), tuning=ef.Tuning(units=UNITS), name=name)
    graph = ef.Graph("one")
    graph.endpoint("out", graph.source("rows").keyed("key", rolling(), units=UNITS))
    return cluster.run(graph, {"rows": rows}, name=name)["out"]


def cpu_s() -> dict[int, float]:
    """By Python process that Spark runs, the seconds of CPU time that it has used."""
    python = [each for each in psutil.Process().children(recursive=True) if each.name() != "java"]
    return {each.pid: each.cpu_times().user + each.cpu_times().system for each in python}


def turns(cluster: ef.Cluster, run: Callable[[str], float], rows: int, times: int) -> Figures:
    """Both ways in turns; rows a second, and CPU seconds for a million rows, in the median."""
    workers = {worker.pid for worker in cluster.workers()}

    def measured(way: str) -> tuple[float, float, float]:
        before, seconds = cpu_s(), run(way)
        spent = {process: cpu - before.get(process, 0.0) for process, cpu in cpu_s().items()}
        serving = sum(cpu for process, cpu in spent.items() if process in workers)
        return rows / seconds, serving * 1e6 / rows, (sum(spent.values()) - serving) * 1e6 / rows

    found = in_turns({way: partial(measured, way) for way in WAYS}, times, warm=1)
    ratios = [graph[0] / own[0] for own, graph in zip(found["keyed"], found["graph"], strict=True)]
    middle = {way: [median(each) for each in zip(*found[way], strict=True)] for way in WAYS}
    return {
        "rows_per_s": {way: round(middle[way][0]) for way in WAYS},
        "ratios": [round(ratio, 3) for ratio in ratios],
        "ratio": round(median(ratios), 3),
        "cpu_s_of_workers_and_feeder": {way: [round(each, 4) for each in middle[way][1:]] for way in WAYS},
        "ratio_of_cpu": round(sum(middle["keyed"][1:]) / sum(middle["graph"][1:]), 3),
    }


def batch(spark: SparkSession, cluster: ef.Cluster, rows: int, columns: int, times: int) -> Figures:
    """A batch DataFrame that costs Spark little to make."""
    key, value = F.expr(f"(id * 2654435761) % {KEYS}").alias("key"), (F.col("id") % 1000 * 0.5).alias("value")
    more = [(F.col("id") * number).alias(f"more{number}") for number in range(columns - 3)]
    given = spark.range(0, rows, 1, 1).select(F.col("id").alias("seq"), key, value, *more)
    made = {way: applied(cluster, given, way, f"batch-{way}") for way in WAYS}
    return turns(cluster, lambda way: keyed.timed_sum(made[way], "mean")[0], rows, times)


def stream(spark: SparkSession, cluster: ef.Cluster, folder: Path, size: int, count: int, times: int) -> Figures:
    """Micro-batches: the median one counts, as if all were like it."""
    files, started = written(folder, [size] * count, any_key), iter(range(1000))

    def run(way: str) -> float:
        name = f"{size}-{way}-{next(started)}"
        return median(batch_seconds(applied(cluster, files.stream(spark), way, name), folder / name)[1:]) * count

    return turns(cluster, run, size * count, times)


def parts(spark: SparkSession, home: Path, rows: int, columns: int, times: int) -> Iterator[tuple[str, Figures]]:
    """All measurements by name."""
    for kept in ("without", "with"):
        with ef.Cluster(spark, 2, checkpoint=home / "state" if kept == "with" else None) as cluster:
            if kept == "without":
                yield f"batch of {rows:,}", batch(spark, cluster, rows, columns, times)
            for size, count in ((1_000_000, 6), (1_000, 50)):
                figures = stream(spark, cluster, home / f"{kept}-{size}", size, count, times)
                yield f"micro-batches of {size:,} {kept} checkpoint", figures


def main(
    rows: Annotated[int, typer.Option(help="Rows of the batch.")] = 8_000_000,
    columns: Annotated[int, typer.Option(help="Columns of its rows, at least 3.")] = 3,
    times: Annotated[int, typer.Option(help="Rounds of which the median counts.")] = 7,
    json_file: JsonFile = None,
) -> None:
    """Measure, and print each part as it is done."""
    done: Figures = {}
    with embedded_spark(2, 2) as spark, workplace() as home:
        for name, found in parts(spark, home, rows, columns, times):
            done[name] = found
            console.print(name, found)
    write_figures(json_file, done)
