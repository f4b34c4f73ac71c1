"""What the engine itself costs: speed beside plain Spark, start of a worker, idle cluster, memory of workers.

Every speed is a ratio within this run; pairs are measured in turn and the median is shown.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Annotated

import psutil
import typer
from pyspark.sql import SparkSession

from evenflow.cli.terminal import console, embedded_spark
from evenflow.model.entries import WorkerJoinedEntry
from evenflow.runtime.cluster.cluster import Cluster
from evenflow_lab.bench import ordered
from evenflow_lab.bench.identity import identity, numbers, rows_per_s, same
from evenflow_lab.bench.measuring import in_turns, logged, table_of
from evenflow_lab.bench.processes import children, cpu_s

ROUNDS = 5
IDLE_S = 10.0


def identity_ratio(spark: SparkSession, cluster: Cluster, balance: str, count: int) -> str:
    """The rate of an identity `ordered_map` over that of an identity `mapInArrow`."""
    rows = numbers(spark, count)
    plain = rows.mapInArrow(identity, rows.schema)
    region = cluster.ordered_map(rows, same, rows.schema, balance=balance)
    jobs = {"plain": lambda: rows_per_s(plain, count), "region": lambda: rows_per_s(region, count)}
    found = in_turns(jobs, ROUNDS, warm=1)
    ratio = statistics.median(ours / theirs for ours, theirs in zip(found["region"], found["plain"], strict=True))
    region_m, plain_m = (statistics.median(found[name]) / 1e6 for name in ("region", "plain"))
    return f"{ratio:.2f} ({region_m:.2f} of {plain_m:.2f} M rows/s)"


def memory(cluster: Cluster) -> str:
    """Resident, proportional and private memory of the worker that has most."""
    found = [psutil.Process(worker.pid).memory_full_info() for worker in cluster.workers()]
    most = {kind: max(getattr(each, kind) for each in found) / 2**20 for kind in ("rss", "pss", "uss")}
    return ", ".join(f"{kind} {size:.0f} MB" for kind, size in most.items())


def idle_shares(cluster: Cluster) -> tuple[float, float]:
    """Shares of a core that an idle cluster takes: its Python processes, and the JVM beside them."""
    python = [psutil.Process(pid) for pid in (*(worker.pid for worker in cluster.workers()), os.getpid())]
    groups = python, children("java")
    time.sleep(2)  # the start goes on in the background for a moment
    before = [cpu_s(group) for group in groups]
    time.sleep(IDLE_S)
    one, other = ((cpu_s(group) - then) / IDLE_S for group, then in zip(groups, before, strict=True))
    return one, other


def serving_s(spark: SparkSession, cluster: Cluster) -> float:
    """The longest time from the launch of a worker's task until it serves."""
    store = spark.sparkContext._jsc.sc().statusStore()
    joined = {entry.worker: entry.at for entry in logged(cluster, WorkerJoinedEntry)}
    tasks = cluster._driver.ask(lambda controller: {worker: controller.task(worker) for worker in joined})
    launched: dict[int, float] = {
        worker: store.taskList(stage, 0, 1).apply(0).launchTime().getTime() / 1e3
        for worker, (stage, _) in tasks.items()
    }
    return max(joined[worker] - launched[worker] for worker in joined)


def main(count: Annotated[int, typer.Option("--rows", help="Rows of each evaluation.")] = 20_000_000) -> None:
    """Measure, and print what was asked for beside it."""
    rows = []
    with embedded_spark(4, 1) as spark:
        with Cluster(spark, 3) as cluster:
            serving, idle = serving_s(spark, cluster), memory(cluster)
            python, java = idle_shares(cluster)
            for balance in ("credits", "round-robin"):
                ratio = identity_ratio(spark, cluster, balance, count)
                rows.append((f"ordered_map over identity mapInArrow, {balance}", ratio, "0.8"))
            used = memory(cluster)
        ordered.warm_up(spark)
        equal = ordered.run(spark, ordered.OrderedSetting(workers=4, slow=0, seconds=15), "round-robin")
    rows += [
        ("round-robin, 4 equal emulated workers, of ideal", f"{equal.of_ideal:.3f}", "0.9"),
        ("worker serves after getting its slot", f"{serving:.2f} s", "2 s"),
        ("idle cluster of 3, Python (workers and driver)", f"{python:.2%} of a core", "2 %"),
        ("  the JVM beside it", f"{java:.2%} of a core", ""),
        ("idle worker, largest", idle, "120 MB"),
        ("worker that has served, largest", used, ""),
    ]
    console.print(table_of("foundation", ("what", "measured", "asked for"), rows))
