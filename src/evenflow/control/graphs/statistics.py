"""The statistics of one graph: what its units cost and give, what its sources bring, and how far workers are apart.

Reports are collected for a period; then the period is closed, and the latest PERIODS of them make up the load series
of the operators (potential-driven §2.2). Costs and selectivities change slowly: they are ratios of averages that
forget, so that a period with few rows counts little. A period in which units moved is left out, since rows waited.

Loads go by what arrives. A source that has been read whole brings nothing more, while its rows still wait: what
operators took lately, and what is on its way to them, counts where it is more than what arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import numpy.typing as npt

from evenflow.control.events import Peer
from evenflow.model.graphs.shape import GraphShape
from evenflow.model.latency import Latencies
from evenflow.model.messages import FlowProgress, FlowReport
from evenflow.policy.graph.energies.measures import Cascade, cascade, joint, steadied

PERIODS = 10
"""Periods that are remembered (k in the paper)."""
NEWS = 0.3
"""The weight of a new measurement of a cost or a selectivity; the average so far has the rest."""
FRESH_S = 3.0
"""Feeders report once a second how many rows wait. A report older than this many seconds is not used: its feeder waits
for Spark."""
ALIKE = 1.25
"""Workers whose speeds differ by less than this factor count as alike: measurements are not finer."""

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class WorkerSums:
    """By unit, what one worker or all of them did since the period began."""

    rows_in: Floats
    rows_out: Floats
    service_s: Floats
    calls: Floats
    bytes_out: Floats

    @classmethod
    def zero(cls, units: int) -> WorkerSums:
        """Nothing done yet."""
        return cls(
            rows_in=np.zeros(units),
            rows_out=np.zeros(units),
            service_s=np.zeros(units),
            calls=np.zeros(units),
            bytes_out=np.zeros(units),
        )


@dataclass(slots=True)
class Period:
    """One closed period."""

    seconds: float
    sources: Floats
    """Rows a second by source."""
    unit_rows: Floats
    """Rows a second by unit."""


@dataclass
class GraphStatistics:
    """The measurements of one graph."""

    shape: GraphShape
    periods: deque[Period] = field(default_factory=lambda: deque(maxlen=PERIODS))
    standards: dict[int, float] = field(default_factory=dict)
    """By worker, microseconds of a standard piece of work."""
    round_trips: dict[tuple[int, int], float] = field(default_factory=dict)
    """By sender and receiver, seconds there and back."""
    bandwidths: dict[tuple[int, int], float] = field(default_factory=dict)
    """By sender and receiver, bytes a second, at best."""
    link_use: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    """By sender and receiver, rows and bytes a second in the latest period."""
    taken: dict[int, float] = field(default_factory=dict)
    """By worker, rows a second that its operators took in, in the latest period."""
    queued: dict[int, int] = field(default_factory=dict)
    """By worker, the rows that waited there at its last report in the latest period."""
    elsewhere: dict[int, float] = field(default_factory=dict)
    """By worker, the part of its time that other regions have taken lately."""
    latencies: Latencies = field(default_factory=Latencies)
    """How long results have taken since the graph was opened."""

    def __post_init__(self) -> None:
        count = len(self.shape.nodes)
        self._service_s, self._taken, self._calls, self._size, self._given = (np.zeros(count) for _ in range(5))
        """By node, averages a second of what it does: service time, rows in, calls, bytes out, rows out."""
        self._joint = np.zeros(count)
        """By node, the average of its joint input rates (`joint`)."""
        self._by_rows = [node.by_rows for node in self.shape.nodes]
        self._sums: dict[int, WorkerSums] = {}
        self._busy: dict[int, tuple[float, float, float]] = {}
        self._sent: dict[tuple[int, int], tuple[int, int]] = {}
        self._queued: dict[int, int] = {}
        self._arrived = np.zeros(len(self.shape.sources))
        self._told: dict[Peer, tuple[float, FlowProgress]] = {}
        """By feeder, its last report, and when it came."""
        self._waiting = np.zeros(len(self.shape.sources))
        """By source, rows that were on their way at the end of the latest period."""
        self._began: float | None = None
        self._node = np.zeros(self.shape.units, np.int64)
        """By unit, its node."""
        for number, node in enumerate(self.shape.nodes):
            self._node[node.first : node.first + node.units] = number

    # -- reports

    def set_workers(self, workers: Iterable[int]) -> None:
        """Forget the measurements of workers that are gone."""
        live = set(workers)
        self._sums = {worker: sums for worker, sums in self._sums.items() if worker in live}
        self._queued = {worker: rows for worker, rows in self._queued.items() if worker in live}
        self.elsewhere = {worker: share for worker, share in self.elsewhere.items() if worker in live}
        self.standards = {worker: value for worker, value in self.standards.items() if worker in live}
        self._busy = {worker: known for worker, known in self._busy.items() if worker in live}
        for pairs in (self.round_trips, self.bandwidths):
            for pair in [pair for pair in pairs if not live.issuperset(pair)]:
                del pairs[pair]

    def report(self, worker: int, told: FlowReport) -> None:
        """Take in a worker's report of its units."""
        if worker not in self._sums:
            self._sums[worker] = WorkerSums.zero(self.shape.units)
        sums = self._sums[worker]
        for total, told_of in (
            (sums.rows_in, told.rows_in),
            (sums.rows_out, told.rows_out),
            (sums.service_s, told.micros * 1e-6),
            (sums.calls, told.calls),
            (sums.bytes_out, told.bytes_out),
        ):
            np.add.at(total, told.units, told_of)
        if told.queued is not None:
            self._queued[worker] = told.queued
        if told.standard_us:
            self.standards[worker] = told.standard_us
        self.round_trips.update({(worker, other): trip for other, trip in told.round_trips.items()})
        self.bandwidths.update({(worker, other): rate for other, rate in told.bandwidths.items()})
        for other, sent in told.sent.items():
            rows, size = self._sent.get((worker, other), (0, 0))
            self._sent[worker, other] = rows + sent.rows, size + sent.bytes

    def worker_busy(self, time: float, worker: int, busy_s: float, own_s: float | None) -> None:
        """Take in how long a worker has been busy since it started, `own_s` of it with this graph; None: as before.

        That is so while the graph is not fed, as between two micro-batches.
        """
        before, busy_before, own_before = self._busy.get(worker, (time, busy_s, own_s or 0.0))
        own_s = own_before if own_s is None else own_s
        self._busy[worker] = time, busy_s, own_s
        if busy_s < busy_before or own_s < own_before:  # it is another one since
            self.elsewhere.pop(worker, None)
        elif time > before:
            others = max(0.0, (busy_s - busy_before) - (own_s - own_before)) / (time - before)
            known = self.elsewhere.get(worker, others)
            self.elsewhere[worker] = min(1.0, (1 - NEWS) * known + NEWS * others)

    def progress(self, time: float, feeder: Peer, told: FlowProgress) -> None:
        """Take in a feeder's report of the rows that have come to it, of results, and of rows that wait."""
        self._told[feeder] = time, told
        for source, rows in told.arrived.items():
            if source < len(self._arrived):
                self._arrived[source] += rows
        self.latencies += told.latencies

    def left(self, feeder: Peer) -> None:
        """A feeder is gone, and none of its rows waits any more."""
        self._told.pop(feeder, None)

    # -- periods

    def begin(self, time: float) -> None:
        """Begin a period now, without the reports that came before."""
        self._began = time
        self._sums.clear()
        self._sent.clear()
        self._queued.clear()
        self._arrived[:] = 0

    @property
    def empty(self) -> bool:
        """Whether nobody has reported any rows since the period began."""
        return not self._arrived.any() and not any(sums.rows_in.any() for sums in self._sums.values())

    def wake(self, time: float) -> None:
        """Feeders come after a rest: a period that had no rows so far begins only now."""
        if self._began is not None and self.empty:
            self.begin(time)

    def elapsed(self, time: float) -> float:
        """Seconds since the period began; it begins now if none has."""
        if self._began is None:
            self.begin(time)
        assert self._began is not None
        return time - self._began

    def close(self, time: float, coefficients: dict[int, float]) -> bool:
        """End the period and begin the next; returns whether it had rows, and so counts. One of 0 s goes on."""
        seconds = self.elapsed(time)
        if seconds <= 0:
            return False
        sums, arrived = self._pooled(coefficients), self._arrived / seconds
        self.link_use = {pair: (rows / seconds, size / seconds) for pair, (rows, size) in self._sent.items()}
        self.taken = {worker: float(told.rows_in.sum()) / seconds for worker, told in self._sums.items()}
        self.queued = dict(self._queued)
        self.begin(time)
        if not sums.rows_in.any():
            return False
        self._learn(sums, seconds, arrived)
        self._waiting[:] = 0
        for told_at, told in self._told.values():
            for source, rows in told.waiting.items() if time - told_at < FRESH_S else ():
                if source < len(self._waiting):
                    self._waiting[source] += rows
        self.periods.append(Period(seconds, arrived, sums.rows_in / seconds))
        return True

    def _pooled(self, coefficients: dict[int, float]) -> WorkerSums:
        """The sums over all workers, with service times as on a worker of coefficient 1."""
        pooled = WorkerSums.zero(self.shape.units)
        for worker, sums in self._sums.items():
            pooled.rows_in += sums.rows_in
            pooled.rows_out += sums.rows_out
            pooled.service_s += sums.service_s / coefficients.get(worker, 1.0)
            pooled.calls += sums.calls
            pooled.bytes_out += sums.bytes_out
        return pooled

    def _by_node(self, units: Floats) -> Floats:
        return np.bincount(self._node[: len(units)], units, len(self.shape.nodes)).astype(np.float64)

    def _learn(self, sums: WorkerSums, seconds: float, arrived: Floats) -> None:
        """Take a period into the averages of the nodes that had rows in it.

        Workers count the rows that a node takes from all its inputs together. Each input gets its share of these in
        proportion to the rows that came there, of which not all may have been taken yet.
        """
        taken, given = self._by_node(sums.rows_in) / seconds, self._by_node(sums.rows_out) / seconds
        new = taken > 0
        counts = np.where(self._taken > 0, NEWS, 1.0)
        for known, found in (
            (self._taken, taken),
            (self._given, given),
            (self._service_s, self._by_node(sums.service_s) / seconds),
            (self._calls, self._by_node(sums.calls) / seconds),
            (self._size, self._by_node(sums.bytes_out) / seconds),
        ):
            known[new] += (counts * (found - known))[new]
        for number in np.flatnonzero(new).tolist():
            came = np.array(
                [given[each] if each >= 0 else arrived[-1 - each] for each in self.shape.nodes[number].inputs]
            )
            share = came / came.sum() if came.sum() else np.full(len(came), 1 / len(came))
            together = float(joint(taken[number] * share, self._by_rows[number]))
            self._joint[number] += counts[number] * (together - self._joint[number])

    # -- figures

    @property
    def row_s(self) -> Floats:
        """By node, the service time of a row on a worker of coefficient 1; NaN while it is not known."""
        return _ratio(self._service_s, self._taken)

    @property
    def call_rows(self) -> Floats:
        """By node, rows of a call; NaN while it is not known."""
        return _ratio(self._taken, self._calls)

    @property
    def row_bytes(self) -> Floats:
        """By node, bytes of an output row; NaN while it is not known."""
        return _ratio(self._size, self._given)

    @property
    def selectivities(self) -> Floats:
        """By node, output over the joint rate at which the inputs were taken; NaN while it is not known."""
        return _ratio(self._given, self._joint)

    @property
    def known(self) -> bool:
        """Whether every operator that had rows has a cost, and there is a period to look at."""
        return bool(self.periods) and not np.isnan(self.row_s).all()

    def ideal(self) -> Cascade:
        """The flow of rows if no worker were overloaded, by node and period (§2.2.1)."""
        rates = steadied(
            np.array([period.sources for period in self.periods]).T, np.array([each.seconds for each in self.periods])
        )
        first = len(self.shape.sources)
        inputs = [[-1 - each if each < 0 else first + each for each in node.inputs] for node in self.shape.nodes]
        return cascade(rates, inputs, np.nan_to_num(self.selectivities).tolist(), self._by_rows)

    def offered(self) -> Cascade:
        """The ideal rates, raised evenly where rows wait from before: operators work these off, too.

        rate of all periods = (rows taken in them + rows that wait now) / their seconds, if the ideal is less
        """
        ideal, seconds = self.ideal(), np.array([period.seconds for period in self.periods])
        taken = self._by_node(np.sum([period.unit_rows * period.seconds for period in self.periods], axis=0))
        missing = np.maximum(0.0, taken + self._behind() - (ideal.arrivals * seconds).sum(axis=1)) / seconds.sum()
        given = missing * np.nan_to_num(_ratio(self._given, self._taken))
        return Cascade(ideal.arrivals + missing[:, None], ideal.outputs + given[:, None])

    def _behind(self) -> Floats:
        """By node, how many of the rows that wait now will reach it."""
        given, found = np.nan_to_num(_ratio(self._given, self._taken)), np.zeros(len(self.shape.nodes))
        for number, node in enumerate(self.shape.nodes):
            read = [found[each] * given[each] if each >= 0 else self._waiting[-1 - each] for each in node.inputs]
            found[number] = sum(read)
        return found

    def loads(self) -> Floats:
        """By node and period, the benchmark load: the offered rate times the service time of a row (§2.2.1)."""
        return np.asarray(self.offered().arrivals * np.nan_to_num(self.row_s)[:, None], np.float64)

    def unit_shares(self) -> Floats:
        """By unit, its share of its node's rows in the latest periods."""
        rows = np.sum([period.unit_rows for period in self.periods], axis=0)
        whole = self._by_node(rows)[self._node]
        shares: Floats = np.divide(rows, whole, out=np.zeros_like(rows), where=whole > 0)
        return shares

    def coefficients(self, given: dict[int, float], live: Iterable[int]) -> dict[int, float]:
        """By worker, how much longer a row takes than on a worker of the usual speed."""
        usual = median(self.standards.values()) if self.standards else 0.0
        found = {}
        for worker in live:
            ratio = self.standards.get(worker, usual) / usual if usual else 1.0
            found[worker] = given.get(worker, ratio if not 1 / ALIKE <= ratio <= ALIKE else 1.0)
        return found


def _ratio(part: Floats, whole: Floats) -> Floats:
    """One by the other; NaN where there is nothing to divide by."""
    found: Floats = np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)
    return found
