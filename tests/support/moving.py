"""What tests of keyed operators on Spark share: rows, a thread that moves units all the time, a plain operator."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import evenflow as ef
from evenflow.errors import EvenflowError
from evenflow.operators.keyed import KeyedOperator

_numbers = itertools.count(1)
PATIENCE_S = 120.0


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


def source(
    spark: SparkSession, table: pa.Table, partitions: int = 1, pause_s: float = 0.01, held: Path | None = None
) -> DataFrame:
    """The rows of `table` in their order, cut into partitions; each batch is a while in coming.

    The last ones do not come as long as there is a file `held`: whatever is to happen meanwhile does.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    gate, last = str(held or ""), table.num_rows - 1

    def look_up(batches):
        import os

        for batch in batches:
            time.sleep(pause_s)
            while gate and batch.column("id")[-1].as_py() == last and os.path.exists(gate):
                time.sleep(0.02)
            taken = table.take(batch.column("id")).combine_chunks()
            yield pa.RecordBatch.from_arrays([column.chunk(0) for column in taken.columns], schema=table.schema)

    return spark.range(0, table.num_rows, 1, partitions).mapInArrow(look_up, from_arrow_schema(table.schema))


class Moving:
    """A thread that asks for moves while regions are fed. Run the query `while moving.wanted()`:

    how many moves there are in one run depends on how busy the machine is, and too few tell nothing.
    """

    def __init__(self, cluster: ef.Cluster, *regions: str, least: int = 1, between: bool = False) -> None:
        self._cluster, self._regions, self._least, self._between = cluster, regions, least, between
        self._random = np.random.default_rng(0)
        self._workers = len(cluster.workers())
        self.runs = 0
        self.moved = dict.fromkeys(regions, 0)
        """While they were fed; also `between` the micro-batches of a stream, if asked for."""
        self._begun: dict[str, int] = {}
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Moving:
        self._deadline = time.monotonic() + PATIENCE_S
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)
        if kind is None:
            if self._error is not None:
                raise self._error
            assert min(self.moved.values()) >= self._least, f"too few moves to tell anything: {self.moved}"

    def wanted(self) -> bool:
        """Whether another run is needed: the first one always is, and any until there were enough moves."""
        in_vain = self._error is not None or time.monotonic() > self._deadline
        another = not self.runs or (min(self.moved.values()) < self._least and not in_vain)
        self.runs += another
        return another

    def _run(self) -> None:
        try:
            while not self._over.wait(0.003):
                for region in self._regions:
                    self._step(region)
        except BaseException as error:
            self._error = error

    def _step(self, region: str) -> None:
        now = self._cluster.region(region).snapshot()
        if now.feeders or (self._between and region in self._begun):
            self.moved[region] = now.moved - self._begun.setdefault(region, now.moved)
        if now.feeders and not now.moving:
            busy = np.flatnonzero(now.unit_rows)
            busy = busy if len(busy) else np.arange(len(now.unit_rows))
            units = self._random.choice(busy, min(len(busy), 4), replace=False).tolist()
            self._cluster.region(region).move(units, int(self._random.integers(self._workers)))


def stop_quietly(query: Any) -> None:
    """Stop a streaming query that may have failed."""
    with suppress(EvenflowError, Exception):
        query.stop()


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this
