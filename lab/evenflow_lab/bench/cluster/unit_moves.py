"""How long rows wait for a unit of 10 MB that moves: from worker to worker, by way of files, by way of PostgreSQL.

`still` moves units of an operator without a checkpoint, and compares the throughput of all rows with that of a run in
which nothing moves. In the other parts two units move back and forth. Nothing is emulated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
import typer
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from evenflow.cli.terminal import JsonFile, embedded_spark
from evenflow.errors import InvalidArgument
from evenflow.model import KeyedSnapshot
from evenflow.model.entries import MovedEntry, MoveUndoneEntry
from evenflow.runtime.cluster.arguments.tuning import Tuning
from evenflow.runtime.cluster.cluster import Cluster
from evenflow_lab.bench import keyed
from evenflow_lab.bench.blocks import Blocks
from evenflow_lab.bench.measuring import Figures, keyed_snapshot, logged, run_parts, workplace

WORKERS = 3
BYTES = 10_000_000
ROWS = 10_000_000
"""Of an evaluation in which units move; there are as many evaluations as it takes."""
REGION = "moving"
Result = TypeVar("Result")
Way = Literal["direct", "store"]
"""How units move: from worker to worker, or by way of the checkpoint."""
Choice = Callable[[int, KeyedSnapshot], tuple[int, int]]
"""The unit of the move of a number, and the worker that gets it."""


def moving(cluster: Cluster, work: Callable[[], Result], choose: Choice, every_s: float) -> Result:
    """Do some work, and move a unit every so many seconds meanwhile, one at a time."""
    turn = 0
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(work)
        while not job.done():
            time.sleep(every_s)
            now = keyed_snapshot(cluster, REGION)
            if now.feeders and not now.moving:
                turn += 1
                unit, target = choose(turn, now)
                cluster.region(REGION).move([unit], target)
        return job.result()


def pauses(cluster: Cluster) -> dict[str, float]:
    """How long rows of units with their state waited, in milliseconds."""
    moved = [each for each in logged(cluster, MovedEntry) if each.region == REGION and each.bytes > BYTES // 2]
    waited = [each.seconds * 1e3 for each in moved]
    found = {f"p{q}_ms": float(np.percentile(waited, q)) for q in (50, 99)} if waited else {}
    return {"moves": len(waited), **found, "max_ms": max(waited, default=0.0)}


def still(spark: SparkSession, rows: int) -> Figures:
    """Pauses, and the throughput of all rows over that without moves."""
    units = 32
    setting = keyed.KeyedSetting(workers=WORKERS, keys=16_384, rows=rows)
    with keyed.data(spark, setting) as made, Cluster(spark, WORKERS) as cluster:
        given = keyed.rows_of(spark, made.path)
        quiet, busy = (
            cluster.keyed(given, "key", Blocks(BYTES), tuning=Tuning(units=units), balance="hash", name=name)
            for name in ("quiet", REGION)
        )
        keyed.timed_sum(quiet, "value")
        alone, _ = keyed.timed_sum(quiet, "value")

        def choose(turn: int, now: KeyedSnapshot) -> tuple[int, int]:
            return turn % units, (turn + 1 + turn // units) % WORKERS

        beside, _ = moving(cluster, lambda: keyed.timed_sum(busy, "value"), choose, every_s=0.1)
        return pauses(cluster) | {"throughput": alone / beside}


def there_and_back(spark: SparkSession, moves: int, checkpoint: str | Path, transfer: Way) -> Figures:
    """Pauses of two units that move among the workers."""
    with Cluster(spark, WORKERS, checkpoint=checkpoint) as cluster:
        rows = spark.range(0, ROWS, 1, 2).select((col("id") % 64).alias("key"))
        tuning = Tuning(units=8, transfer=transfer)
        out = cluster.keyed(rows, "key", Blocks(BYTES), balance="hash", name=REGION, tuning=tuning)

        def choose(turn: int, now: KeyedSnapshot) -> tuple[int, int]:
            return turn % 2, (int(now.table.owners[turn % 2]) + 1) % WORKERS

        found: Figures = {"moves": 0}
        while found["moves"] < moves:
            moving(cluster, out.write.format("noop").mode("overwrite").save, choose, every_s=0.05)
            found = pauses(cluster)
        return found | {"undone": len(logged(cluster, MoveUndoneEntry))}


def main(
    only: Annotated[str, typer.Option(help="still, direct, files, postgresql")] = "still,direct,files",
    rows: Annotated[int, typer.Option(help="Rows of the part still.")] = 12_000_000,
    moves: Annotated[int, typer.Option(help="Moves of each other part, at least.")] = 40,
    postgres: Annotated[str, typer.Option(help="The address of a PostgreSQL database, for that part.")] = "",
    json_file: JsonFile = None,
) -> None:
    """Run the parts, and print the figures of each."""
    if "postgresql" in only and not postgres:
        raise InvalidArgument("postgresql needs a database: give its address, --postgres postgresql://user@host/db")
    with embedded_spark(WORKERS, 2) as spark, workplace() as home:
        parts = {
            "still": partial(still, spark, rows),
            "direct": partial(there_and_back, spark, moves, home / "direct", "direct"),
            "files": partial(there_and_back, spark, moves, home / "files", "store"),
            "postgresql": partial(there_and_back, spark, moves, postgres, "store"),
        }
        run_parts(parts, only, json_file)
