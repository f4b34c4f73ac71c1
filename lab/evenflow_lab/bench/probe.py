"""A source that runs for a given time, and a sink that checks order and notes times, both inside Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

ROW_SCHEMA = "id long, value double, made double"
"""`made` is the wall-clock time at which the source made the row."""
TALLY_SCHEMA = "rows long, in_order boolean, times array<double>, counts array<long>, delays array<double>"
BATCH_ROWS = 10_000

Map = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class ProbeSource:
    """Rows with consecutive ids, made as fast as they are taken, for `seconds` or until there are `rows`.

    It is used like a DataFrame, but its rows are made in the task that uses them: between two Python functions Spark
    buffers several megabytes of rows, which would have to be processed after the time is up. `made` counts the rows.
    """

    spark: SparkSession
    seconds: float
    made: Accumulator[int]
    rows: int = 1 << 60

    @property
    def schema(self) -> StructType:
        return cast(StructType, StructType.fromDDL(ROW_SCHEMA))

    def mapInArrow(self, function: Map, schema: Any) -> DataFrame:
        """`function` over the rows, as a DataFrame of one partition."""
        making = _Making(self.seconds, self.rows, self.made, function)
        return self.spark.range(0, 1, 1, 1).mapInArrow(making, schema)


@dataclass(frozen=True)
class _Making:
    seconds: float
    rows: int
    made: Accumulator[int]
    function: Map

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        return self.function(self._make())

    def _make(self) -> Iterator[pa.RecordBatch]:
        deadline = time.time() + self.seconds
        done = 0
        while (now := time.time()) < deadline and done < self.rows:
            count = min(BATCH_ROWS, self.rows - done)
            ids = np.arange(done, done + count, dtype=np.int64)
            columns = [ids, ids * 0.5, np.full(count, now)]
            yield pa.RecordBatch.from_arrays([pa.array(c) for c in columns], names=["id", "value", "made"])
            done += count
            self.made.add(count)


def tally(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count rows, check that their ids are consecutive, and note when batches came and how old their rows were."""
    rows, in_order = 0, True
    times: list[float] = []
    counts: list[int] = []
    delays: list[float] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        times.append(time.time())
        counts.append(batch.num_rows)
        delays.append(times[-1] - batch.column("made")[0].as_py())
        in_order &= bool((batch.column("id").to_numpy() == np.arange(rows, rows + batch.num_rows)).all())
        rows += batch.num_rows
    result = [rows, in_order, times, counts, delays]
    names = [column.split()[0] for column in TALLY_SCHEMA.split(", ")]
    kinds = [pa.int64(), pa.bool_(), pa.list_(pa.float64()), pa.list_(pa.int64()), pa.list_(pa.float64())]
    arrays = [pa.array([value], kind) for value, kind in zip(result, kinds, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, names=names)


@dataclass(frozen=True)
class Tally:
    """What the sink saw of one partition; seconds count from the time at which the feeder joined."""

    rows: int
    in_order: bool
    seconds: float
    times: np.ndarray
    counts: np.ndarray
    delays: np.ndarray

    @classmethod
    def of(cls, row: Any, began: float) -> Tally:
        """The tally in the row that `tally` yielded; `began` is the wall-clock time at which the feeder joined."""
        times = np.asarray(row.times) - began
        end = float(times[-1]) if len(times) else 0.0
        return cls(row.rows, row.in_order, end, times, np.asarray(row.counts), np.asarray(row.delays))

    def rows_between(self, start: float, end: float) -> int:
        """Rows that came out between two seconds."""
        return int(self.counts[(self.times >= start) & (self.times < end)].sum())
