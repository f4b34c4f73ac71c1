"""The one way these tests compare: same rows, in the same order, in the same Spark partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.streaming import StreamingQuery

PARTITION = "_partition"


def rows_of(df: DataFrame) -> pa.Table:
    """All rows in the order of the partitions and in their order within each, with the partition they came from."""
    return df.withColumn(PARTITION, spark_partition_id()).toArrow()


def assert_same(out: DataFrame | pa.Table, expected: DataFrame | pa.Table, least: int = 1) -> pa.Table:
    """Both have the same schema and the same rows in the same order and partitions, `least` of them at least.

    Equal sequences are equal multisets too; on a difference the message tells which of the two broke.
    """
    got = rows_of(out) if isinstance(out, DataFrame) else out
    want = rows_of(expected) if isinstance(expected, DataFrame) else expected
    assert _columns(got) == _columns(want)
    assert want.num_rows >= least
    got, want = got.combine_chunks(), want.combine_chunks()
    if not got.equals(want) and (difference := _difference(got.to_pylist(), want.to_pylist())):
        raise AssertionError(difference)
    return got


def plain_map(df: DataFrame, function: Callable[[pa.RecordBatch], Any], schema: str) -> DataFrame:
    """The reference: the same function in a plain `mapInArrow`."""

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(function, batches)

    return df.mapInArrow(each, schema)


def micro_batches(df: DataFrame, folder: Path) -> dict[int, pa.Table]:
    """Run a stream to its end; the rows of each micro-batch, by batch id."""
    seen: dict[int, pa.Table] = {}

    def keep(batch: DataFrame, number: int) -> None:
        seen[number] = rows_of(batch)

    writer = df.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
    run_to_end(writer.trigger(availableNow=True).start())
    return seen


def run_to_end(query: StreamingQuery) -> None:
    """Wait for a query that ends by itself."""
    assert query.awaitTermination(200)
    assert query.exception() is None


def committed(folder: Path) -> pa.Table:
    """What a Parquet sink has committed, one file a partition, in order."""
    parts = [
        pq.read_table(file).append_column(PARTITION, pa.array([number] * pq.read_metadata(file).num_rows, pa.int32()))
        for number, file in enumerate(sorted(folder.glob("part-*.parquet")))
    ]
    return pa.concat_tables(parts)


def _columns(table: pa.Table) -> list[tuple[str, str]]:
    """Names and types; whether Spark can prove that there are no nulls is not the region's business."""
    return [(field.name, str(field.type).replace(" not null", "")) for field in table.schema]


def _difference(got: list[dict[str, Any]], want: list[dict[str, Any]]) -> str:
    """What differs, in words; nothing if only NaN made the tables unequal."""
    counts, wanted = Counter(map(repr, got)), Counter(map(repr, want))
    if counts != wanted:
        lost, added = wanted - counts, counts - wanted
        return (
            f"{len(got)} rows instead of {len(want)}; {lost.total()} lost, such as {list(lost)[:2]}; "
            f"{added.total()} too many, such as {list(added)[:2]}"
        )
    for place, (a, b) in enumerate(zip(got, want, strict=True)):
        if repr(a) != repr(b):
            return f"all rows are there, but out of order: row {place} is {a}, should be {b}"
    return ""
