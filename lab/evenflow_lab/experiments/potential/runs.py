"""One run of a scheme under a placement: random operators, 120 s of warming up, one placement, and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenflow.eventlog.reading import entries_of
from evenflow.model.entries import GraphResultsEntry, GraphSampleEntry, MovedEntry, MoveUndoneEntry
from evenflow.model.graphs.placement import PAPER_WEIGHTS, EnergyWeights, PlacementProblem
from evenflow.policy.graph.energies.energy import HostLoads, total_energy
from evenflow.policy.graph.greedy import GreedyPlacement
from evenflow.policy.graph.placement import Placement
from evenflow.policy.graph.potential import PotentialPlacement
from evenflow.policy.graph.random_placement import RandomPlacement
from evenflow.sim.graphs.model import SimulatedGraph
from evenflow.sim.graphs.plane import GraphPlane
from evenflow.sim.log import SimulatedLog
from evenflow.sim.simulation import Simulation
from evenflow_lab.experiments.base import Setting
from evenflow_lab.experiments.potential.schemes import SAMPLE_S, WARM_S

DELAY_S = 2.0**-11
"""Of a message of the controller: half a millisecond, and such that times of samples are exact."""
SETTLE_S, MEASURE_S = 40.0, 50.0
"""After the placement: until operators are where they are to be and queues are as they stay, then measured."""
EVEN = EnergyWeights(1.0, 1.0, 1.0)
"""The weights of Table 2, which hold until §5.3.4 has found better ones."""


REPEATS = 3
"""Draws whose results are averaged: "at least 3", where the input fluctuates (§5.2)."""


def greedy(weights: EnergyWeights = PAPER_WEIGHTS, theta: float = 0.0) -> GreedyPlacement:
    """The paper's algorithm, with links in both directions: its figures cannot be had otherwise (`GreedyPlacement`)."""
    return GreedyPlacement(weights, theta, both_ways=True)


def ours() -> PotentialPlacement:
    """Our own placement, which has to know the length of a sample."""
    return PotentialPlacement(period_s=SAMPLE_S)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of a run. `before` is with operators at random, which the paper calls original."""

    before_ms: float
    after_ms: float
    load_std: float
    """Standard deviation of the hosts' loads, as they are now placed."""
    sent_s: float
    """Rows a second over all links."""
    total_pe: float
    """With the weights that the paper recommends."""
    even_pe: float
    """With those of Table 2."""
    before_pe: float
    """The same with operators at random."""
    loads: tuple[float, ...]
    """By host, the part of its time that it was busy."""
    peak: float
    """The load of the fullest host in its fullest period, of those last measured, as operators are now placed."""
    waiting: int
    """Rows in all queues at the end."""
    moved: int
    undone: int


def outcome(graph: SimulatedGraph, placement: Placement, seed: int) -> Outcome:
    """Run a graph; `seed` is that of the random operators."""
    plane = GraphPlane(graph, placement, RandomPlacement(seed))
    world = Simulation(plane, len(graph.hosts), period_s=SAMPLE_S, delay_s=DELAY_S)
    start = WARM_S + SETTLE_S
    world.run(SAMPLE_S)
    original = plane.placed
    world.run(start)
    busy = plane.arrays.host_busy.copy()
    world.run(start + MEASURE_S)
    loads = (plane.arrays.host_busy - busy) / MEASURE_S
    problem, last = plane.problem(), entries_of(world.log.written, GraphSampleEntry)[-1]
    return Outcome(
        before_ms=latency_ms(world.log, WARM_S - MEASURE_S, WARM_S),
        after_ms=latency_ms(world.log, start, start + MEASURE_S),
        load_std=last.load_std,
        sent_s=float(sum(link.rows_s for link in last.links)),
        total_pe=total_energy(problem, problem.placed),
        even_pe=total_energy(problem, problem.placed, EVEN),
        before_pe=total_energy(problem, original, EVEN),
        loads=tuple(np.round(loads, 4).tolist()),
        peak=peak_load(problem),
        waiting=int(plane.arrays.waiting.sum()),
        moved=len(entries_of(world.log.written, MovedEntry)),
        undone=len(entries_of(world.log.written, MoveUndoneEntry)),
    )


def peak_load(problem: PlacementProblem) -> float:
    """The highest load that any host has in any of the periods measured: above 1, it falls behind then (§2.2.2)."""
    loads = HostLoads(problem)
    for operator, host in enumerate(problem.placed):
        loads.add(operator, host)
    return float((loads.coefficient[:, None] * loads.series).max())


class PlacementRuns:
    """Runs, and tells how many of them are done."""

    def __init__(self, setting: Setting, runs: int) -> None:
        self._setting, self._runs, self._done = setting, runs, 0

    def run(self, graph: SimulatedGraph, placement: Placement, seed: int) -> dict[str, Any]:
        """An outcome as JSON."""
        found = outcome(graph, placement, seed)
        self._done += 1
        self._setting.progress(min(1.0, self._done / self._runs))
        figures = asdict(found) | {"loads": list(found.loads)}
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}


def mean_of(outcomes: Iterable[dict[str, Any]], what: str) -> float:
    """The mean of one figure over some outcomes."""
    return float(np.mean([each[what] for each in outcomes]))


def ranks(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The ranks of some values, equal ones with their mean rank."""
    given = np.asarray(values, np.float64)
    return np.array([(given < each).sum() + ((given == each).sum() - 1) / 2 for each in given])


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's: 1 if both rise together, -1 if one falls as the other rises; 0 if one does not change."""
    return linear_correlation(ranks(one).tolist(), ranks(other).tolist())


def linear_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def latency_ms(log: SimulatedLog, since: float, until: float) -> float:
    """The mean latency of the results that were reported in some seconds; NaN if there were none."""
    known = entries_of(log.written, GraphResultsEntry)
    entries = [entry for entry in known if since < entry.time <= until + SAMPLE_S / 2]
    results = sum(entry.results for entry in entries)
    return 1e3 * sum(entry.total_s for entry in entries) / results if results else float("nan")
