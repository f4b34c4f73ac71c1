"""Places the operators of a graph: statistics make a problem, the placement's answer makes moves of units.

Once a period it is decided what moves, unless units are under way. With `PotentialPlacement`, lanes, units of keyed
operators and whole operators are one decision (`Levels`). Any other placement says where whole operators go: one that
weighs moves itself (`moves`) is asked every time, the others when the graph is warm, and again every `every_s` seconds
(potential-driven §4); if no operator is to move, lanes and units are balanced around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from math import log2

import numpy as np
import numpy.typing as npt

from evenflow.control.events import GraphPlacing, Instruction, Peer, WarnInstruction
from evenflow.control.graphs.samples import graph_sample, host_loads, too_heavy
from evenflow.control.graphs.statistics import GraphStatistics
from evenflow.control.moves.movements import Movements
from evenflow.control.regions.ordered import balance_failed
from evenflow.control.regions.statistics import Statistics
from evenflow.control.workers import WorkerLife
from evenflow.model import MoveUnits
from evenflow.model.graphs.placement import Host, Links, OperatorLoad, PlacementProblem
from evenflow.model.graphs.spread import KEYED, LANES, OperatorMove, SpreadOperator, as_background
from evenflow.model.messages import FlowProgress, FlowReport
from evenflow.policy.graph.moves.levels import WHOLE, Decision, Levels
from evenflow.policy.graph.potential import PotentialPlacement

NOMINAL_LOAD = 0.5
"""The load of each worker that is assumed before anything of a graph is measured."""
NOMINAL_ROWS = 1000.0
NOTEWORTHY = 0.1
"""A change of a load or a speed by less than this part is no reason for a new decision, which takes a while."""
LITTLE = 0.15
"""Work for other regions counts if it takes more than this part of a worker's time: less may be the error of
figures that come late."""
DELAY_MS, BANDWIDTH = 0.5, 125e6
"""Delay and bandwidth of links that nobody has measured or given."""


class GraphBalancing:
    """The placement of one graph."""

    def __init__(self, placing: GraphPlacing, statistics: Statistics, movements: Movements) -> None:
        self.shape, self.placement = placing.shape, placing.placement
        self.measured = GraphStatistics(placing.shape)
        self._placing = placing
        self._statistics, self._movements = statistics, movements
        self._whole = [number for number, node in enumerate(self.shape.nodes) if node.whole]
        self._spread = [number for number, node in enumerate(self.shape.nodes) if not node.whole]
        self._place = {node: place for place, node in enumerate([*self._whole, *self._spread])}
        """By node, its number in a placement problem: whole operators first, then the spread ones."""
        potential = self.placement if isinstance(self.placement, PotentialPlacement) else None
        self._one_decision, self._potential = potential is not None, potential or PotentialPlacement()
        self._live: tuple[int, ...] = ()
        self._warm = 0
        self._placed_at: float | None = None
        self._at_rest: npt.NDArray[np.float64] | None = None
        """The figures of the last decision, if it was to move nothing; otherwise None."""
        self._moved = False
        self._warned: set[str] = set()

    # -- reports

    def set_workers(self, workers: Mapping[int, WorkerLife]) -> None:
        """Set the live workers."""
        self._live = tuple(sorted(workers))
        self.measured.set_workers(workers)

    def report(self, worker: int, message: FlowReport) -> None:
        """Take in a worker's report of its units."""
        self.measured.report(worker, message)

    def progress(self, time: float, feeder: Peer, message: FlowProgress) -> None:
        """Take in a feeder's report of results and of rows that wait."""
        self.measured.progress(time, feeder, message)

    # -- where units are

    def first_owners(self, live: Sequence[int]) -> npt.NDArray[np.int32]:
        """The owners of units before anything is measured: the placement's answer for operators that cost alike."""
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
        """Called when all workers have reported: at the end of a period, ask the placement and begin its moves.

        Feeders of short batches have all their rows at once, so a period may end when they are through, or after them
        (`rest`). Such a period is written down, and nothing is decided.
        """
        if self._movements.moving:
            self._moved = True
            return
        if self._moved:  # rows waited for units: figures of that time say nothing
            self._moved = False
            self.measured.begin(time)
            return
        if self.measured.elapsed(time) < self._placing.period:
            return
        if not self.measured.close(time, self.coefficients()) or not self.measured.known:
            return
        fed = bool(feeders - draining)
        self._warm += fed
        if fed and self._warm < self._placing.warm:
            return
        try:
            problem, spread = self.problem(), self.spread()
            decision = self._decide(time, problem, spread) if fed else Decision()
        except Exception as error:
            yield balance_failed(time, self._movements.region, self.placement.name, error)
            return
        shown = as_background(problem, spread)
        yield from self._warned_of(shown) if fed else ()
        name = self._movements.region
        yield graph_sample(time, name, self.placement.name, shown, spread, decision, self.measured)
        for move in self._moves(problem, spread, decision):
            self._moved = True  # also if it is over before this is asked again
            sizes = {unit: int(self._statistics.unit_bytes[unit]) for unit in move.units}
            yield from self._movements.ask(time, move, sizes, senders)

    def rest(self, time: float, senders: Set[Peer]) -> Iterator[Instruction]:
        """Nobody feeds the graph: close the last period with rows when it is over, so that it contains no long rest."""
        return iter(()) if self.measured.empty else self.rebalance(time, frozenset(), frozenset(), senders)

    def _decide(self, time: float, problem: PlacementProblem, spread: Sequence[SpreadOperator]) -> Decision:
        """The moves to make now; none while the figures are about those of the last decision that moved nothing."""
        if not self._one_decision:
            moves = self._placed(time, as_background(problem, spread)) if self._whole else ()
            why = "costs less there"
            return Decision(WHOLE, moves, (), why) if moves else self._levels(time).decide_units(problem, spread)
        seen, rest = self._seen(problem, spread, self._pause(time)), self._at_rest
        if rest is not None and len(seen) == len(rest) and _alike(seen, rest):
            return Decision()
        decision = self._levels(time).decide(problem, spread)
        self._at_rest = seen if not decision.operators and not decision.units else None
        return decision

    def _levels(self, time: float) -> Levels:
        """The decision maker, told how long moves have paused rows of late: feeders and links may delay them."""
        return Levels(replace(self._potential, pause_s=self._pause(time)))

    def _pause(self, time: float) -> float:
        """The usual pause of a move in seconds: a power of two, so that its slow decay causes few new decisions."""
        potential = self._potential
        usual = self._movements.pauses.usual(time, potential.horizon_s)
        return potential.pause_s if usual <= potential.pause_s else max(potential.pause_s, 2.0 ** round(log2(usual)))

    def _seen(
        self, problem: PlacementProblem, spread: Sequence[SpreadOperator], pause: float
    ) -> npt.NDArray[np.float64]:
        """The figures that a decision depends on: loads, how they vary, speeds of hosts, and the pause of a move."""
        series = np.array([*(each.series for each in problem.operators), *(each.series for each in spread)])
        hosts = [host.coefficient for host in problem.hosts]
        loads = host_loads(as_background(problem, spread))
        return np.concatenate([series.mean(axis=1), series.std(axis=1), hosts, loads, [pause]])

    def _placed(self, time: float, problem: PlacementProblem) -> tuple[OperatorMove, ...]:
        """The whole operators that the placement moves; in `problem`, units of spread operators are background."""
        moves = self.placement.moves(problem)
        if moves is not None:
            return tuple(OperatorMove(operator, source, target) for operator, source, target in moves)
        if self._placed_at is not None and time - self._placed_at < self._placing.every_s:
            return ()
        self._placed_at = time
        answer = zip(problem.placed, self.placement.place(problem), strict=True)
        return tuple(OperatorMove(o, now, to) for o, (now, to) in enumerate(answer) if now != to)

    def _moves(
        self, problem: PlacementProblem, spread: Sequence[SpreadOperator], decision: Decision
    ) -> Iterator[MoveUnits]:
        """The decision as moves of units of the region; moves away from the most loaded workers come first."""
        region, nodes, name = self._movements.region, self.shape.nodes, self.placement.name
        loads = host_loads(as_background(problem, spread))
        for operator, source, target in sorted(decision.operators, key=lambda move: -loads[move.source]):
            node = nodes[self._whole[operator]]
            reason = f"{name}: {node.name}: {decision.why}"
            yield MoveUnits(region, (node.first,), self._live[source], self._live[target], reason)
        for number, units, source, target in sorted(decision.units, key=lambda move: -loads[move.source]):
            node = nodes[self._spread[number]]
            reason = f"{name}: {node.name}: {decision.why}"
            some = tuple(node.first + unit for unit in units)
            yield MoveUnits(region, some, self._live[source], self._live[target], reason)

    # -- what the placement sees

    def coefficients(self) -> dict[int, float]:
        """By worker, how much longer a row takes there than usual."""
        return self.measured.coefficients(dict(self._placing.coefficients), self._live)

    def problem(self) -> PlacementProblem:
        """The whole operators as they are placed now, without units of spread operators."""
        loads, given = self.measured.loads(), self._given()
        owners, coefficients = self._movements.table.owners, self.coefficients()
        elsewhere = {worker: share for worker, share in self.measured.elsewhere.items() if share > LITTLE}
        hosts = []
        for worker in self._live:
            other = elsewhere.get(worker, 0.0) / coefficients[worker]
            background = (other,) * loads.shape[1] if other else ()
            hosts.append(Host(worker, coefficients[worker], self._placing.quotas.get(worker, 1.0), background))
        at = {worker: place for place, worker in enumerate(self._live)}
        placed = tuple(at[int(owners[self.shape.nodes[node].first])] for node in self._whole)
        return self._problem(tuple(hosts), {node: tuple(loads[node]) for node in self._whole}, given, placed)

    def spread(self) -> list[SpreadOperator]:
        """The spread operators, with the present owners of their units."""
        loads, given, shares = self.measured.loads(), self._given(), self.measured.unit_shares()
        turns, at, found = self._turns(), {worker: place for place, worker in enumerate(self._live)}, []
        for number in self._spread:
            node = self.shape.nodes[number]
            units = slice(node.first, node.first + node.units)
            rows_s, bytes_s = given[number]
            found.append(
                SpreadOperator(
                    name=node.name,
                    level=LANES if node.lanes else KEYED,
                    series=tuple(loads[number]),
                    unit_loads=shares[units],
                    owners=np.array([at[worker] for worker in self._movements.table.owners[units].tolist()]),
                    readers=tuple(self._place[reader] for reader in node.readers),
                    rows_s=rows_s,
                    bytes_s=bytes_s,
                    unit_bytes=self._statistics.unit_bytes[units].astype(np.float64),
                    senders=tuple(self._place[o] for o in self._whole if number in self.shape.nodes[o].readers),
                    endpoint=node.endpoint,
                    turn_ms=turns[number],
                )
            )
        return found

    def _given(self) -> dict[int, tuple[float, float]]:
        """By node, the rows and bytes a second of its output if no worker were overloaded."""
        rows = self.measured.offered().outputs.mean(axis=-1)
        sizes = rows * np.nan_to_num(self.measured.row_bytes, nan=100.0)
        return dict(enumerate(zip(rows.tolist(), sizes.tolist(), strict=True)))

    def _turns(self) -> list[float | None]:
        """By node, ms of a turn; None while that is not known."""
        turns = self.measured.row_s * self.measured.call_rows * 1e3
        return [None if np.isnan(turn) else float(turn) for turn in turns]

    def _problem(
        self,
        hosts: tuple[Host, ...],
        series: Mapping[int, tuple[float, ...]],
        rates: Mapping[int, tuple[float, float]],
        placed: tuple[int, ...],
    ) -> PlacementProblem:
        operators, turns = [], self._turns()
        for node in self._whole:
            shape = self.shape.nodes[node]
            rows_s, bytes_s = rates[node]
            operators.append(
                OperatorLoad(
                    name=shape.name,
                    series=series[node],
                    readers=tuple(self._place[reader] for reader in shape.readers if self.shape.nodes[reader].whole),
                    rows_s=rows_s,
                    bytes_s=bytes_s,
                    state_bytes=int(self._statistics.unit_bytes[shape.first]),
                    endpoint=shape.endpoint,
                    turn_ms=turns[node],
                )
            )
        return PlacementProblem(tuple(operators), hosts, self._links(hosts), placed)

    def _links(self, hosts: tuple[Host, ...]) -> Links:
        """Delays and bandwidths between hosts: as given, else as measured; a delay is half of a round trip."""
        pairs = {}
        for one, sender in enumerate(hosts):
            for other, receiver in enumerate(hosts):
                pair = sender.id, receiver.id
                trip = self.measured.round_trips.get(pair)
                default = DELAY_MS if trip is None else trip * 500.0, self.measured.bandwidths.get(pair, BANDWIDTH)
                if one != other:
                    pairs[one, other] = self._placing.links.get(pair, default)
        return Links(DELAY_MS, BANDWIDTH, pairs)

    def _warned_of(self, problem: PlacementProblem) -> Iterator[WarnInstruction]:
        """One warning of each operator that is heavier than any worker."""
        for name, warning in too_heavy(problem).items():
            if name not in self._warned:
                self._warned.add(name)
                yield WarnInstruction(f"graph {self._movements.region}: {warning}")


def _alike(seen: npt.NDArray[np.float64], before: npt.NDArray[np.float64]) -> bool:
    """Whether all changes are too small for a new decision."""
    return bool((np.abs(seen - before) <= NOTEWORTHY * np.maximum(before, LITTLE)).all())
