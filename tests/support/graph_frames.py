"""What tests of graphs on Spark share: small graphs, rows, and one way to compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import evenflow as ef
from tests.support.moving import region


def graph_of(build: Callable[..., Any], *sources: str) -> ef.Graph:
    """A graph with one endpoint, `out`; `build` makes it of the sources, which are one called `s` if not given."""
    graph = ef.Graph()
    graph.endpoint("out", build(*(graph.source(name) for name in sources or ("s",))))
    return graph


def run(cluster: ef.Cluster, graph: ef.Graph, **inputs: DataFrame) -> DataFrame:
    """What the endpoint `out` gives, for a DataFrame for each source."""
    return cluster.run(graph, inputs=inputs, placement="round-robin", name=region("graph"))["out"]


def rows_of(df: DataFrame) -> list[str]:
    """The rows, in an order that does not depend on theirs."""
    return sorted(map(repr, df.toArrow().to_pylist()))


def check(got: DataFrame, wanted: DataFrame) -> None:
    """The same columns and the same rows, some of them at least, in whatever order."""
    assert [(each.name, each.dataType) for each in got.schema] == [(each.name, each.dataType) for each in wanted.schema]
    rows = rows_of(wanted)
    assert rows
    assert rows_of(got) == rows


def numbers(spark: SparkSession, rows: int = 600, partitions: int = 2) -> DataFrame:
    """Rows with a number, a key, a value and a text."""
    return spark.range(0, rows, 1, partitions).selectExpr("id", "id % 7 as k", "id * 0.5d as v", "concat('n', id) as s")
