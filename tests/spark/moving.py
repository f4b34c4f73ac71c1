"""What tests of keyed operators on Spark share: rows, a thread that moves units all the time, a plain operator."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import evenflow as ef
from evenflow.errors import EvenflowError
from evenflow.operators.keyed import KeyedOperator

_numbers = itertools.count(1)


def region(name: str) -> str:
    """A name that no other region of this run has."""
    return f"{name}-{next(_numbers)}"


class Nth(KeyedOperator):
    """Adds the how manieth row of its key each row is: one that is lost, doubled or counted elsewhere shows."""

    def __init__(self) -> None:
        self.counts: dict[int, Counter[int]] = {}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return rows.append(pa.field("nth", pa.int64()))

    def process(self, rows: pa.RecordBatch, units: Any, keys: Any) -> pa.RecordBatch:
        nth = []
        for unit, key in zip(units.tolist(), keys.tolist(), strict=True):
            counts = self.counts.setdefault(unit, Counter())
            counts[key] += 1
            nth.append(counts[key])
        return rows.append_column("nth", pa.array(nth, pa.int64()))

    def extract(self, unit: int) -> Any:
        return self.counts.pop(unit, None)

    def install(self, unit: int, state: Any) -> None:
        assert unit not in self.counts, f"unit {unit} is here already"
        self.counts[unit] = state

    def size(self, unit: int) -> int:
        return 100 * len(self.counts.get(unit, ()))


def nth_of(keys: Iterable[Any]) -> list[int]:
    """What Nth should say."""
    counts: Counter[Any] = Counter()
    nth = []
    for key in keys:
        counts[key] += 1
        nth.append(counts[key])
    return nth


def source(spark: SparkSession, table: pa.Table, partitions: int = 1, pause_s: float = 0.01) -> DataFrame:
    """The rows of `table` in their order, cut into partitions; each batch is a while in coming."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def look_up(batches):
        for batch in batches:
            time.sleep(pause_s)
            taken = table.take(batch.column("id")).combine_chunks()
            yield pa.RecordBatch.from_arrays([column.chunk(0) for column in taken.columns], schema=table.schema)

    return spark.range(0, table.num_rows, 1, partitions).mapInArrow(look_up, from_arrow_schema(table.schema))


class Moving:
    """A thread that asks for moves while regions are fed; on the way out, some must have been made meanwhile."""

    def __init__(self, cluster: ef.Cluster, *regions: str, least: int = 1, seed: int = 0) -> None:
        self._cluster, self._regions, self._least = cluster, regions, least
        self._random = np.random.default_rng(seed)
        self._workers = len(cluster.workers())
        self.moved = dict.fromkeys(regions, 0)
        """While they were fed."""
        self._begun: dict[str, int] = {}
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Moving:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        self._over.set()
        self._thread.join(30)
        if kind is None:
            if self._error is not None:
                raise self._error
            assert min(self.moved.values()) >= self._least, f"too few moves to tell anything: {self.moved}"

    def _run(self) -> None:
        try:
            while not self._over.wait(0.003):
                for region in self._regions:
                    self._step(region)
        except BaseException as error:
            self._error = error

    def _step(self, region: str) -> None:
        now = self._cluster.keyed_snapshot(region)
        if not now.feeders:
            return
        self.moved[region] = now.moved - self._begun.setdefault(region, now.moved)
        if not now.moving:
            busy = np.flatnonzero(now.unit_rows)
            busy = busy if len(busy) else np.arange(len(now.unit_rows))
            units = self._random.choice(busy, min(len(busy), 4), replace=False).tolist()
            self._cluster.move(region, units, int(self._random.integers(self._workers)))


def stop_quietly(query: Any) -> None:
    """Stop a streaming query that may have failed."""
    with suppress(EvenflowError, Exception):
        query.stop()


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this
