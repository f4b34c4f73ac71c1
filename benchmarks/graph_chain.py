"""What a graph costs over one function: a chain of ten identity maps against one identity `ordered_map`.

    python -m benchmarks.graph_chain [--rows 5000000] [--operators 10] [--times 3] [--json out/graph_chain.json]

On one worker the chain is fused in the worker's process; on three it is cut into three parts, so that every row goes
from the feeder through all three workers and back. Both are measured in turns in one run, after a warm-up; figures are
medians, and every run checks the sum of its rows. Nothing is emulated.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any, ClassVar

import pyarrow as pa
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import evenflow as ef
from evenflow.model.graphs.placement import PlacementProblem
from evenflow.policy import Placement
from evenflow.runtime.cluster.spark.session import local_session

COLUMNS = "id long, value double"
AIMS = {1: 0.5, 3: 0.25}
"""What the chain should reach of `ordered_map`, by workers."""


@dataclass(frozen=True)
class Cut(Placement):
    """The operators of a chain in order, as many on each worker."""

    name: ClassVar[str] = "cut"

    def place(self, problem: PlacementProblem) -> tuple[int, ...]:
        """The index of the host of each operator."""
        count, hosts = len(problem.operators), len(problem.hosts)
        return tuple(number * hosts // count for number in range(count))


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as they are."""
    return batch


def chain(operators: int) -> ef.Graph:
    """A chain of identity maps."""
    graph = ef.Graph("chain")
    rows = graph.source("rows")
    for _ in range(operators):
        rows = rows.map(same, COLUMNS)
    graph.endpoint("out", rows)
    return graph


def rows_per_s(out: DataFrame, rows: int) -> float:
    """Evaluate a result and check it."""
    began = time.perf_counter()
    found = out.agg(F.count("*"), F.sum("id")).collect()[0]
    seconds = time.perf_counter() - began
    assert tuple(found) == (rows, rows * (rows - 1) // 2), found
    return rows / seconds


def measured(spark: SparkSession, workers: int, operators: int, rows: int, times: int) -> dict[str, Any]:
    """Rows a second of both, in turns."""
    with ef.Cluster(spark, workers) as cluster:

        def outputs(count: int) -> dict[str, DataFrame]:
            df = spark.range(0, count, 1, 1).select("id", (F.col("id") * 0.5).alias("value"))
            mapped = cluster.ordered_map(df, same, COLUMNS)
            return {"ordered_map": mapped, "chain": cluster.run(chain(operators), {"rows": df}, placement=Cut())["out"]}

        for out in outputs(rows // 5).values():
            rows_per_s(out, rows // 5)
        found: dict[str, list[float]] = {"ordered_map": [], "chain": []}
        for _ in range(times):
            for name, out in outputs(rows).items():
                found[name].append(rows_per_s(out, rows))
    medians = {name: median(each) for name, each in found.items()}
    ratio = medians["chain"] / medians["ordered_map"]
    return {"workers": workers, **medians, "ratio": ratio, "aim": AIMS.get(workers), "runs": found}


def main(
    rows: Annotated[int, typer.Option(help="Rows of each run.")] = 5_000_000,
    operators: Annotated[int, typer.Option(help="Maps in the chain.")] = 10,
    times: Annotated[int, typer.Option(help="Runs of which the median counts.")] = 3,
    workers: Annotated[str, typer.Option(help="Numbers of workers.")] = "1,3",
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the figures go.")] = None,
) -> None:
    """Measure, and print the table."""
    counts = [int(number) for number in workers.split(",")]
    spark = local_session(max(counts), slots=2)
    try:
        results = [measured(spark, count, operators, rows, times) for count in counts]
    finally:
        spark.stop()
    table = Table(title=f"{operators} identity maps in a graph against one identity ordered_map, {rows:,} rows")
    for heading in ("workers", "ordered_map rows/s", "chain rows/s", "ratio", "aim"):
        table.add_column(heading, justify="right")
    for each in results:
        figures = f"{each['ordered_map']:,.0f}", f"{each['chain']:,.0f}", f"{each['ratio']:.2f}"
        table.add_row(str(each["workers"]), *figures, f"{each['aim']}")
    Console(width=100).print(table)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps({"rows": rows, "operators": operators, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
