"""What metrics count: one entry of the event log after the other goes in, totals and latest figures come out.

Nothing here reads a clock or a file, so a live cluster and a finished log give the same. All of it is bounded: regions
by MOST_REGIONS, workers and kinds of entries by the cluster itself; units, keys and queries are never told apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from evenflow.model.entries import (
    AttemptPoisonedEntry,
    BalanceFailedEntry,
    ClusterStartedEntry,
    ControllerErrorEntry,
    ControllerFailedEntry,
    EntriesLeftOutEntry,
    EvaluationEndedEntry,
    EventEntry,
    FeederFailedEntry,
    FeederJoinedEntry,
    FeederLeftEntry,
    GraphResultsEntry,
    GraphSampleEntry,
    KeyedSampleEntry,
    MemoryAskedEntry,
    MemoryRefusedEntry,
    MemorySetEntry,
    MovedEntry,
    MoveEntry,
    MoveRefusedEntry,
    MoveUndoneEntry,
    PeerRefusedEntry,
    PerformanceEntry,
    RawEntry,
    RegionEntry,
    RegionFailedEntry,
    RegionOpenedEntry,
    RowsLateEntry,
    SampleEntry,
    StoreFailedEntry,
    StrangerRefusedEntry,
    TaskDurableEntry,
    WeightsEntry,
    WorkerJoinedEntry,
    WorkerLostEntry,
    WorkerStoppedEntry,
    WorkerTroubleEntry,
    name_of,
)
from evenflow.model.latency import Latencies

MOST_REGIONS = 100
"""Regions with metrics: those that were told of last."""
MOST_COUNT = 1 << 63
"""Larger counts are no counts of ours; those within the range of floats are counted all the same."""
IDLE_RATIO = 0.02
"""Where workers are less busy than this in the mean, imbalance says nothing."""
TROUBLES: tuple[type[EventEntry], ...] = (
    WorkerLostEntry,
    WorkerTroubleEntry,
    FeederFailedEntry,
    AttemptPoisonedEntry,
    EvaluationEndedEntry,
    BalanceFailedEntry,
    RegionFailedEntry,
    StoreFailedEntry,
    ControllerErrorEntry,
    ControllerFailedEntry,
    PeerRefusedEntry,
    StrangerRefusedEntry,
    MemoryRefusedEntry,
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
        self.troubles: Counter[str] = Counter({name_of(kind): 0 for kind in TROUBLES})

    def add(self, entry: EventEntry) -> None:
        """Count an entry."""
        self.at = max(self.at, entry.at)  # NaN, of an entry without a time, is never larger
        if isinstance(entry, TROUBLES):
            self.troubles[entry.event] += 1
        match entry:
            case RawEntry(why=why) if why:
                raise ValueError(why)
            case ClusterStartedEntry():
                self.about = {"cluster": entry.cluster, "version": entry.version}
            case EntriesLeftOutEntry(kind=kind) if kind in self.troubles:
                self.troubles[kind] += _whole(entry.count)
            case WorkerJoinedEntry():
                worker = self._worker(entry.worker)
                worker.live, worker.restarts = True, _whole(entry.incarnation) - 1
            case WorkerLostEntry() | WorkerStoppedEntry():
                self._worker(entry.worker).live = False
                for region in self.regions.values():
                    region.shares.pop(entry.worker, None)
            case MemorySetEntry() | MemoryAskedEntry():
                self._worker(entry.worker).memory = _whole(entry.memory)
            case RegionEntry() if (count := HANDLERS.get(type(entry))) is not None:
                count(self._region(entry.region), entry)

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

    def _worker(self, number: int) -> WorkerCounts:
        return self.workers.setdefault(number, WorkerCounts())


def _whole(told: Any) -> int:
    """A count in an entry: one that metrics can be made of."""
    return int(float(told)) if not isinstance(told, int) or abs(told) >= MOST_COUNT else told


def _opened(region: RegionCounts, entry: RegionOpenedEntry) -> None:
    graph, keyed = entry.operators is not UNSET, entry.units is not UNSET
    region.kind = "graph" if graph else "keyed" if keyed else "ordered"


def _feeder_joined(region: RegionCounts, entry: FeederJoinedEntry) -> None:
    region.feeders, region.fed = region.feeders + 1, True


def _feeder_left(region: RegionCounts, entry: FeederLeftEntry) -> None:
    region.feeders = max(0, region.feeders - 1)
    _rest(region)


def _rest(region: RegionCounts) -> None:
    """Without feeders nobody is busy: no later sample would say so."""
    for share in region.shares.values():
        if not region.feeders and share.busy_ratio is not None:
            share.busy_ratio = 0.0


def _performance(region: RegionCounts, entry: PerformanceEntry) -> None:
    region.rows_in += _whole(entry.rows_in)
    region.shed += _whole(entry.shed)
    region.latencies += entry.latencies


def _rows_late(region: RegionCounts, entry: RowsLateEntry) -> None:
    region.late += _whole(entry.rows)


def _graph_results(region: RegionCounts, entry: GraphResultsEntry) -> None:
    region.arrived += _whole(entry.arrived)  # the latencies are those of `performance`


def _shares(region: RegionCounts, time: float, told: Iterable[tuple[int, int, float]]) -> None:
    """Take in a sample, worker, rows and busy time each: counters as they are, and how busy workers were since."""
    seconds = time - region.sampled if region.sampled is not None else 0.0
    before, region.shares, region.sampled = region.shares, {}, time
    for worker, rows, busy_s in told:
        last = before.get(worker)
        share = region.shares[worker] = WorkerShare(_whole(rows), busy_s)
        if last is not None and last.busy_s is not None and seconds > 0:
            share.busy_ratio = min(1.0, max(0.0, busy_s - last.busy_s) / seconds)
    _rest(region)


def _sample(region: RegionCounts, entry: SampleEntry) -> None:
    region.kind, region.feeders = "ordered", _whole(entry.feeders)
    _shares(region, entry.time, ((told.worker, told.rows_done, told.busy_s) for told in entry.connections))
    for told in entry.connections:
        share = region.shares[told.worker]
        share.blocked_s, share.weight = told.blocked_s, told.weight / 1000


def _keyed_sample(region: RegionCounts, entry: KeyedSampleEntry) -> None:
    region.kind = region.kind or "keyed"
    region.feeders, region.state_bytes = _whole(entry.feeders), _whole(entry.state_bytes)
    _shares(region, entry.time, ((told.worker, told.rows, told.busy_s) for told in entry.consumers))
    for told in entry.consumers:
        share = region.shares[told.worker]
        share.units, share.resident, share.spilled = _whole(told.units), _whole(told.resident), _whole(told.spilled)


def _graph_sample(region: RegionCounts, entry: GraphSampleEntry) -> None:
    region.kind, region.energy = "graph", entry.total_pe
    region.shares = {told.worker: WorkerShare(busy_ratio=min(1.0, told.load)) for told in entry.hosts}
    if region.fed:  # the last sample of a batch may come after its feeders are gone
        _rest(region)


def _weights(region: RegionCounts, entry: WeightsEntry) -> None:
    region.weights_set += 1


def _move(region: RegionCounts, entry: MoveEntry) -> None:
    region.moves[reason_of(entry.why, region.kind == "graph")] += 1


def _moved(region: RegionCounts, entry: MovedEntry) -> None:
    region.movements += 1
    region.units_moved += len(entry.units)
    region.bytes_moved += _whole(entry.bytes)
    region.pause_s += entry.seconds


def _move_refused(region: RegionCounts, entry: MoveRefusedEntry) -> None:
    region.refused += 1


def _move_undone(region: RegionCounts, entry: MoveUndoneEntry) -> None:
    region.undone += 1


def _task_durable(region: RegionCounts, entry: TaskDurableEntry) -> None:
    region.durable += 1
    region.durable_s += entry.log_s + entry.note_s


HANDLERS: dict[type[EventEntry], Callable[[RegionCounts, Any], None]] = {
    RegionOpenedEntry: _opened,
    FeederJoinedEntry: _feeder_joined,
    FeederLeftEntry: _feeder_left,
    PerformanceEntry: _performance,
    RowsLateEntry: _rows_late,
    GraphResultsEntry: _graph_results,
    SampleEntry: _sample,
    KeyedSampleEntry: _keyed_sample,
    GraphSampleEntry: _graph_sample,
    WeightsEntry: _weights,
    MoveEntry: _move,
    MovedEntry: _moved,
    MoveRefusedEntry: _move_refused,
    MoveUndoneEntry: _move_undone,
    TaskDurableEntry: _task_durable,
}
"""What is counted of a region, by kind of entry."""
