"""Rows that stay as they are. It uses the public names of Evenflow only, so that older commits run it, too."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import evenflow as ef

COLUMNS = "id long, value double"


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as they are, for `ordered_map` and graphs."""
    return batch


def identity(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows as they are, for `mapInArrow`."""
    yield from batches


def numbers(spark: SparkSession, rows: int) -> DataFrame:
    """Numbered rows in one partition."""
    return spark.range(0, rows, 1, 1).selectExpr("id", "cast(id as double) value")


def chain(operators: int) -> ef.Graph:
    """A graph from "rows" to "out": maps, one after the other."""
    graph = ef.Graph("chain")
    rows = graph.source("rows")
    for _ in range(operators):
        rows = rows.map(same, COLUMNS)
    graph.endpoint("out", rows)
    return graph


def rows_per_s(out: DataFrame, rows: int) -> float:
    """Rows a second of evaluating what became of `numbers`; none may be missing or doubled."""
    began = time.perf_counter()
    found = out.selectExpr("count(id)", "sum(id)").collect()[0]
    seconds = time.perf_counter() - began
    if tuple(found) != (rows, rows * (rows - 1) // 2):
        raise RuntimeError(f"count and sum of {rows:,} rows: {tuple(found)}")
    return rows / seconds
