"""INIT_GREEDY: each operator in turn to the host where its potential energy is least (potential-driven §4.1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from evenflow.model.given import check_flag
from evenflow.model.graphs.placement import PAPER_WEIGHTS, EnergyWeights, PlacementProblem
from evenflow.policy.graph.energies.energy import EnergyTerm, PartialPlacement, check_energy
from evenflow.policy.graph.periodic import check_theta, settled
from evenflow.policy.graph.placement import Ints, Placement, answer, by_load


@dataclass(frozen=True, slots=True)
class GreedyPlacement(Placement):
    """From an empty system, operators by falling load (§4.1.3), each to the host with the least PE(o, h, P).

    P is what has been placed before; what comes later is not foreseen. Ties go to the host with the lower index.
    Pinned operators, and those that `theta`, `theta_bytes` or `theta_s` keep (§4.2), are there from the start.
    Takes O(m n k + m log m).

    As printed, an operator's network energy has its links downstream only (§3.2). Loads mostly fall along a chain, so
    operators come before their readers and have none: no weight then changes anything in Schemes 1 and 3, other than
    in the paper's Figures 5, 7 and 8. With `both_ways`, links from senders that are placed count as well.
    """

    name: ClassVar[str] = "greedy"

    weights: EnergyWeights = PAPER_WEIGHTS
    theta: float = 0.0
    theta_bytes: float = inf
    theta_s: float = inf
    terms: tuple[EnergyTerm, ...] = ()
    both_ways: bool = False

    def __post_init__(self) -> None:
        check_flag("both_ways", self.both_ways)
        check_theta(self.theta, self.theta_bytes, self.theta_s)
        check_energy(self.weights, self.terms)

    def place(self, problem: PlacementProblem) -> tuple[int, ...]:
        """The index of the host of each operator."""
        partial = PartialPlacement(problem, self.weights, self.terms, self.both_ways)
        for operator in begin(partial, settled(problem, self.theta, self.theta_bytes, self.theta_s)):
            partial.add(operator, int(np.argmin(partial.pe_of(operator))))
        return answer(partial.hosts)


def begin(partial: PartialPlacement, hosts: Ints) -> list[int]:
    """Add the operators that have a host; the others by falling load."""
    for operator in np.flatnonzero(hosts >= 0).tolist():
        partial.add(operator, int(hosts[operator]))
    return [operator for operator in by_load(partial.problem).tolist() if hosts[operator] < 0]
