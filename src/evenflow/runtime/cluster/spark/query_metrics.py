"""Figures of each micro-batch of streaming queries: Spark's own, with the figures of the cluster's regions."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.sql.streaming.listener import StreamingQueryListener

from evenflow.errors import EvenflowError, InvalidArgument
from evenflow.model import KeyedSnapshot, Snapshot
from evenflow.model.entries import (
    EventEntry,
    FeederJoinedEntry,
    MovedEntry,
    RegionEntry,
    TaskDurableEntry,
    WeightsEntry,
)
from evenflow.model.given import whole_of
from evenflow.model.latency import Latencies

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from evenflow.runtime.cluster.cluster import Cluster

logger = logging.getLogger("evenflow")
PROGRESS_LOG = "evenflow.progress"
"""The name of the logger, in the same log as that of Spark's own progress."""
KEPT_QUERIES = 100
"""Queries whose counts are remembered, at most; the least recent ones are forgotten."""
SCHEMA = """query string, name string, batch long, at timestamp, rows long, latency_mean_ms double,
    latency_p50_ms double, latency_p99_ms double, imbalance double, moves long, units_moved long, pause_ms double,
    durable_ms double, batch_ms double, regions array<string>, late long"""


@dataclass(frozen=True)
class BatchFigures:
    """The figures of one micro-batch, since the progress report of the one before."""

    query: str
    name: str
    batch: int
    at: datetime
    """When the batch began, by Spark's clock."""
    rows: int
    """Rows that came to the query's regions; a row that goes through two of them counts twice."""
    latency_mean_ms: float | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    imbalance: float | None
    """Service time of the busiest worker over the mean of all; 1 is even."""
    moves: int
    """Movements of units, and changes of weights."""
    units_moved: int
    pause_ms: float
    """How long units that moved stood, added up over movements."""
    durable_ms: float
    """The longest that a task waited until its rows were durable; 0 without a checkpoint."""
    batch_ms: float
    """Spark's own time for the batch."""
    regions: tuple[str, ...]
    late: int = 0
    """Rows that came too late: time had passed them, or rows that they would have met had left their window."""


@dataclass(slots=True)
class _Known:
    """The counters of a query's regions when its last batch ended."""

    regions: set[str] = field(default_factory=set)
    totals: dict[str, tuple[int, Latencies, dict[int, float], int]] = field(default_factory=dict)
    """By region: rows, latencies, service time by worker, and late rows."""
    next: int = 0
    """The number of the first entry of the event log that was not looked at."""


class QueryMetrics(StreamingQueryListener):
    """A listener for `spark.streams.addListener`, with figures of each micro-batch that went through a cluster.

    `batches` has the latest `keep` of them, `to_df` gives them as a DataFrame. Each is also written as one line of JSON
    into the log that Spark writes its own progress to (Spark has no way to add fields to that), by the logger
    "evenflow.progress" at level INFO. Spark tells of a batch after its end, when rows of the next one may have come
    already: where batches follow each other at once, some rows can be counted with the batch before.
    """

    def __init__(self, cluster: Cluster, keep: int = 1000) -> None:
        if not hasattr(cluster, "_regions"):
            raise InvalidArgument(f"cluster is {cluster!r:.100}: give a Cluster")
        if not whole_of(keep) >= 1:
            raise InvalidArgument(f"keep={keep!r}: give a number of batches, at least 1")
        self._cluster, self._spark = cluster, cluster._spark
        self._batches: deque[BatchFigures] = deque(maxlen=whole_of(keep))
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    @property
    def batches(self) -> list[BatchFigures]:
        """The latest batches, oldest first."""
        with self._lock:
            return list(self._batches)

    def to_df(self) -> DataFrame:
        """The latest batches as a DataFrame, oldest first: one row a batch, with the fields of `BatchFigures`."""
        rows = [tuple(_plain(getattr(batch, each.name)) for each in fields(batch)) for batch in self.batches]
        return self._spark.createDataFrame(rows, SCHEMA)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """A query begins; rows counted in an earlier run of it are not counted again."""
        with self._lock:
            self._known_of(str(event.id))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A micro-batch is over."""
        try:
            with self._lock:
                figures = self._figures(event.progress)
                if figures is not None:
                    self._batches.append(figures)
            if figures is not None:
                log_progress(self._spark, json.dumps(asdict(figures), default=str))
        except (EvenflowError, Py4JError) as error:  # the cluster or the session was stopped meanwhile
            logger.debug("no figures of batch %s: %s", event.progress.batchId, error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """A query has nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """A query is over; its counts stay, since it may be started again."""

    def _known_of(self, query: str) -> _Known:
        """The counts of a query, which becomes the most recent one."""
        known = self._known[query] = self._known.pop(query, _Known())
        for old in list(self._known)[:-KEPT_QUERIES]:
            del self._known[old]
        return known

    def _figures(self, progress: Any) -> BatchFigures | None:
        """The figures of a batch; None if no row of the query ever came to the cluster."""
        query = str(progress.id)
        known = self._known_of(query)
        entries, known.next = self._cluster._driver.events_since(known.next)
        joined = (entry for entry in entries if isinstance(entry, FeederJoinedEntry))
        known.regions |= {entry.region for entry in joined if entry.query == query}
        if not known.regions:
            return None
        about = [each for each in entries if isinstance(each, RegionEntry) and each.region in known.regions]
        rows, latencies, busy, late = self._grown(known)
        summary = latencies.summary
        mean = sum(busy.values()) / len(busy) if busy else 0.0
        moved = [entry for entry in about if isinstance(entry, MovedEntry)]
        return BatchFigures(
            query=query,
            name=progress.name or "",
            batch=progress.batchId,
            at=datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")),
            rows=rows,
            latency_mean_ms=summary.mean if summary else None,
            latency_p50_ms=summary.p50 if summary else None,
            latency_p99_ms=summary.p99 if summary else None,
            imbalance=max(busy.values()) / mean if mean > 0 else None,
            moves=len(moved) + sum(isinstance(entry, WeightsEntry) for entry in about),
            units_moved=sum(len(entry.units) for entry in moved),
            pause_ms=1e3 * sum(entry.seconds for entry in moved),
            durable_ms=1e3 * max(_durable(about, query), default=0.0),
            batch_ms=float(progress.durationMs.get("triggerExecution", 0)),
            regions=tuple(sorted(known.regions)),
            late=late,
        )

    def _snapshot(self, region: str) -> Snapshot | KeyedSnapshot:
        known, driver = self._cluster._regions.find(region), self._cluster._driver
        return driver.ask(lambda _: known.snapshot(driver.now()))

    def _grown(self, known: _Known) -> tuple[int, Latencies, dict[int, float], int]:
        """Rows, latencies, service time by worker and late rows since the last batch, over the query's regions.

        Regions that the cluster has dropped meanwhile are the query's no more.
        """
        rows, latencies, busy, late = 0, Latencies(), dict[int, float](), 0
        for name in sorted(known.regions):
            try:
                total = _total(self._snapshot(name))
            except InvalidArgument:
                known.regions.discard(name)
                known.totals.pop(name, None)
                continue
            before = known.totals.get(name, (0, Latencies(), {}, 0))
            known.totals[name] = total
            rows += max(0, total[0] - before[0])
            late += max(0, total[3] - before[3])
            latencies += total[1] - before[1]
            for worker, seconds in total[2].items():  # less than before: it is another life of the worker
                busy[worker] = busy.get(worker, 0.0) + max(0.0, seconds - before[2].get(worker, 0.0))
        return rows, latencies, busy, late


def _total(now: Snapshot | KeyedSnapshot) -> tuple[int, Latencies, dict[int, float], int]:
    members = now.connections if isinstance(now, Snapshot) else now.consumers
    told = now.performance
    late = 0 if isinstance(now, Snapshot) else now.counts.get("late", 0)
    return told.rows_in, told.latencies, {each.worker: each.busy_s for each in members}, late


def _durable(entries: Iterable[EventEntry], query: str) -> list[float]:
    """How long the tasks of a query waited until their rows were durable, in seconds."""
    tasks = (entry for entry in entries if isinstance(entry, TaskDurableEntry))
    return [entry.log_s + entry.note_s for entry in tasks if entry.query == query]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def log_progress(spark: SparkSession, line: str) -> None:
    """Write a line into the log of Spark's driver."""
    jvm: Any = spark._jvm
    jvm.org.apache.logging.log4j.LogManager.getLogger(PROGRESS_LOG).info(line)
