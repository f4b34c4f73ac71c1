"""Ours: operators settle where the latency of results is least, and move only if that is worth it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from evenflow.errors import InvalidArgument
from evenflow.model.given import check_wholes, number_of
from evenflow.model.graphs.placement import PAPER_WEIGHTS, EnergyWeights, PlacementProblem, flow_order
from evenflow.policy.graph.energies.energy import EnergyTerm, check_energy
from evenflow.policy.graph.energies.landscape import Landscape, energy_landscape, latency_landscape
from evenflow.policy.graph.energies.latency import LatencyModel, result_shares
from evenflow.policy.graph.equilibrium import fill, least_gain, settle
from evenflow.policy.graph.placement import Floats, Ints, Placement, answer, by_load, pins


@dataclass(frozen=True, slots=True)
class PotentialPlacement(Placement):
    """An equilibrium of energies that are all in ms, so that their weights need no tuning.

    The paper adds w_l PE_l + w_c PE_c + w_n PE_n over all operators, of three energies in three units, with weights
    (100, 1, 0.001) found by trial. Here each energy is an estimate of what it does to the latency of a result, and its
    weight is the share v_o of all results that pass through operator o, which is measured:

        total = sum over o of v_o (PE_l + PE_c) + sum over streams o -> r of v_(o,r) PE_n + overload

        PE_l(o, h)   = alpha_h turn_o + r_h / (1 - x_h)       its own turn, and waiting at the mean load x_h of the host
        PE_c(o, h)   = waiting in the measured periods, with what they leave undone, less waiting at the mean load: what
                       variance costs. Loads that go up together cost most, those that fill each other's gaps nothing
        PE_n(o -> r) = delay of the link from host to host
        overload     = horizon / 2 for each unit of load, of a host or a link, that stays above its quota or bandwidth

    `LatencyModel` and `HostWaiting` have the formulas. The total is the mean latency of a result in ms, but for the
    part that no placement changes. Since rows of an overloaded host wait for seconds, overload outweighs all else.

    From greedy starts and from where operators are now, single moves and swaps lower the total until none of them
    does; the best equilibrium is taken, the present one if it is as good. `rounds` bounds the search. With `weights`,
    the total is the paper's instead, with these weights.

    `moves` charges for moving: for each operator the pause, `pause_s` and the time of its state on the link. During a
    pause of p seconds its results wait p / 2 in the mean, and it counts for p of the `horizon_s` seconds that a
    placement is to last. Nothing moves unless that lowers the total, charges included, by more than `margin` of it.
    """

    name: ClassVar[str] = "potential"

    weights: EnergyWeights | None = None
    turn_ms: float = 1.0
    period_s: float = 1.0
    horizon_s: float = 60.0
    pause_s: float = 0.1
    margin: float = 0.05
    rounds: int = 200
    terms: tuple[EnergyTerm, ...] = ()

    def __post_init__(self) -> None:
        _ = self._model
        if not 0 <= number_of(self.pause_s) < inf:
            raise InvalidArgument(
                f"pause_s is {self.pause_s!r:.100}: give the seconds that a move takes at least, 0 or more"
            )
        if not 0 <= number_of(self.margin) < inf:
            raise InvalidArgument(
                f"margin is {self.margin!r:.100}: give the part of the total that moves must save, 0 or more"
            )
        check_wholes(self, rounds=(1, 10**9))
        check_energy(PAPER_WEIGHTS if self.weights is None else self.weights, self.terms)

    @property
    def _model(self) -> LatencyModel:
        return LatencyModel(self.turn_ms, self.period_s, self.horizon_s)

    def place(self, problem: PlacementProblem) -> tuple[int, ...]:
        """The index of the host of each operator, whatever it takes to move there."""
        return answer(np.array(self._best(problem, None).placed, np.int64))

    def moves(self, problem: PlacementProblem) -> list[tuple[int, int, int]]:
        """Operators to move, each with the host that it leaves (-1: it has none) and the one that it goes to."""
        placed = problem.placed
        if not problem.operators:
            return []
        best = self._best(problem, self._charges(problem))
        if min(placed) >= 0:
            now = self.total(problem, placed)
            if best.total() > now - max(self.margin * abs(now), least_gain(now)):
                return []
        return [(o, now, to) for o, (now, to) in enumerate(zip(placed, best.placed, strict=True)) if now != to]

    def total(self, problem: PlacementProblem, placed: Sequence[int]) -> float:
        """The total of a placement: estimated ms of latency, or the paper's energy if weights are given."""
        landscape = self.landscape(problem)
        fill(landscape, placed, ())
        return landscape.total()

    def landscape(self, problem: PlacementProblem, charges: Floats | None = None) -> Landscape:
        """The total, nothing placed yet, for looking at moves of single operators."""
        if self.weights is not None:
            return energy_landscape(problem, self.weights, self.terms, charges)
        return latency_landscape(problem, self._model, self.terms, charges)

    def _best(self, problem: PlacementProblem, charges: Floats | None) -> Landscape:
        pinned, loads = pins(problem), by_load(problem)
        movable = loads[pinned[loads] < 0]
        found = None
        for hosts, order in self._starts(problem, pinned, loads):
            landscape = self.landscape(problem, charges)
            fill(landscape, hosts, order)
            settle(landscape, movable, self.rounds)
            if found is None or landscape.total() < found.total() - least_gain(found.total()):
                found = landscape
        assert found is not None
        return found

    def _starts(self, problem: PlacementProblem, pinned: Ints, loads: Ints) -> list[tuple[list[int], list[int]]]:
        """Where the search begins: hosts that operators have already, and the order in which the others get theirs."""
        present = np.where(pinned >= 0, pinned, np.array(problem.placed, np.int64)).tolist()
        free, flow = pinned.tolist(), flow_order(problem.operators)
        fastest = int(np.argmin([host.coefficient / host.quota for host in problem.hosts]))
        together = np.where(pinned >= 0, pinned, fastest).tolist()
        starts = [(free, loads.tolist()), (free, flow), (free, flow[::-1]), (together, [])]
        return ([(present, loads.tolist())] if max(problem.placed, default=-1) >= 0 else []) + starts

    def _charges(self, problem: PlacementProblem) -> Floats:
        """What a move of each operator (row) to each host (column) costs, in the unit of the total."""
        _, bandwidth = problem.links.dense(len(problem.hosts))
        unit = 1.0 if self.weights is None else self.weights.network
        here = np.array(problem.placed, np.int64)
        size = np.array([float(operator.state_bytes) for operator in problem.operators])
        pause = self.pause_s + size[:, None] / bandwidth[here]
        cost = unit * 500.0 * result_shares(problem).operators[:, None] * np.square(pause) / self.horizon_s
        cost[here < 0] = 0.0  # what has no host must be placed anyway
        cost[np.arange(len(here)), here] = 0.0
        return np.asarray(cost, np.float64)
