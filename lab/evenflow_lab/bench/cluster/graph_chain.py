"""What a graph costs over one function: a chain of ten identity maps against one identity `ordered_map`.

On one worker the chain is fused in the worker's process; on three it is cut into three parts, so that every row goes
from the feeder through all three workers and back. Both are measured in turns in one run, after a warm-up; figures are
medians, and every run checks the sum of its rows. Nothing is emulated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import typer
from pyspark.sql import DataFrame, SparkSession

from evenflow.cli.terminal import JsonFile, check_writable, console, embedded_spark, write_figures
from evenflow.model.graphs.placement import PlacementProblem
from evenflow.policy import Placement
from evenflow.runtime.cluster.cluster import Cluster
from evenflow_lab.bench.identity import COLUMNS, chain, numbers, rows_per_s, same
from evenflow_lab.bench.measuring import Figures, in_turns, medians, named, table_of

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


def measured(spark: SparkSession, workers: int, operators: int, rows: int, times: int) -> Figures:
    """Rows a second of both."""
    with Cluster(spark, workers) as cluster:

        def mapped(df: DataFrame) -> DataFrame:
            return cluster.ordered_map(df, same, COLUMNS)

        def chained(df: DataFrame) -> DataFrame:
            return cluster.run(chain(operators), {"rows": df}, placement=Cut())["out"]

        makers = {"ordered_map": mapped, "chain": chained}
        for make in makers.values():
            rows_per_s(make(numbers(spark, rows // 5)), rows // 5)
        outs = {name: make(numbers(spark, rows)) for name, make in makers.items()}
        found = in_turns({name: partial(rows_per_s, out, rows) for name, out in outs.items()}, times)
    middle = medians(found)
    ratio = middle["chain"] / middle["ordered_map"]
    return {"workers": workers, **middle, "ratio": ratio, "aim": AIMS.get(workers), "runs": found}


def main(
    rows: Annotated[int, typer.Option(help="Rows of each run.")] = 5_000_000,
    operators: Annotated[int, typer.Option(help="Maps in the chain.")] = 10,
    times: Annotated[int, typer.Option(help="Runs of which the median counts.")] = 3,
    workers: Annotated[str, typer.Option(help="Numbers of workers.")] = "1,3",
    json_file: JsonFile = None,
) -> None:
    """Measure, and print the table."""
    counts = [int(number) for number in named(workers)]
    check_writable(json_file)
    with embedded_spark(max(counts), 2) as spark:
        results = [measured(spark, count, operators, rows, times) for count in counts]
    title = f"{operators} identity maps in a graph against one identity ordered_map, {rows:,} rows"
    cells = (
        (f"{each['workers']}", f"{each['ordered_map']:,.0f}", f"{each['chain']:,.0f}", f"{each['ratio']:.2f}",
         f"{each['aim']}")
        for each in results
    )  # fmt: skip
    console.print(table_of(title, ("workers", "ordered_map rows/s", "chain rows/s", "ratio", "aim"), cells))
    write_figures(json_file, {"rows": rows, "operators": operators, "results": results})
