"""What the engine itself costs: speed against plain Spark, and what an idle cluster takes.

    .venv/bin/python benchmarks/foundation.py

Every speed is a ratio within this run; machines are noisy, so pairs are measured in turn and the median is shown.
"""

from __future__ import annotations

import os
import statistics
import time

import psutil
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import evenflow as ef
from evenflow_lab.bench import ordered

ROWS = 20_000_000
ROUNDS = 5
IDLE_S = 10.0


def seconds(df: DataFrame) -> float:
    started = time.perf_counter()
    df.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def identity_ratio(spark: SparkSession, cluster: ef.Cluster, balance: str) -> tuple[float, float, float]:
    """Rows a second of an identity `mapInArrow`, of an identity `ordered_map`, and the median of their ratios."""
    df = spark.range(0, ROWS, 1, 1).selectExpr("id", "cast(id as double) value")
    plain = df.mapInArrow(lambda batches: batches, df.schema)
    region = cluster.ordered_map(df, lambda batch: batch, df.schema, balance=balance)
    seconds(plain), seconds(region)  # warm
    pairs = [(seconds(plain), seconds(region)) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in pairs)
    return ROWS / statistics.median(a for a, _ in pairs), ROWS / statistics.median(b for _, b in pairs), ratio


def memory_mb(pid: int) -> dict[str, float]:
    """Resident, proportional and private memory of a process."""
    fields = psutil.Process(pid).memory_full_info()
    return {"rss": fields.rss / 2**20, "pss": fields.pss / 2**20, "uss": fields.uss / 2**20}


def cpu_s(pids: list[int]) -> float:
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def idle_share(cluster: ef.Cluster) -> tuple[float, float]:
    """Shares of a core that an idle cluster takes: its Python processes, and the JVM beside them."""
    python = [worker.pid for worker in cluster.workers()] + [os.getpid()]
    java = [child.pid for child in psutil.Process().children() if "java" in child.name()]
    time.sleep(2)  # let what the start left behind settle
    before = cpu_s(python), cpu_s(java)
    time.sleep(IDLE_S)
    return (cpu_s(python) - before[0]) / IDLE_S, (cpu_s(java) - before[1]) / IDLE_S


def serving_s(spark: SparkSession, cluster: ef.Cluster) -> float:
    """Longest time from a worker's task being launched to its serving."""
    store = spark.sparkContext._jsc.sc().statusStore()
    joined = {e["worker"]: e["at"] for e in cluster.events() if e["event"] == "worker-joined"}
    tasks = cluster._driver.ask(lambda controller: {w: controller.task(w) for w in joined})
    launched = {w: store.taskList(stage, 0, 1).apply(0).launchTime().getTime() / 1e3 for w, (stage, _) in tasks.items()}
    return max(joined[worker] - launched[worker] for worker in joined)


def main() -> None:
    console = Console()
    table = Table("what", "measured", "asked for", title="foundation")
    spark = ef.local_session(workers=4, slots=1)
    try:
        with ef.Cluster(spark, workers=3) as cluster:
            serving = serving_s(spark, cluster)
            idle = [memory_mb(worker.pid) for worker in cluster.workers()]
            python, java = idle_share(cluster)
            for balance in ("credits", "round-robin"):
                plain, region, ratio = identity_ratio(spark, cluster, balance)
                figures = f"{ratio:.2f} ({region / 1e6:.2f} of {plain / 1e6:.2f} M rows/s)"
                table.add_row(f"ordered_map over identity mapInArrow, {balance}", figures, "0.8")
            used = [memory_mb(worker.pid) for worker in cluster.workers()]
        ordered.warm_up(spark)
        equal = ordered.run(spark, ordered.OrderedSetting(workers=4, slow=0, seconds=15), "round-robin")
        table.add_row("round-robin, 4 equal emulated workers, of ideal", f"{equal.of_ideal:.3f}", "0.9")
    finally:
        spark.stop()
    table.add_row("worker serves after getting its slot", f"{serving:.2f} s", "2 s")
    table.add_row("idle cluster of 3, Python (workers and driver)", f"{python:.2%} of a core", "2 %")
    table.add_row("  the JVM beside it", f"{java:.2%} of a core", "")
    for name, found in (("idle worker", idle), ("worker that has served", used)):
        figures = ", ".join(f"{kind} {max(m[kind] for m in found):.0f} MB" for kind in ("rss", "pss", "uss"))
        table.add_row(f"{name}, largest", figures, "120 MB" if name == "idle worker" else "")
    console.print(table)


if __name__ == "__main__":
    main()
