"""Micro-batches from files, and how long each takes. It uses Spark only, so that older commits run it, too."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class MicroBatches:
    """Files of rows, which a stream reads oldest first."""

    folder: Path
    columns: str
    """Names and types, as Spark writes them."""
    trigger: int = 1
    """The files of a micro-batch."""

    def write(self, tables: Iterable[pa.Table]) -> MicroBatches:
        """Write one file for each table."""
        self.folder.mkdir(parents=True)
        for number, table in enumerate(tables):
            file = self.folder / f"{number:05}.parquet"
            pq.write_table(table, file)
            os.utime(file, (1e9 + number, 1e9 + number))
        return self

    def stream(self, spark: SparkSession) -> DataFrame:
        """The rows of all files as a stream."""
        reader = spark.readStream.schema(self.columns).option("maxFilesPerTrigger", self.trigger)
        return reader.parquet(str(self.folder))


def batch_seconds(out: DataFrame, checkpoint: Path, phase: str = "addBatch") -> list[float]:
    """Run a stream until it has read all files; the seconds that a phase of each micro-batch with rows took."""
    writer = out.writeStream.format("noop").outputMode("append").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [each["durationMs"][phase] / 1000 for each in query.recentProgress if each["numInputRows"]]
