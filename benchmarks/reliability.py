"""Figures of docs/reliability.md: what durability, recovery and a small memory cost, each as a ratio within one run.

    .venv/bin/python benchmarks/reliability.py --json out/reliability.json [--only durable,recovery,spill,memory]

Nothing is emulated here.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import evenflow as ef
from evenflow.operators.hosted import units_of
from evenflow.runtime.feeder.hashing import hashes
from evenflow.runtime.worker.limits import LIMITS

KEYS = 16_384
BATCH = 1_000_000
console = Console(width=130)


def rolling() -> ef.RollingMean:
    """The work that is measured."""
    return ef.RollingMean("value", rows=100, into="mean")


def write(folder: Path, batches: int, keys: Callable[[np.random.Generator], np.ndarray]) -> None:
    """One file for each micro-batch."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(3)
    for number in range(batches):
        drawn = keys(random)
        table = pa.table({"key": drawn, "value": random.normal(size=len(drawn))})
        pq.write_table(table, folder / f"{number:04}.parquet")
        os.utime(folder / f"{number:04}.parquet", (1e9 + number, 1e9 + number))


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """The files, one at a time."""
    return spark.readStream.schema("key long, value double").option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(out: DataFrame, spark_checkpoint: Path) -> list[float]:
    """Seconds of each micro-batch."""
    writer = out.writeStream.format("noop").option("checkpointLocation", str(spark_checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress["durationMs"]["addBatch"] / 1000 for progress in query.recentProgress if progress["numInputRows"]]


def durable(spark: SparkSession, home: Path) -> dict[str, Any]:
    """The same stream with and without a checkpoint, twice each, in turns."""
    write(home / "in", 8, lambda random: random.integers(0, KEYS, BATCH))
    seconds: dict[str, list[float]] = {"plain": [], "durable": []}
    ends: list[float] = []
    for turn in range(4):
        kind = "durable" if turn % 2 else "plain"
        state = home / f"state{turn}" if turn % 2 else None
        with ef.Cluster(spark, 3, checkpoint=state) as cluster:
            out = cluster.keyed(stream(spark, home / "in"), "key", rolling(), balance="hash", name="means")
            seconds[kind] += run(out, home / f"spark{turn}")[2:]
            ends += [e["log_s"] + e["note_s"] for e in cluster.events() if e["event"] == "task-durable"]
    medians = {kind: statistics.median(found) for kind, found in seconds.items()}
    size = sum(path.stat().st_size for path in (home / "state3").rglob("*") if path.is_file())
    return {
        "rows_a_batch": BATCH,
        "plain_s": medians["plain"],
        "durable_s": medians["durable"],
        "of_plain": medians["plain"] / medians["durable"],
        "end_ms": {"p50": 1000 * statistics.median(ends), "max": 1000 * max(ends)},
        "checkpoint_mb": size / 1e6,
    }


class Blocks(ef.KeyedOperator):
    """A megabyte of state for each unit that has had a row."""

    def __init__(self) -> None:
        self._blocks: dict[int, np.ndarray] = {}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """What came in."""
        return rows

    def process(self, rows: pa.RecordBatch, units: np.ndarray, keys: np.ndarray) -> pa.RecordBatch:
        """Count the rows of each unit in its block."""
        for unit, count in zip(*np.unique(units, return_counts=True), strict=True):
            block = self._blocks.setdefault(int(unit), np.full(1 << 17, unit, np.int64))
            block[0] += count
        return rows

    def extract(self, unit: int) -> Any:
        """The block."""
        return self._blocks.pop(unit, None)

    def install(self, unit: int, state: Any) -> None:
        """The block."""
        self._blocks[unit] = state

    def size(self, unit: int) -> int:
        """A megabyte, or nothing."""
        return self._blocks[unit].nbytes if unit in self._blocks else 0


def drop_caches() -> bool:
    """Have the kernel forget what it has read, if we may."""
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def recovery(spark: SparkSession, home: Path) -> dict[str, Any]:
    """1 GB of state on 4 workers: saved, and loaded by a new cluster; beside it, reading the same files.

    After the first batches every unit has its state. The others have a row each, and only let the workers go on saving
    until all units have a snapshot, so that it is snapshots that are loaded, and hardly any log.
    """
    sizes = iter([20_000] * 4 + [1] * (LIMITS.cycle + 8))
    write(home / "in", LIMITS.cycle + 12, lambda random: random.integers(0, 100_000, next(sizes)))
    later = sorted((home / "in").iterdir())[-2:]
    for path in later:
        path.rename(path.with_name(f"_{path.name}"))
    with ef.Cluster(spark, 4, checkpoint=home / "state") as cluster:
        run(cluster.keyed(stream(spark, home / "in"), "key", Blocks(), balance="hash", name="blocks"), home / "spark")
    for path in later:
        path.with_name(f"_{path.name}").rename(path)
    cold = drop_caches()
    began = time.perf_counter()
    size = sum(len(path.read_bytes()) for path in (home / "state").rglob("*") if path.is_file())
    reading = time.perf_counter() - began
    drop_caches()
    with ef.Cluster(spark, 4, checkpoint=home / "state") as cluster:
        run(cluster.keyed(stream(spark, home / "in"), "key", Blocks(), balance="hash", name="blocks"), home / "spark")
        events = cluster.events()
    asked = next(event["time"] for event in events if event["event"] == "loading")
    loaded = [event for event in events if event["event"] == "loaded"]
    took = max(event["time"] for event in loaded) - asked
    return {
        "state_mb": sum(event["bytes"] for event in loaded) / 1e6,
        "checkpoint_mb": size / 1e6,
        "rows_replayed": sum(event["rows"] for event in loaded),
        "load_s": took,
        "read_s": reading,
        "of_reading": took / reading,
        "caches_dropped": cold,
    }


def spill(spark: SparkSession, home: Path) -> dict[str, Any]:
    """A batch of rows over state that fits, that is twice and that is ten times the budget."""
    rows = 6 * BATCH
    write(home / "in", 1, lambda random: random.integers(0, KEYS, rows))
    state = KEYS * (100 * 16 + 80) // 3
    found: dict[str, Any] = {"state_mb_a_worker": state / 1e6}
    for name, memory in (("in_memory", None), ("twice", state // 2), ("ten_times", state // 10)):
        with ef.Cluster(spark, 3, memory=memory) as cluster:
            df = spark.read.parquet(str(home / "in"))
            out = cluster.keyed(df, "key", rolling(), balance="hash", name="means")
            best = 0.0
            for _ in range(2):
                began = time.perf_counter()
                out.selectExpr("sum(mean)").collect()
                best = max(best, rows / (time.perf_counter() - began))
            used = max(_resident(worker.pid) for worker in cluster.workers())
            found[name] = {"rows_per_s": best, "budget_mb": (memory or 0) / 1e6, "worker_rss_mb": used / 1e6}
            if memory:
                found[name]["of_in_memory"] = best / found["in_memory"]["rows_per_s"]
    return found


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory(spark: SparkSession, home: Path) -> dict[str, Any]:
    """Figure 11: state falls on one worker of four, whose memory is too small for it; the cluster has room enough.

    Each balance with room and without, in turns; of each turn the second half counts, when units have moved.
    """
    units = 256
    keys = np.arange(400_000)
    mine = keys[units_of(hashes(pa.array(keys)), units + 1) % 4 == 0][:KEYS]
    write(home / "in", 20, lambda random: mine[random.integers(0, len(mine), BATCH // 2)])
    budget = len(mine) * (100 * 16 + 80) // 2
    found: dict[str, Any] = {"state_mb": len(mine) * 1680 / 1e6, "budget_mb_a_worker": budget / 1e6}
    seconds: dict[str, list[float]] = {}
    for turn in range(3):  # the first one is Java's, to warm up
        for balance, given in (("hash", None), ("hash", budget), ("auto", None), ("auto", budget)):
            name = f"{balance}, {'small' if given else 'room'}"
            with ef.Cluster(spark, 4, memory=given) as cluster:
                df = stream(spark, home / "in")
                out = cluster.keyed(df, "key", rolling(), balance=balance, name="means", tuning=ef.Tuning(units=units))
                taken = run(out, home / f"spark-{name}-{turn}")
                if turn:
                    seconds.setdefault(name, []).extend(taken[len(taken) // 2 :])
                now = cluster.region("means").snapshot()
            found[name] = {"spilled_mb": sum(c.spilled for c in now.consumers) / 1e6, "units_moved": now.moved}
    for name, taken in seconds.items():
        found[name]["rows_per_s"] = BATCH / 2 / statistics.median(taken)
    for balance in ("hash", "auto"):
        room, small = found[f"{balance}, room"], found[f"{balance}, small"]
        small["of_room"] = small["rows_per_s"] / room["rows_per_s"]
    return found


PARTS = {"durable": durable, "recovery": recovery, "spill": spill, "memory": memory}


def main(
    only: Annotated[str, typer.Option(help="Parts to run.")] = ",".join(PARTS),
    json_file: Annotated[Path, typer.Option("--json", help="Where the figures go.")] = Path("out/reliability.json"),
) -> None:
    """Run the parts and print their figures."""
    spark = ef.local_session(4, slots=2)
    found: dict[str, Any] = {}
    json_file.parent.mkdir(parents=True, exist_ok=True)
    try:
        for name in only.split(","):
            home = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
            try:
                found[name] = PARTS[name](spark, home)
            finally:
                shutil.rmtree(home)
            console.print(f"{name}: {json.dumps(found[name], indent=1)}", highlight=False)
            json_file.write_text(json.dumps(found, indent=1) + "\n")
    finally:
        spark.stop()


if __name__ == "__main__":
    typer.run(main)
