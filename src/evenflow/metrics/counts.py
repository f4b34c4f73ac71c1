"""What metrics count: one entry of the event log after the other goes in, totals and latest figures come out.

Nothing here reads a clock or a file, so a live cluster and a finished log give the same. All of it is bounded: regions
by MOST_REGIONS, workers and kinds of entries by the cluster itself; units, keys and queries are never told apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evenflow.eventlog.standing import LoggedEvent
from evenflow.model.latency import Latencies

MOST_REGIONS = 100
"""Regions with metrics: those that were told of last."""
MOST_COUNT = 1 << 63
"""Larger counts are no counts of ours; those within the range of floats are counted all the same."""
IDLE_RATIO = 0.02
"""Where workers are less busy than this in the mean, imbalance says nothing."""
TROUBLES = (
    "worker-lost",
    "worker-trouble",
    "feeder-failed",
    "attempt-poisoned",
    "evaluation-ended",
    "balance-failed",
    "region-failed",
    "store-failed",
    "controller-error",
    "controller-failed",
    "peer-refused",
    "stranger-refused",
    "memory-refused",
)
"""Kinds of entries that tell that something went wrong."""
REASONS = {"asked for": "asked", "utilisation": "utilisation", "excess capacity": "memory"}
"""How the reasons of moves begin, and what they are called in metrics."""


def reason_of(why: str, placed: bool) -> str:
    """The kind of reason for a move: one of a few, since the texts have figures in them."""
    told = next((kind for begin, kind in REASONS.items() if why.startswith(begin)), "")
    return told or ("placement" if placed else "load")


@dataclass(slots=True)
class WorkerShare:
    """One worker's part of one region: counters since the worker or the region began, and the latest figures.

    What its kind of region does not tell of is None.
    """

    rows: int | None = None
    busy_s: float | None = None
    blocked_s: float | None = None
    weight: float | None = None
    """Of 1, in an ordered region."""
    units: int | None = None
    resident: int | None = None
    spilled: int | None = None
    busy_ratio: float | None = None
    """Between the last two samples; None before the second."""


@dataclass(slots=True)
class RegionCounts:
    """One region."""

    kind: str = ""
    """`ordered`, `keyed` or `graph`."""
    rows_in: int = 0
    arrived: int = 0
    """Rows that came, as `performance` and as `graph-results` tell: in a graph both count the same rows."""
    shed: int = 0
    late: int = 0
    latencies: Latencies = field(default_factory=Latencies)
    moves: Counter[str] = field(default_factory=Counter)
    """Movements that began, by reason."""
    refused: int = 0
    undone: int = 0
    units_moved: int = 0
    bytes_moved: int = 0
    movements: int = 0
    pause_s: float = 0.0
    weights_set: int = 0
    feeders: int = 0
    fed: bool = False
    """Whether a feeder was seen to come; without, as in a log whose beginning is gone, there may be some."""
    state_bytes: int | None = None
    energy: float | None = None
    durable: int = 0
    durable_s: float = 0.0
    shares: dict[int, WorkerShare] = field(default_factory=dict)
    sampled: float | None = None

    @property
    def rows(self) -> int:
        """Rows that came, each once: what a graph tells in two ways is counted in the one that is ahead."""
        return max(self.rows_in, self.arrived)

    @property
    def imbalance(self) -> float | None:
        """How busy the busiest worker is over the mean of all: 1 is even; None if there is too little to do."""
        told = [share.busy_ratio for share in self.shares.values() if share.busy_ratio is not None]
        mean = sum(told) / len(told) if told else 0.0
        return max(told) / mean if mean >= IDLE_RATIO else None


@dataclass(slots=True)
class WorkerCounts:
    """One worker."""

    live: bool = False
    restarts: int = 0
    memory: int = 0
    """Bytes it may keep of state; 0 if there is no limit."""


class RunCounts:
    """All that is counted of one run."""

    def __init__(self) -> None:
        self.about: dict[str, str] = {}
        """Of the cluster: its name and version."""
        self.at = 0.0
        """The wall clock of the latest entry."""
        self.workers: dict[int, WorkerCounts] = {}
        self.regions: dict[str, RegionCounts] = {}
        self.troubles: Counter[str] = Counter(dict.fromkeys(TROUBLES, 0))
        self._handlers: dict[str, Callable[[RegionCounts, LoggedEvent], None]] = {
            "region-opened": _opened,
            "feeder-joined": _feeder_joined,
            "feeder-left": _feeder_left,
            "performance": _performance,
            "rows-late": _rows_late,
            "graph-results": _graph_results,
            "sample": _sample,
            "keyed-sample": _keyed_sample,
            "graph-sample": _graph_sample,
            "weights": _weights,
            "move": _move,
            "moved": _moved,
            "move-refused": _move_refused,
            "move-undone": _move_undone,
            "task-durable": _task_durable,
        }

    def add(self, entry: LoggedEvent) -> None:
        """Count an entry."""
        kind = entry["event"]
        if kind == "cluster-started":
            self.about = {name: str(entry.get(name, "")) for name in ("cluster", "version")}
        self.at = max(self.at, float(entry.get("at", 0.0)))
        if kind in self.troubles:
            self.troubles[kind] += 1
        elif kind == "entries-left-out" and entry["kind"] in self.troubles:
            self.troubles[entry["kind"]] += _whole(entry["count"])
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(self._region(str(entry["region"])), entry)
        elif "worker" in entry:
            self._worker(kind, entry)

    def utilisation(self, worker: int) -> float | None:
        """How busy a worker is with all regions together; None if that is not known."""
        told = [region.shares[worker].busy_ratio for region in self.regions.values() if worker in region.shares]
        known = [ratio for ratio in told if ratio is not None]
        return min(1.0, sum(known)) if known else None

    def _region(self, name: str) -> RegionCounts:
        region = self.regions.pop(name, None) or RegionCounts()
        self.regions[name] = region  # the last is the one that was told of last
        if len(self.regions) > MOST_REGIONS:
            del self.regions[next(iter(self.regions))]
        return region

    def _worker(self, kind: str, entry: LoggedEvent) -> None:
        if kind not in ("worker-joined", "worker-lost", "worker-stopped", "memory-set", "memory-asked"):
            return
        worker = self.workers.setdefault(int(entry["worker"]), WorkerCounts())
        if kind == "worker-joined":
            worker.live, worker.restarts = True, _whole(entry["incarnation"]) - 1
        elif kind.startswith("memory"):
            worker.memory = _whole(entry["memory"])
        else:
            worker.live = False
            for region in self.regions.values():
                region.shares.pop(int(entry["worker"]), None)


def _whole(told: Any) -> int:
    """A count in an entry: one that metrics can be made of."""
    return int(float(told)) if not isinstance(told, int) or abs(told) >= MOST_COUNT else told


def _opened(region: RegionCounts, entry: LoggedEvent) -> None:
    region.kind = "graph" if "operators" in entry else "keyed" if "units" in entry else "ordered"


def _feeder_joined(region: RegionCounts, entry: LoggedEvent) -> None:
    region.feeders, region.fed = region.feeders + 1, True


def _feeder_left(region: RegionCounts, entry: LoggedEvent) -> None:
    region.feeders = max(0, region.feeders - 1)
    _rest(region)


def _rest(region: RegionCounts) -> None:
    """Without feeders nobody is busy: no later sample would say so."""
    for share in region.shares.values():
        if not region.feeders and share.busy_ratio is not None:
            share.busy_ratio = 0.0


def _performance(region: RegionCounts, entry: LoggedEvent) -> None:
    latencies = Latencies.read(entry)
    region.rows_in += _whole(entry["rows_in"])
    region.shed += _whole(entry["shed"])
    region.latencies += latencies


def _rows_late(region: RegionCounts, entry: LoggedEvent) -> None:
    region.late += _whole(entry["rows"])


def _graph_results(region: RegionCounts, entry: LoggedEvent) -> None:
    region.arrived += _whole(entry["arrived"])  # the latencies are those of `performance`


def _shares(region: RegionCounts, entry: LoggedEvent, members: list[Any], rows: str) -> None:
    """Take in a sample: counters as they are, and how busy workers were since the last one."""
    time = float(entry["time"])
    seconds = time - region.sampled if region.sampled is not None else 0.0
    before, region.shares, region.sampled = region.shares, {}, time
    for told in members:
        worker, busy_s = _whole(told["worker"]), float(told["busy_s"])
        last = before.get(worker)
        share = region.shares[worker] = WorkerShare(_whole(told[rows]), busy_s)
        if last is not None and last.busy_s is not None and seconds > 0:
            share.busy_ratio = min(1.0, max(0.0, busy_s - last.busy_s) / seconds)
    _rest(region)


def _sample(region: RegionCounts, entry: LoggedEvent) -> None:
    region.kind, region.feeders = "ordered", _whole(entry["feeders"])
    _shares(region, entry, entry["connections"], "rows_done")
    for told in entry["connections"]:
        share = region.shares[_whole(told["worker"])]
        share.blocked_s, share.weight = float(told["blocked_s"]), told["weight"] / 1000


def _keyed_sample(region: RegionCounts, entry: LoggedEvent) -> None:
    region.kind = region.kind or "keyed"
    region.feeders, region.state_bytes = _whole(entry["feeders"]), _whole(entry["state_bytes"])
    _shares(region, entry, entry["consumers"], "rows")
    for told in entry["consumers"]:
        share = region.shares[_whole(told["worker"])]
        share.units, share.resident, share.spilled = (_whole(told[each]) for each in ("units", "resident", "spilled"))


def _graph_sample(region: RegionCounts, entry: LoggedEvent) -> None:
    region.kind, region.energy = "graph", float(entry["total_pe"])
    loads = {_whole(told["worker"]): float(told["load"]) for told in entry["hosts"]}
    region.shares = {worker: WorkerShare(busy_ratio=min(1.0, load)) for worker, load in loads.items()}
    if region.fed:  # the last sample of a batch may come after its feeders are gone
        _rest(region)


def _weights(region: RegionCounts, entry: LoggedEvent) -> None:
    region.weights_set += 1


def _move(region: RegionCounts, entry: LoggedEvent) -> None:
    region.moves[reason_of(str(entry.get("why", "")), region.kind == "graph")] += 1


def _moved(region: RegionCounts, entry: LoggedEvent) -> None:
    region.movements += 1
    region.units_moved += len(entry["units"])
    region.bytes_moved += _whole(entry["bytes"])
    region.pause_s += float(entry["seconds"])


def _move_refused(region: RegionCounts, entry: LoggedEvent) -> None:
    region.refused += 1


def _move_undone(region: RegionCounts, entry: LoggedEvent) -> None:
    region.undone += 1


def _task_durable(region: RegionCounts, entry: LoggedEvent) -> None:
    region.durable += 1
    region.durable_s += float(entry["log_s"] + entry["note_s"])
