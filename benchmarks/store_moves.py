"""How long rows wait for a unit of 10 MB that moves: from worker to worker, by way of files, by way of PostgreSQL.

    .venv/bin/python benchmarks/store_moves.py --json out/store_moves.json [--postgres postgresql://user@host/db?schema=x]

Two units of one operator move back and forth among three workers while rows of all units flow. Nothing is emulated.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

import evenflow as ef
from evenflow.operators.keyed import KeyedOperator

WORKERS = 3
UNITS = 8
BYTES = 10_000_000
ROWS = 10_000_000
MOVES = 40


class Heavy(KeyedOperator):
    """State of 10 MB a unit, touched by each of its rows."""

    def __init__(self) -> None:
        self.blobs: dict[int, np.ndarray] = {}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """The rows themselves."""
        return rows

    def process(self, rows: pa.RecordBatch, units: Any, keys: Any) -> pa.RecordBatch:
        """Touch the state of every unit."""
        for unit in np.unique(units).tolist():
            if unit not in self.blobs:
                self.blobs[unit] = np.random.default_rng(unit).integers(0, 256, BYTES, np.uint8)
            self.blobs[unit][0] ^= 1
        return rows

    def extract(self, unit: int) -> Any:
        """The blob."""
        return self.blobs.pop(unit, None)

    def install(self, unit: int, state: Any) -> None:
        """The blob."""
        self.blobs[unit] = state

    def size(self, unit: int) -> int:
        """Its bytes."""
        return self.blobs[unit].nbytes if unit in self.blobs else 0


def measure(spark: SparkSession, checkpoint: str, transfer: Any) -> dict[str, Any]:
    """Pauses of moves, in milliseconds."""
    with ef.Cluster(spark, WORKERS, checkpoint=checkpoint) as cluster:
        rows = spark.range(0, ROWS, 1, 2).select((col("id") % 64).alias("key"))
        out = cluster.keyed(
            rows, "key", Heavy(), tuning=ef.Tuning(units=UNITS, transfer=transfer), balance="hash", name="moving"
        )
        pauses: list[float] = []
        undone = 0
        turn = 0
        with ThreadPoolExecutor(1) as pool:
            while len(pauses) < MOVES:
                job = pool.submit(out.write.format("noop").mode("overwrite").save)
                while not job.done():
                    time.sleep(0.05)
                    now = cluster.region("moving").snapshot()
                    if now.feeders and not now.moving and now.unit_rows.sum() > 100_000:
                        turn += 1
                        unit = turn % 2
                        cluster.region("moving").move([unit], (int(now.table.owners[unit]) + 1) % WORKERS)
                job.result()
                events = cluster.events()
                moved = [e for e in events if e["event"] == "moved" and e["bytes"] > BYTES // 2]
                pauses = [event["seconds"] * 1e3 for event in moved]
                undone = sum(event["event"] == "move-undone" for event in events)
    return {
        "moves": len(pauses),
        "undone": undone,
        "p50_ms": float(np.percentile(pauses, 50)),
        "p99_ms": float(np.percentile(pauses, 99)),
    }


def main(
    json_file: Annotated[Path | None, typer.Option("--json")] = None,
    postgres: Annotated[str, typer.Option(help="The address of a PostgreSQL database.")] = "",
) -> None:
    """Print a line for each way, and write them all."""
    spark = ef.local_session(workers=WORKERS, slots=2)
    home = Path(tempfile.mkdtemp(prefix="evenflow-moves-"))
    ways = {"direct": (str(home / "direct"), "direct"), "files": (str(home / "files"), "store")}
    if postgres:
        ways["postgresql"] = (postgres, "store")
    found = {}
    try:
        for name, (checkpoint, transfer) in ways.items():
            found[name] = measure(spark, checkpoint, transfer)
            print(f"{name:>10}: {found[name]}", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(home)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps({"bytes": BYTES, "results": found}, indent=2))


if __name__ == "__main__":
    typer.run(main)
