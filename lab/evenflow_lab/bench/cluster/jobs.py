"""The jobs of `against`, and the process that runs them for one tree.

They use the public names of Evenflow only, with the modules here that do so, too: the tree may be of an older commit.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

import evenflow as ef
from evenflow_lab.bench.identity import COLUMNS, chain, numbers, rows_per_s, same
from evenflow_lab.bench.micro_batches import MicroBatches, batch_seconds

WORKERS = 3
ROWS = 5_000_000
BATCHES, BATCH, KEYS = 7, 500_000, 16_384
WARM = 3
"""Micro-batches that do not count."""


def ordered(spark: SparkSession, home: Path) -> float:
    """An identity `ordered_map`; the second evaluation counts."""
    with ef.Cluster(spark, WORKERS) as cluster:
        out = cluster.ordered_map(numbers(spark, ROWS), same, COLUMNS)
        return [rows_per_s(out, ROWS) for _ in range(2)][-1]


def chained(spark: SparkSession, home: Path) -> float:
    """Ten identity maps in a graph; the second evaluation counts."""
    with ef.Cluster(spark, WORKERS) as cluster:
        out = cluster.run(chain(10), {"rows": numbers(spark, ROWS)})["out"]
        return [rows_per_s(out, ROWS) for _ in range(2)][-1]


def keyed(spark: SparkSession, home: Path, checkpoint: bool = False, wide: bool = False) -> float:
    """A rolling mean over a stream; `wide` has columns that only pass through."""
    columns = "key long, value double" + (", name string, at timestamp, note string" if wide else "")
    files = MicroBatches(home / ("wide" if wide else "narrow"), columns)
    if not files.folder.exists():
        files.write(tables(wide))
    with (
        tempfile.TemporaryDirectory(dir=home) as own,
        ef.Cluster(spark, WORKERS, checkpoint=Path(own, "state") if checkpoint else None) as cluster,
    ):
        mean = ef.RollingMean("value", rows=100, into="mean")
        out = cluster.keyed(files.stream(spark), "key", mean, balance="hash", name="means")
        seconds = batch_seconds(out, Path(own, "spark"))
    if len(seconds) != BATCHES:
        raise RuntimeError(f"{len(seconds)} micro-batches had rows, of {BATCHES}")
    return BATCH / median(seconds[WARM:])


def tables(wide: bool) -> Iterator[pa.Table]:
    """The rows of each micro-batch."""
    random = np.random.default_rng(3)
    for _ in range(BATCHES):
        table: dict[str, npt.NDArray[Any]] = {
            "key": random.integers(0, KEYS, BATCH),
            "value": random.normal(size=BATCH),
        }
        if wide:
            names = random.integers(0, 10_000, BATCH)
            table["name"] = np.char.add("name ", names.astype(str))
            table["at"] = names.astype("datetime64[us]")
            table["note"] = np.char.add("a note of some length on number ", names.astype(str))
        yield pa.table(table)


JOBS: dict[str, tuple[str, Callable[[SparkSession, Path], float]]] = {
    "ordered": ("identity ordered_map", ordered),
    "keyed": ("rolling mean, stream", keyed),
    "durable": ("rolling mean, stream with a checkpoint", lambda spark, home: keyed(spark, home, checkpoint=True)),
    "wide": ("the same, with three columns more", lambda spark, home: keyed(spark, home, checkpoint=True, wide=True)),
    "chain": ("chain of ten maps", chained),
}


def serve(home: Path, answers: TextIO) -> None:
    """Run the jobs that standard input names, one a line; their rows a second go to `answers`."""
    spark = ef.local_session(WORKERS, slots=2)
    try:
        print(json.dumps(str(Path(ef.__file__).parent)), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(JOBS[line.strip()][1](spark, home)), file=answers, flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what Spark prints is no answer
        serve(Path(sys.argv[1]), answers)
