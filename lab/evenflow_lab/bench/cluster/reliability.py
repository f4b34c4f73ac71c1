"""Figures of docs/reliability.md: what durability, recovery and a small memory cost, each as a ratio within one run.

Nothing is emulated here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
import typer
from pyspark.sql import DataFrame, SparkSession

import evenflow as ef
from evenflow.cli.terminal import JsonFile, embedded_spark
from evenflow.model.entries import LoadedEntry, LoadingEntry, TaskDurableEntry
from evenflow.operators.hosted import units_of
from evenflow.runtime.feeder.hashing import hashes
from evenflow.runtime.worker.limits import LIMITS
from evenflow_lab.bench.blocks import Blocks
from evenflow_lab.bench.measuring import (
    Figures,
    flat,
    in_turns,
    keyed_snapshot,
    logged,
    run_parts,
    seconds_of,
    workplace,
)
from evenflow_lab.bench.micro_batches import MicroBatches, batch_seconds
from evenflow_lab.bench.processes import resident_mb

KEYS = 16_384
BATCH = 1_000_000
Longs = npt.NDArray[np.int64]


def rolling() -> ef.RollingMean:
    """The work that is measured."""
    return ef.RollingMean("value", rows=100, into="mean")


def written(folder: Path, sizes: Sequence[int], keys: Callable[[np.random.Generator, int], Longs]) -> MicroBatches:
    """One micro-batch for each of the sizes."""
    random = np.random.default_rng(3)
    drawn = (keys(random, size) for size in sizes)
    tables = (pa.table({"key": each, "value": random.normal(size=len(each))}) for each in drawn)
    return MicroBatches(folder, "key long, value double").write(tables)


def any_key(random: np.random.Generator, size: int) -> Longs:
    """Keys at random."""
    return random.integers(0, KEYS, size)


def bytes_below(folder: Path) -> int:
    """The size of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def durable(spark: SparkSession, home: Path) -> Figures:
    """The same stream with and without a checkpoint, twice each."""
    files, turns = written(home / "in", [BATCH] * 8, any_key), count()
    ends: list[float] = []

    def seconds(stored: bool) -> list[float]:
        place = home / f"{next(turns)}"
        with ef.Cluster(spark, 3, checkpoint=place / "state" if stored else None) as cluster:
            out = cluster.keyed(files.stream(spark), "key", rolling(), balance="hash", name="means")
            taken = batch_seconds(out, place / "spark")[2:]
            ends.extend(entry.log_s + entry.note_s for entry in logged(cluster, TaskDurableEntry))
        return taken

    found = in_turns({"plain": partial(seconds, False), "durable": partial(seconds, True)}, 2)
    plain, stored = (median(flat(found[kind])) for kind in ("plain", "durable"))
    return {
        "rows_a_batch": BATCH,
        "plain_s": plain,
        "durable_s": stored,
        "of_plain": plain / stored,
        "end_ms": {"p50": 1000 * median(ends), "max": 1000 * max(ends)},
        "checkpoint_mb": max(map(bytes_below, home.glob("*/state"))) / 1e6,
    }


def drop_caches() -> bool:
    """Have the kernel forget what it has read, if we may."""
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def recovery(spark: SparkSession, home: Path) -> Figures:
    """1 GB of state on 4 workers: saved, and loaded by a new cluster; beside it, reading the same files.

    After the first batches every unit has its state. The others have a row each, and only let the workers go on saving
    until all units have a snapshot, so that it is snapshots that are loaded, and hardly any log.
    """
    sizes = [20_000] * 4 + [1] * (LIMITS.cycle + 8)
    files = written(home / "in", sizes, lambda random, size: random.integers(0, 100_000, size))

    def run(cluster: ef.Cluster) -> None:
        out = cluster.keyed(files.stream(spark), "key", Blocks(1 << 20), balance="hash", name="blocks")
        batch_seconds(out, home / "spark")

    later = sorted(files.folder.iterdir())[-2:]
    for path in later:
        path.rename(path.with_name(f"_{path.name}"))
    with ef.Cluster(spark, 4, checkpoint=home / "state") as cluster:
        run(cluster)
    for path in later:
        path.with_name(f"_{path.name}").rename(path)
    cold = drop_caches()
    began = time.perf_counter()
    size = sum(len(path.read_bytes()) for path in (home / "state").rglob("*") if path.is_file())
    reading = time.perf_counter() - began
    drop_caches()
    with ef.Cluster(spark, 4, checkpoint=home / "state") as cluster:
        run(cluster)
        asked, loaded = logged(cluster, LoadingEntry)[0], logged(cluster, LoadedEntry)
    took = max(entry.time for entry in loaded) - asked.time
    return {
        "state_mb": sum(entry.bytes for entry in loaded) / 1e6,
        "checkpoint_mb": size / 1e6,
        "rows_replayed": sum(entry.rows for entry in loaded),
        "load_s": took,
        "read_s": reading,
        "of_reading": took / reading,
        "caches_dropped": cold,
    }


def spill(spark: SparkSession, home: Path) -> Figures:
    """A batch of rows over state that fits, that is twice and that is ten times the budget."""
    rows = 6 * BATCH
    files = written(home / "in", [rows], any_key)
    state = KEYS * (100 * 16 + 80) // 3
    found: Figures = {"state_mb_a_worker": state / 1e6}
    for name, memory in (("in_memory", None), ("twice", state // 2), ("ten_times", state // 10)):
        with ef.Cluster(spark, 3, memory=memory) as cluster:
            df = spark.read.parquet(str(files.folder))
            out = cluster.keyed(df, "key", rolling(), balance="hash", name="means")

            def evaluate(out: DataFrame = out) -> object:
                return out.selectExpr("sum(mean)").collect()  # anew: one DataFrame keeps the shuffle of its first

            best = rows / min(seconds_of(evaluate) for _ in range(2))
            used = max(resident_mb(psutil.Process(worker.pid)) for worker in cluster.workers())
            found[name] = {"rows_per_s": best, "budget_mb": (memory or 0) / 1e6, "worker_rss_mb": used}
            if memory:
                found[name]["of_in_memory"] = best / found["in_memory"]["rows_per_s"]
    return found


def memory(spark: SparkSession, home: Path) -> Figures:
    """Figure 11: state falls on one worker of four, whose memory is too small for it; the cluster has room enough.

    Each balance with room and without; of each turn the second half counts, when units have moved.
    """
    units = 256
    keys = np.arange(400_000)
    mine = keys[units_of(hashes(pa.array(keys)), units + 1) % 4 == 0][:KEYS]
    files = written(home / "in", [BATCH // 2] * 20, lambda random, size: mine[random.integers(0, len(mine), size)])
    budget = len(mine) * (100 * 16 + 80) // 2
    found: Figures = {"state_mb": len(mine) * 1680 / 1e6, "budget_mb_a_worker": budget / 1e6}
    turns = count()

    def late_seconds(name: str, balance: str, given: int | None) -> list[float]:
        with ef.Cluster(spark, 4, memory=given) as cluster:
            out = cluster.keyed(
                files.stream(spark), "key", rolling(), balance=balance, name="means", tuning=ef.Tuning(units=units)
            )
            taken = batch_seconds(out, home / f"{next(turns)}")
            now = keyed_snapshot(cluster, "means")
        spilled = sum(consumer.spilled for consumer in now.consumers) / 1e6
        found[name] = {"spilled_mb": spilled, "units_moved": now.moved}
        return taken[len(taken) // 2 :]

    cases = [(balance, given) for balance in ("hash", "auto") for given in (None, budget)]
    named = {f"{balance}, {'small' if given else 'room'}": (balance, given) for balance, given in cases}
    jobs = {name: partial(late_seconds, name, *case) for name, case in named.items()}
    for name, taken in in_turns(jobs, 2, warm=1).items():  # in the first one Java warms up
        found[name]["rows_per_s"] = BATCH / 2 / median(flat(taken))
    for balance in ("hash", "auto"):
        room, small = found[f"{balance}, room"], found[f"{balance}, small"]
        small["of_room"] = small["rows_per_s"] / room["rows_per_s"]
    return found


PARTS = {"durable": durable, "recovery": recovery, "spill": spill, "memory": memory}


def main(
    only: Annotated[str, typer.Option(help="Parts to run.")] = ",".join(PARTS), json_file: JsonFile = None
) -> None:
    """Run the parts, and print the figures of each."""

    def run(part: Callable[[SparkSession, Path], Figures]) -> Figures:
        with workplace() as home:
            return part(spark, home)

    with embedded_spark(4, 2) as spark:
        run_parts({name: partial(run, part) for name, part in PARTS.items()}, only, json_file)
