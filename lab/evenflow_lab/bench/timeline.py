"""The course of a run of a keyed operator, from snapshots that were taken while it ran."""

from __future__ import annotations

import numpy as np

from evenflow.model import KeyedSnapshot
from evenflow.model.entries import FeederDrainingEntry, FeederJoinedEntry
from evenflow.runtime.cluster.cluster import Cluster
from evenflow_lab.bench.measuring import logged


class Timeline:
    """The rows that were through at each second, from the feeder's joining until it had taken in all rows."""

    def __init__(self, seen: list[KeyedSnapshot], began: float, drained: float) -> None:
        self._seen = seen
        self.times = np.array([snapshot.time - began for snapshot in seen])
        self.rows = np.array([sum(consumer.rows for consumer in snapshot.consumers) for snapshot in seen], float)
        flowing = np.flatnonzero(np.diff(self.rows) > 0)
        self.start = float(self.times[flowing[0]]) if len(flowing) else 0.0
        self.over = float(self.times[flowing[-1] + 1]) if len(flowing) else 0.0
        """The second at which the last row was through."""
        self.end = max(self.start, drained - began)
        self.half = (self.start + self.end) / 2

    @classmethod
    def of(cls, cluster: Cluster, seen: list[KeyedSnapshot]) -> Timeline:
        """The course of a cluster's first evaluation; its event log tells when the feeder joined and had all rows."""
        joined, draining = logged(cluster, FeederJoinedEntry)[0], logged(cluster, FeederDrainingEntry)[0]
        return cls(seen, joined.time, draining.time)

    def rate(self, start: float, end: float) -> float:
        """Rows a second between two seconds."""
        low, high = np.interp((start, end), self.times, self.rows)
        return float((high - low) / (end - start)) if end > start else 0.0

    def _late(self) -> list[KeyedSnapshot]:
        pairs = zip(self._seen, self.times, strict=True)
        return [snapshot for snapshot, time in pairs if self.half <= time <= self.end] or self._seen

    def rstd(self) -> float:
        """The relative standard deviation of the workers' busy time in the second half, in percent."""
        late = self._late()
        busy = np.array([c.busy_s for c in late[-1].consumers]) - np.array([c.busy_s for c in late[0].consumers])
        return float(100 * busy.std() / busy.mean()) if busy.mean() > 0 else 0.0

    def late_moves(self) -> int:
        """Units moved in the second half."""
        late = self._late()
        return late[-1].moved - late[0].moved
