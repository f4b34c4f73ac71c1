"""Places the operators of a graph: statistics make a problem, the placement's answer makes moves of units.

Once a period the placement is asked, unless units are under way. A placement that weighs moves itself (`moves`) is
asked every time; any other is asked when the graph is warm, and again every `every_s` seconds: operators go where it
says (potential-driven §4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.control.events import GraphPlacing, Instruction, Peer, Record, Warn
from evenflow.control.graph_statistics import GraphStatistics
from evenflow.control.movement import Movements
from evenflow.control.ordered_region import balance_failed
from evenflow.control.statistics import Statistics
from evenflow.control.workers import Site
from evenflow.model import MoveUnits
from evenflow.model.messages import FlowProgress, FlowReport
from evenflow.model.placement import Host, Links, OperatorLoad, PlacementProblem
from evenflow.policy.graph.energy import total_energy

WARM = 3
"""Periods with rows before operators are placed by what was measured."""
NOMINAL_LOAD = 0.5
"""The load of each worker that is assumed of a graph of which nothing is known."""
NOMINAL_ROWS = 1000.0
LITTLE = 0.15
"""What a worker does for other regions counts if it takes more of its time: less cannot be told from what is late."""
DELAY_MS, BANDWIDTH = 0.5, 125e6
"""Of links of which nothing is known."""


class GraphBalancing:
    """The placement of one graph."""

    def __init__(self, placing: GraphPlacing, statistics: Statistics, movements: Movements) -> None:
        self.shape, self.placement = placing.shape, placing.placement
        self.measured = GraphStatistics(placing.shape)
        self._placing = placing
        self._statistics, self._movements = statistics, movements
        self._whole = [number for number, node in enumerate(self.shape.nodes) if node.whole]
        self._place = {node: place for place, node in enumerate(self._whole)}
        """By node that is in one place, its number among these."""
        self._live: tuple[int, ...] = ()
        self._warm = 0
        self._placed_at: float | None = None
        self._moved = False
        self._warned: set[str] = set()

    # -- what is told

    def set_workers(self, sites: Mapping[int, Site]) -> None:
        """Set the live workers."""
        self._live = tuple(sorted(sites))
        self.measured.set_workers(sites)

    def report(self, worker: int, message: FlowReport) -> None:
        """Take in what a worker's units did."""
        self.measured.report(worker, message)

    def progress(self, message: FlowProgress) -> None:
        """Take in what came to a feeder."""
        self.measured.progress(message)

    def worker_busy(self, time: float, worker: int, busy_s: float) -> None:
        """A worker tells for how long it has been busy since it started, with whatever it does."""
        known = self._statistics.consumers.get(worker)
        own = known.busy_s if known is not None else 0.0
        self.measured.worker_busy(time, worker, busy_s, own)

    # -- where units are

    def first_owners(self, live: Sequence[int]) -> npt.NDArray[np.int32]:
        """Where units are before anything is known: as the placement has it for operators that cost alike."""
        owners = np.zeros(self.shape.units, np.int32)
        workers = np.asarray(live, np.int32)
        for node in self.shape.nodes:
            owners[node.first : node.first + node.units] = workers[np.arange(node.units) % len(live)]
        owners[-1] = live[0]
        if self._whole:
            hosts = tuple(Host(worker, quota=self._placing.quotas.get(worker, 1.0)) for worker in live)
            load = NOMINAL_LOAD * len(live) / len(self._whole)
            rates = {node: (NOMINAL_ROWS, NOMINAL_ROWS * 100) for node in self._whole}
            problem = self._problem(hosts, {node: (load,) for node in self._whole}, rates, (-1,) * len(self._whole))
            first = self._placing.first or self.placement
            for number, host in zip(self._whole, first.place(problem), strict=True):
                owners[self.shape.nodes[number].first] = live[host]
        return owners

    def placed(self) -> dict[str, list[int]]:
        """By operator, the workers that it is on."""
        owners = self._movements.table.owners
        parts = {node.name: owners[node.first : node.first + node.units] for node in self.shape.nodes}
        return {name: sorted({int(worker) for worker in part}) for name, part in parts.items()}

    def rebalance(
        self, time: float, feeders: Set[Peer], draining: Set[Peer], senders: Set[Peer]
    ) -> Iterator[Instruction]:
        """All workers have reported: if a period is over, close it, ask the placement and begin its moves."""
        if self._movements.moving:
            self._moved = True
            return
        if self._moved:  # rows waited: what was measured meanwhile says nothing
            self._moved = False
            self.measured.begin(time)
            return
        if self.measured.elapsed(time) < self._placing.period:
            return
        if not self.measured.close(time, self.coefficients()) or not feeders - draining:
            return
        self._warm += 1
        if self._warm < WARM or not self.measured.known or not self._whole:
            return
        try:
            problem = self.problem()
            moves = self._decide(time, problem)
        except Exception as error:
            yield balance_failed(time, self._movements.region, self.placement.name, error)
            return
        yield from self._warnings(problem)
        yield self._sampled(time, problem, moves)
        for node, target in moves:
            unit = self.shape.nodes[node].first
            source = int(self._movements.table.owners[unit])
            reason = f"{self.placement.name}: {self.shape.nodes[node].name} costs less there"
            move = MoveUnits(self._movements.region, (unit,), source, target, reason)
            sizes = {unit: int(self._statistics.unit_bytes[unit])}
            yield from self._movements.ask(time, move, sizes, senders)

    def _decide(self, time: float, problem: PlacementProblem) -> list[tuple[int, int]]:
        """Nodes that are to move, and the workers they go to."""
        weigh = getattr(self.placement, "moves", None)
        if weigh is not None:
            chosen = [(o, to) for o, _, to in weigh(problem)]
        else:
            if self._placed_at is not None and time - self._placed_at < self._placing.every_s:
                return []
            self._placed_at = time
            answer = self.placement.place(problem)
            chosen = [(o, to) for o, to in enumerate(answer) if to != problem.placed[o]]
        loads = self._host_loads(problem)
        chosen.sort(key=lambda each: -loads[problem.placed[each[0]]])  # those that suffer most go first
        return [(self._whole[o], self._live[to]) for o, to in chosen]

    # -- what the placement sees

    def coefficients(self) -> dict[int, float]:
        """By worker, how much longer a row takes there than usual."""
        return self.measured.coefficients(dict(self._placing.coefficients), self._live)

    def problem(self) -> PlacementProblem:
        """The graph as it is now: operators that are in one place, with units of the others as background."""
        loads, given = self.measured.loads(), self.measured.ideal().outputs.mean(axis=-1)
        owners, coefficients = self._movements.table.owners, self.coefficients()
        background = self._background(loads, owners)
        hosts = tuple(
            Host(worker, coefficients[worker], self._placing.quotas.get(worker, 1.0), tuple(background[worker]))
            for worker in self._live
        )
        row_bytes = np.nan_to_num(self.measured.row_bytes, nan=100.0)
        rates = {node: (float(given[node]), float(given[node] * row_bytes[node])) for node in self._whole}
        at = {worker: place for place, worker in enumerate(self._live)}
        placed = tuple(at[int(owners[self.shape.nodes[node].first])] for node in self._whole)
        return self._problem(hosts, {node: tuple(loads[node]) for node in self._whole}, rates, placed)

    def _background(self, loads: npt.NDArray[np.float64], owners: npt.NDArray[np.int32]) -> dict[int, Any]:
        """By worker, the load of its units of operators that are spread, in each period, and what else it does."""
        elsewhere, coefficients = self.measured.elsewhere, self.coefficients()
        busy = {worker: share for worker, share in elsewhere.items() if share > LITTLE}
        found = {w: np.full(loads.shape[1], busy.get(w, 0.0) / coefficients[w]) for w in self._live}
        shares = self.measured.unit_shares()
        for number, node in enumerate(self.shape.nodes):
            if not node.whole:
                units = slice(node.first, node.first + node.units)
                held = np.bincount(owners[units], shares[units], 1 + max(self._live))
                for worker in self._live:
                    found[worker] = found[worker] + held[worker] * loads[number]
        return found

    def _problem(
        self,
        hosts: tuple[Host, ...],
        series: Mapping[int, tuple[float, ...]],
        rates: Mapping[int, tuple[float, float]],
        placed: tuple[int, ...],
    ) -> PlacementProblem:
        operators = []
        turns = self.measured.row_s * self.measured.call_rows * 1e3
        for node in self._whole:
            shape = self.shape.nodes[node]
            readers = tuple(self._place[reader] for reader in shape.readers if reader in self._place)
            turn = None if np.isnan(turns[node]) else float(turns[node])
            size = int(self._statistics.unit_bytes[shape.first])
            about = (shape.name, series[node], readers, *rates[node], size)
            operators.append(OperatorLoad(*about, endpoint=shape.endpoint, turn_ms=turn))
        return PlacementProblem(tuple(operators), hosts, self._links(hosts), placed)

    def _links(self, hosts: tuple[Host, ...]) -> Links:
        """Delays and bandwidths between hosts: as given, else as measured, half of the way there and back."""
        pairs = {}
        for one, sender in enumerate(hosts):
            for other, receiver in enumerate(hosts):
                pair = sender.id, receiver.id
                trip = self.measured.round_trips.get(pair)
                default = DELAY_MS if trip is None else trip * 500.0, self.measured.bandwidths.get(pair, BANDWIDTH)
                if one != other:
                    pairs[one, other] = self._placing.links.get(pair, default)
        return Links(DELAY_MS, BANDWIDTH, pairs)

    @staticmethod
    def _host_loads(problem: PlacementProblem) -> npt.NDArray[np.float64]:
        """By host, its mean load as placed now."""
        loads = np.array([float(np.mean(host.background or (0.0,))) for host in problem.hosts])
        series = [float(np.mean(operator.series)) for operator in problem.operators]
        np.add.at(loads, np.array(problem.placed, np.int64), series)
        scaled: npt.NDArray[np.float64] = loads * np.array([host.coefficient for host in problem.hosts])
        return scaled

    # -- what is written down

    def _warnings(self, problem: PlacementProblem) -> Iterator[Instruction]:
        """Warn once of each operator that is heavier than any worker."""
        most = max(host.quota / host.coefficient for host in problem.hosts)
        for operator in problem.operators:
            load = sum(operator.series) / len(operator.series)
            if load > most and operator.name not in self._warned:
                self._warned.add(operator.name)
                yield Warn(
                    f"graph {self._movements.region}: operator {operator.name!r} has a load of {load:.2f}, and no "
                    f"worker may have more than {most:.2f}: it stays behind its input. Make it cheaper, or spread it "
                    "by a key"
                )

    def _sampled(self, time: float, problem: PlacementProblem, moves: list[tuple[int, int]]) -> Record:
        """The entry for the event log: what the placement saw, and what it wants."""
        loads = [float(np.mean(operator.series)) for operator in problem.operators]
        by_host = self._host_loads(problem)
        summary = self.measured.latency()
        fields: dict[str, Any] = {
            "region": self._movements.region,
            "placement": self.placement.name,
            "operators": [
                {"name": operator.name, "worker": problem.hosts[host].id, "load": round(load, 6)}
                for operator, host, load in zip(problem.operators, problem.placed, loads, strict=True)
            ],
            "hosts": [
                {"worker": host.id, "coefficient": round(host.coefficient, 4), "load": round(float(load), 6)}
                for host, load in zip(problem.hosts, by_host, strict=True)
            ],
            "links": [
                {"from": one, "to": other, "rows_s": round(rows, 1), "bytes_s": round(size, 1)}
                for (one, other), (rows, size) in sorted(self.measured.link_use.items())
            ],
            "total_pe": round(float(total_energy(problem, problem.placed)), 6),
            "load_std": round(float(by_host.std()), 6),
            "moves": [{"name": self.shape.nodes[node].name, "worker": worker} for node, worker in moves],
        }
        if summary is not None:
            fields["latency_ms"] = {"mean": summary.mean, "p50": summary.p50, "p99": summary.p99}
            fields["results"] = summary.rows
        return Record(time, "graph-sample", fields)
