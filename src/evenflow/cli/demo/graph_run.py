"""One run of a graph, and what the event log tells of it: latency in any part of it, loads, energies and moves."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from evenflow.cli.polling import Watch, polled
from evenflow.model.latency import Latencies, LatencySummary
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.workloads.schemes import Scheme

COLUMNS = "at double, id long, k long"
POLL_S = 0.5
NOTHING = LatencySummary(0, float("nan"), float("nan"), float("nan"))


@dataclass(frozen=True)
class GraphRun:
    """The events of a run. Seconds count from when its first feeder joined.

    Those of emulated workers count from the first feeder of the cluster, which is the same if there was no other run.
    """

    events: list[dict[str, Any]]
    region: str
    ended: float
    """When the last result had come, by the wall clock."""

    @property
    def _joined(self) -> dict[str, Any]:
        joined = (event for event in self.events if event["event"] == "feeder-joined")
        return next(event for event in joined if event.get("region") == self.region)

    @property
    def seconds(self) -> float:
        """From the first feeder's joining to the last result."""
        return float(self.ended - self._joined["at"])

    def latency(self, start: float, end: float) -> LatencySummary:
        """How long the results took that came between two seconds."""
        found = (Latencies.read(event) for event in self._between(start, end, "graph-results"))
        return sum(found, Latencies()).summary or NOTHING

    def sampled(self, start: float, end: float, field: str) -> list[float]:
        """A figure of each sample between two seconds; of the last before, if operators moved all the time."""
        known = self._between(0.0, end, "graph-sample")
        found = [event[field] for event in self._between(start, end, "graph-sample")]
        return found or [event[field] for event in known[-1:]] or [float("nan")]

    def last(self, end: float, field: str) -> float:
        """A figure of the last sample before a second."""
        return self.sampled(0.0, end, field)[-1]

    def moved(self, start: float, end: float) -> int:
        """Operators that moved between two seconds."""
        return sum(len(event["units"]) for event in self._between(start, end, "moved"))

    def placed_after(self, second: float, worker: int) -> float | None:
        """Seconds until all moves are done of that decision after a second that takes most units from a worker.

        None if there is none. What is moved before and later, as rates change, does not count.
        """
        asked = self._between(second, float("inf"), "move")
        taken = Counter(_decision(event) for event in asked if event["source"] == worker)
        decision = max(taken, key=taken.__getitem__, default=None)
        moves = {event["move"] for event in asked if _decision(event) == decision}
        done = [event for event in self._between(second, float("inf"), "moved") if event["move"] in moves]
        return round(done[-1]["time"] - self._joined["time"] - second, 2) if done else None

    def _between(self, start: float, end: float, kind: str) -> list[dict[str, Any]]:
        zero = self._joined["time"]
        mine = [event for event in self.events if event["event"] == kind and event.get("region") == self.region]
        return [event for event in mine if start < event["time"] - zero <= end]


def _decision(event: dict[str, Any]) -> str:
    """What moves of one decision have in common: why they are made, without the names of placement and operator."""
    return str(event["why"]).split(": ", 2)[-1]


@contextmanager
def data(drawn: Scheme) -> Iterator[dict[str, str]]:
    """The rows of each source as files, in a directory each; deleted afterwards."""
    with TemporaryDirectory(prefix="evenflow-bench-") as directory:
        paths = {}
        for name, table in drawn.rows.items():
            paths[name] = str(Path(directory) / name)
            Path(paths[name]).mkdir()
            pq.write_table(table, f"{paths[name]}/rows.parquet")
        yield paths


def observe_on(
    spark: SparkSession,
    cluster: Cluster,
    region: str,
    period: float,
    placement: str,
    drawn: Scheme,
    paths: Mapping[str, str],
    watch: Watch,
) -> GraphRun:
    """Run a placement once, on a cluster that is there and has that period; what was seen of it."""
    with TemporaryDirectory(prefix="evenflow-bench-") as notes:
        inputs = {name: spark.readStream.schema(COLUMNS).parquet(path) for name, path in paths.items()}
        out = cluster.run(drawn.graph, inputs, placement=placement, name=region)
        writer = out.writeStream(lambda batch, endpoint: None).option("checkpointLocation", notes)
        query = writer.trigger(availableNow=True).start()
        try:
            polled(query.awaitTermination, lambda: watch(sum(w.rows for w in cluster.workers())), POLL_S)
        finally:
            query.stop()
        ended = time.time()
        while not cluster.region(region).settled():
            time.sleep(period / 10)
        return GraphRun(cluster.events(), region, ended)
