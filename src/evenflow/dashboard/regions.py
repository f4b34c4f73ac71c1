"""Regions as the event log tells of them: what all kinds have, and the connections of ordered ones."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

from evenflow.dashboard.pace import Pace
from evenflow.dashboard.workers import STALE_S, LoadShown, WorkerTable, rounded, whole
from evenflow.model.entries import (
    EventEntry,
    FeederJoinedEntry,
    FeederLeftEntry,
    PerformanceEntry,
    RegionOpenedEntry,
    SampleEntry,
    WeightsEntry,
)
from evenflow.model.latency import Latencies

LATENCY_S = 5.0
"""Latencies that are shown as those of now are those of the last so many seconds."""
KEPT_REGIONS = 200
"""Regions that are kept: those told of least recently go."""
WALL = 1e8
"""Times beyond it are those of a wall clock; below it, seconds of a simulation."""


class RegionView:
    """What all kinds of regions have: feeders, rows a second, latencies."""

    kind = "region"

    def __init__(self, entry: RegionOpenedEntry) -> None:
        self.name = entry.region
        self.balance = entry.balance or entry.placement or ""
        self.feeders = 0
        self.rows_in = 0
        self.pace = Pace()
        """Of rows that are through: workers have answered them, and in a graph all that came of them."""
        self.shed = 0
        self.told = entry.at
        """When rows were last told of."""
        self.came_back = self.told
        """When rows last came back from workers, or the first feeder came, if that is later."""
        self.waiting = 0
        """Rows that have come and are not back; as long as there are feeders."""
        self._since = self.told
        """When the span of the next sample begins: at the last one, or when feeders came after a rest."""
        self._latencies: deque[tuple[float, Latencies]] = deque(maxlen=64)
        self.step = Latencies()
        """Latencies since the last step of the history."""

    def apply(self, entry: EventEntry, workers: WorkerTable) -> None:
        """Take in an entry of this region."""
        match entry:
            case FeederJoinedEntry():
                if not self.feeders:
                    self._since = max(self._since, entry.at)
                    self.came_back, self.waiting = entry.at, 0
                self.feeders += 1
            case FeederLeftEntry():
                self.feeders = max(0, self.feeders - 1)
            case PerformanceEntry():
                self.told = entry.at
                self.shed += whole(entry.shed)
                self.rows_in += whole(entry.rows_in)
                back = sum(whole(each.rows) for each in entry.workers)
                self.came_back = self.told if back else self.came_back
                self.waiting = max(0, self.waiting + entry.rows_in - entry.shed - back)
                self.pace.add(self.told, back, entry.seconds)
                self._add(entry)
                self._workers_answered(entry, workers)

    @property
    def rows(self) -> int:
        """Rows that came, without those that were shed."""
        return self.rows_in - self.shed

    def _span(self, now: float) -> float:
        """The seconds that a sample is about, by the clock."""
        span, self._since = now - self._since, now
        return span

    def _add(self, entry: PerformanceEntry) -> None:
        """Add the latencies in an entry."""
        told = entry.latencies
        self._latencies.append((entry.at, told))
        self.step += told

    def _workers_answered(self, entry: PerformanceEntry, workers: WorkerTable) -> None:
        """By Little's law, rows under way to a worker are rows a second times how long each takes."""
        for each in entry.workers:
            load = workers.get(each.worker).loads.get(self.name)
            mean = each.latency_ms.get("mean")
            if load is not None and mean is not None:
                load.waits(entry.at, each.rows_per_s * mean / 1e3)

    def latencies(self, now: float) -> Latencies:
        """Those of the last seconds."""
        total = Latencies()
        for time, told in self._latencies:
            if now - time <= LATENCY_S:
                total += told
        return total

    def columns(self, now: float) -> dict[str, float | None]:
        """Its figures for the history, by column."""
        return {}

    def shown(self, now: float) -> dict[str, object]:
        """What the page shows of it."""
        summary = self.latencies(now).summary
        return {
            "name": self.name,
            "kind": self.kind,
            "balance": self.balance,
            "feeders": self.feeders,
            "rows": self.rows,
            "rows_s": rounded(self.pace.recent(now), 1),
            "shed": self.shed,
            "p50": rounded(summary.p50, 3) if summary else None,
            "p99": rounded(summary.p99, 3) if summary else None,
        }


class Counters:
    """Cumulative figures of one worker in one region, and how they grew. A new life of the worker begins at 0."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def grown(self, told: object, names: tuple[str, ...]) -> dict[str, float]:
        """By name, how much a counter has grown since the last call; from 0 if it is smaller than then."""
        found = {}
        for name in names:
            value, before = float(getattr(told, name)), self._last.get(name, 0.0)
            found[name] = value - before if value >= before else value
            self._last[name] = value
        return found


@dataclass(slots=True)
class ConnectionShown:
    """One connection of an ordered region, as told last."""

    weight: float | None = None
    blocked: float = 0.0
    """Share of the time of feeding that feeders were blocked by it."""
    load: LoadShown = field(default_factory=LoadShown)


class OrderedView(RegionView):
    """An ordered region: weights and blocking rates by connection."""

    kind = "ordered"

    def __init__(self, entry: RegionOpenedEntry) -> None:
        super().__init__(entry)
        self.splitting = entry.splitting or ""
        self.connections: dict[int, ConnectionShown] = {}
        self._counters: defaultdict[int, Counters] = defaultdict(Counters)
        self._region = Counters()
        self.sampled = self.told

    def apply(self, entry: EventEntry, workers: WorkerTable) -> None:
        super().apply(entry, workers)
        if isinstance(entry, SampleEntry):
            self._sample(entry, workers)
        elif isinstance(entry, WeightsEntry):
            for worker, weight in entry.weights.items():
                self.connections.setdefault(worker, ConnectionShown()).weight = float(weight)

    def _sample(self, entry: SampleEntry, workers: WorkerTable) -> None:
        now = self.sampled = entry.at
        feeding, span, seen = self._region.grown(entry, ("feeding_s",))["feeding_s"], self._span(now), {}
        for each in entry.connections:
            number = each.worker
            counters = self._counters[number]
            new = counters.grown(each, ("blocked_s", "rows_done", "busy_s"))
            load = workers.get(number).load(self.name)
            load.add(now, span, new["busy_s"], new["rows_done"])
            load.waits(now, max(0.0, float(each.rows_sent) - float(each.rows_done)))
            blocked = new["blocked_s"] / feeding if feeding > 1e-3 else 0.0
            seen[number] = ConnectionShown(float(each.weight), blocked, load)
        self.connections = seen

    def columns(self, now: float) -> dict[str, float | None]:
        if now - self.sampled > STALE_S:
            return {}
        found: dict[str, float | None] = {}
        for worker, each in self.connections.items():
            found[f"weight:{worker}:{self.name}"] = each.weight
            found[f"blocked:{worker}:{self.name}"] = rounded(each.blocked, 4)
        return found

    def shown(self, now: float) -> dict[str, object]:
        fresh = now - self.sampled <= STALE_S
        connections = [
            {
                "worker": worker,
                "weight": each.weight,
                "blocked": rounded(each.blocked, 4) if fresh else None,
                "rows_s": rounded(each.load.rows.recent(now), 1) if fresh and each.load.rows is not None else None,
            }
            for worker, each in sorted(self.connections.items())
        ]
        return super().shown(now) | {"splitting": self.splitting, "connections": connections}
