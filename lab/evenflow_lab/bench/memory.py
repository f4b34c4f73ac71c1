"""Memory that workers lack for a while in a measured run (flux §6.3), and how the state came back from disk."""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.model import KeyedSnapshot
from evenflow.runtime.cluster.cluster import Cluster


@dataclass(frozen=True)
class Pressure:
    """From second `since` to `until`, workers 0 to `short` - 1 have `memory` bytes for state.

    The others, and all of them before and after, have `ample`. Seconds count from when the feeder has joined.
    """

    memory: int
    short: int
    ample: int
    since: float = 0.0
    until: float = 0.0
    """0: it does not end."""

    def budget(self, second: float) -> int:
        """Bytes that each of the short workers has at a second."""
        over = bool(self.until) and second >= self.until
        return self.ample if over or second < self.since else self.memory


class Squeeze:
    """Gives and takes memory while a region runs."""

    def __init__(self, pressure: Pressure, cluster: Cluster) -> None:
        self._pressure, self._cluster = pressure, cluster
        self._began: float | None = None
        self._given = pressure.ample
        self.changed = 0.0
        """The time of the last change, by the cluster's clock."""
        self._give(0.0, 0.0)

    def follow(self, snapshot: KeyedSnapshot) -> None:
        """Give or take memory, if that is due by now."""
        if self._began is None and snapshot.feeders:
            self._began = snapshot.time
        if self._began is not None:
            self._give(snapshot.time - self._began, snapshot.time)

    def _give(self, second: float, time: float) -> None:
        budget = self._pressure.budget(second)
        if budget != self._given:
            self._given, self.changed = budget, time
            self._cluster.set_memory(dict.fromkeys(range(self._pressure.short), budget))


def most_on_disk(seen: list[KeyedSnapshot]) -> int:
    """The most bytes of state that all workers together had on disk."""
    return max((sum(consumer.spilled for consumer in snapshot.consumers) for snapshot in seen), default=0)


def back_after(seen: list[KeyedSnapshot], changed: float) -> float | None:
    """Seconds from the last change of memory until all state was in memory for good; None if that never was."""
    if not seen or any(consumer.spilled for consumer in seen[-1].consumers):
        return None
    out = [snapshot.time for snapshot in seen if any(consumer.spilled for consumer in snapshot.consumers)]
    return round(max(0.0, max(out) - changed), 1) if out else 0.0
