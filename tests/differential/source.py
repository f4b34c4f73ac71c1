"""The rows of a case: in files, one for each partition of each micro-batch."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tests.differential import values
from tests.differential.cases import Case

ENDING = 1_000_000_000
"""Ids from here on are of rows that only move time on: a stream has no end that would do it."""
GAP_US = 1_000_000
CLOSING = 2
"""Micro-batches of such rows."""
ONE_FILE_A_PARTITION = {
    "spark.sql.files.openCostInBytes": "128m",
    "spark.sql.files.maxPartitionBytes": "128m",
    "spark.sql.files.minPartitionNum": "1",
}


def packed(partitions: int) -> dict[str, str]:
    """Settings with which files of any number are read in about so many partitions."""
    return {
        "spark.sql.files.openCostInBytes": "1",
        "spark.sql.files.maxPartitionBytes": "128m",
        "spark.sql.files.minPartitionNum": str(partitions),
    }


def key_names(case: Case) -> list[str]:
    return [f"k{place}" for place in range(len(case.keys))]


def key_of(case: Case) -> str | list[str]:
    """What `key=` is given."""
    names = key_names(case)
    if case.nested:
        return "key"
    return names if len(names) > 1 else names[0]


@dataclass(frozen=True)
class Source:
    """A case's rows as files, and as DataFrames of them."""

    case: Case
    folder: Path
    tables: tuple[tuple[pa.Table, ...], ...]
    """By micro-batch and partition."""

    def write(self, first: int = 0, last: int | None = None) -> None:
        """Write the files of some micro-batches."""
        self.folder.mkdir(exist_ok=True)
        for batch, tables in list(enumerate(self.tables))[first:last]:
            for part, table in enumerate(tables):
                hidden = self.folder / f"_{batch:03}-{part}"
                pq.write_table(table, hidden)
                stamp = 1_700_000_000 + 100 * batch + part  # Spark takes the oldest first
                os.utime(hidden, (stamp, stamp))
                hidden.rename(self.folder / f"{batch:03}-{part}.parquet")

    def batch(self, spark: SparkSession) -> DataFrame:
        """All rows but those that end a stream."""
        return self._typed(spark.read.schema(self._schema()).parquet(str(self.folder))).where(F.col("id") < ENDING)

    def stream(self, spark: SparkSession) -> DataFrame:
        if not self.case.lags:
            return self._stream(spark, self.case.partitions)
        slow, fast = self._stream(spark, 1).where("tag = 'L'"), self._stream(spark, 4).where("tag = 'R'")
        return slow.union(fast)

    def _stream(self, spark: SparkSession, files: int) -> DataFrame:
        reader = spark.readStream.schema(self._schema()).option("maxFilesPerTrigger", files)
        return self._typed(reader.parquet(str(self.folder)))

    def _schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(self.tables[0][0].schema)

    def _typed(self, df: DataFrame) -> DataFrame:
        kinds = list(zip(key_names(self.case), self.case.keys, strict=True))
        typed = df.selectExpr("id", "at", *values.spark_columns([*kinds, ("v", self.case.value)]), "p", "tag")
        if not self.case.nested:
            return typed
        return typed.withColumn("key", F.struct(*key_names(self.case))).drop(*key_names(self.case))


def make(case: Case, folder: Path) -> Source:
    """Draw the rows; nothing is written yet."""
    drawn = random.Random(f"rows {case.seed}")
    rows = _rows(case, drawn)
    tables = [_parts(case, drawn, rows.take(pa.array(places))) for places in _batches(case, drawn, rows)]
    if case.waiting:
        tables += [_closing(case, rows.schema, number) for number in range(CLOSING)]
    return Source(case, folder, tuple(tables))


def _rows(case: Case, drawn: random.Random) -> pa.Table:
    """In order of their times, no two of which are the same."""
    count = case.rows
    times = sorted(drawn.sample(range(count * GAP_US), count))
    start = int(values.EPOCH.timestamp()) * 1_000_000
    names = {
        name: values.keys(kind, drawn, count, case.distinct)
        for name, kind in zip(key_names(case), case.keys, strict=True)
    }
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "at": pa.array([start + time for time in times], pa.timestamp("us", "UTC")),
            **names,
            "v": values.column(case.value, drawn, count),
            "p": pa.array([drawn.choice((None, 0, 1, 2, 3)) for _ in range(count)], pa.int32()),
            "tag": pa.array([drawn.choice("LR") for _ in range(count)]),
        }
    )


def _batches(case: Case, drawn: random.Random, rows: pa.Table) -> list[list[int]]:
    """Which rows come in which micro-batch: by their times, or less than the lateness after them."""
    times = rows["at"].cast(pa.int64()).to_pylist()
    late = case.lateness * 900_000
    arrival = sorted(range(case.rows), key=lambda place: times[place] + drawn.randint(0, late))
    count = max(1, case.batches)
    cuts = sorted(drawn.sample(range(1, case.rows), count - 1))
    return [arrival[one:other] for one, other in zip([0, *cuts], [*cuts, case.rows], strict=True)]


def _parts(case: Case, drawn: random.Random, rows: pa.Table) -> tuple[pa.Table, ...]:
    """Rows dealt to partitions, more to some than to others."""
    weights = [drawn.choice((0.1, 1, 1, 4)) for _ in range(case.partitions)]
    dealt: list[list[int]] = [[] for _ in weights]
    places = list(range(rows.num_rows))
    if case.shuffled:
        drawn.shuffle(places)
    for place in places:
        dealt[drawn.choices(range(case.partitions), weights)[0]].append(place)
    return tuple(rows.take(pa.array(part, pa.int64())) for part in dealt)


def _closing(case: Case, schema: pa.Schema, number: int) -> tuple[pa.Table, ...]:
    """A row of a key of its own, days after all others; it fills a micro-batch."""
    at = int(values.EPOCH.timestamp()) + (2 + number) * 86_400
    row = {"id": ENDING + number, "at": at * 1_000_000, "p": None, "v": None, "tag": "LR"[number % 2]}
    row |= {name: values.LAST[kind] for name, kind in zip(key_names(case), case.keys, strict=True)}
    arrays = [
        pa.array([row[field.name]], pa.int64()).cast(field.type)
        if field.name == "at"
        else pa.array([row[field.name]], field.type)
        for field in schema
    ]
    one = pa.table(arrays, schema=schema)
    return (one, *(one.slice(1) for _ in range(case.partitions - 1)))
