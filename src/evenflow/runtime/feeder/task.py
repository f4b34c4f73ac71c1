"""The Spark task around a feeder: who it is, the rows that it gives and the results that it takes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from evenflow.model.latency import Latencies
from evenflow.runtime.feeder.connections import Connections, Identity
from evenflow.runtime.feeder.frame_size import FrameSize
from evenflow.runtime.feeder.latency_counter import LatencyCounter
from evenflow.runtime.wire.poller import Poller

YIELD_ROWS = 10_000
"""Small results are joined up to this many rows before Spark gets them."""
SLOW_PULL_S = 0.005
"""A source that took this long for a batch is asked for the next only when everything has been sent."""


def identity() -> Identity:
    """Who this task is, as Spark tells it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return {"partition": 0, "attempt": 0, "query": "", "epoch": 0, "stage": ""}
    return {
        "partition": context.partitionId(),
        "attempt": context.attemptNumber(),
        "query": context.getLocalProperty("sql.streaming.queryId") or "",
        "epoch": int(context.getLocalProperty("streaming.sql.batchId") or 0),
        "stage": str(context.stageId()),
        "run": context.getLocalProperty("spark.jobGroup.id") or "",
        "task": context.taskAttemptId(),
        "execution": context.getLocalProperty("spark.sql.execution.id") or "",
    }


def wall() -> float:
    """The wall clock, looked up whenever it is read: a clock that is put in its place later is seen."""
    return time.time()


@dataclass(frozen=True, slots=True)
class Environment:
    """The clock, sockets and random numbers of a feeder; tests replace them."""

    identity: Callable[[], Identity] = identity
    poller: Callable[[bytes, Callable[[], float], int], Poller] = Poller
    """Made from the cluster's secret, the clock and the bytes of a socket's buffer."""
    clock: Callable[[], float] = time.perf_counter
    wall: Callable[[], float] = wall
    """Seconds on a clock that tasks on all machines share."""
    sleep: Callable[[float], None] = time.sleep
    frame_size: Callable[..., FrameSize] = FrameSize
    """Made from seconds a row by worker, and the overhead of a call."""
    random_bits: Callable[[int], int] = secrets.randbits


REAL = Environment()


Ages = Iterable[tuple[float, int]]
"""When rows arrived, and how many."""


class Exchange:
    """Rows from Spark, results to Spark. Time that Spark takes is not counted as any worker's, nor as latency."""

    def __init__(self, connections: Connections, clock: Callable[[], float]) -> None:
        self._connections = connections
        self._clock = clock
        self.arrived = clock()
        """When the latest rows came."""
        self._taken = self._handed = 0
        self._latencies = LatencyCounter()

    def pulled(
        self,
        batches: Iterable[pa.RecordBatch],
        settle: Callable[[], None],
        failed: Callable[[], None] = lambda: None,
    ) -> Iterator[pa.RecordBatch]:
        """The input. Nothing is sent or received while Spark is waited for.

        So after a batch that was slow to come, `settle` is called before the next is asked for: it sends all there is.
        `failed` is called if there is no next batch because of an error.
        """
        source = iter(batches)
        slow = False
        while True:
            if slow:
                settle()
            self._connections.pause()
            started = self._clock()
            try:
                batch = next(source, None)
            except Exception:
                failed()
                raise
            self.arrived = self._clock()
            slow = self.arrived - started > SLOW_PULL_S
            self._connections.resume()
            if batch is None:
                return
            self._taken += batch.num_rows
            yield batch

    def handed(self, parts: list[pa.RecordBatch], ages: Ages = ()) -> Iterator[pa.RecordBatch]:
        """The results, small ones joined, on their way to Spark; `ages` says when the rows behind them arrived."""
        now = self._clock()
        for arrived, rows in ages:
            self._latencies.add(now - arrived, rows)
        for batch in joined(parts) if parts else ():
            self._handed += batch.num_rows
            self._connections.pause()
            yield batch
            self._connections.resume()

    def count(self) -> tuple[int, int, Latencies]:
        """Since the last call: rows handed to Spark, rows that came from there, and how long rows took."""
        counts = self._handed, self._taken, self._latencies.news()
        self._handed = self._taken = 0
        return counts


def joined(parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The parts in order, runs of small ones joined; empty ones are left out."""
    run: list[pa.RecordBatch] = []
    rows = 0
    for part in parts:
        if run and rows + part.num_rows > YIELD_ROWS:
            yield run[0] if len(run) == 1 else pa.concat_batches(run)
            run, rows = [], 0
        if part.num_rows:
            run.append(part)
            rows += part.num_rows
    if run:
        yield run[0] if len(run) == 1 else pa.concat_batches(run)
