"""INIT_DYN_PROG: n mappings grow side by side, one for each host of the last operator (potential-driven §4.1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from evenflow.model.given import check_flag
from evenflow.model.graphs.placement import PAPER_WEIGHTS, EnergyWeights, PlacementProblem
from evenflow.policy.graph.energies.energy import EnergyTerm, PartialPlacement, check_energy
from evenflow.policy.graph.greedy import begin
from evenflow.policy.graph.periodic import check_theta, settled
from evenflow.policy.graph.placement import Placement, answer


@dataclass(frozen=True, slots=True)
class DynProgPlacement(Placement):
    """Algorithm 1. a[i, j] is the sum of energies of the first i operators, with the i-th on host j, in mapping P_j.

        r = argmin over k of PE(O[i], H[j], P_k)                               line 9
        a[i, j] = a[i - 1, r] + PE(O[i], H[j], P_r)                            line 10
        P_j = P_r with O[i] on H[j]                                            line 11

    As printed, r is chosen by the energy of the new operator alone. That favours mappings that have left host j empty,
    however bad they are otherwise. With `by_sum`, r makes a[i, j] least, which is what the text says that a[i, j] is.
    The answer is the mapping with the least a[m, j]. Order, pinned operators, `theta` and `both_ways` are those of
    INIT_GREEDY. Takes O(m n^2 k).
    """

    name: ClassVar[str] = "dp"

    weights: EnergyWeights = PAPER_WEIGHTS
    theta: float = 0.0
    theta_bytes: float = inf
    theta_s: float = inf
    terms: tuple[EnergyTerm, ...] = ()
    by_sum: bool = False
    both_ways: bool = False

    def __post_init__(self) -> None:
        check_theta(self.theta, self.theta_bytes, self.theta_s)
        check_energy(self.weights, self.terms)
        check_flag("by_sum", self.by_sum)
        check_flag("both_ways", self.both_ways)

    def place(self, problem: PlacementProblem) -> tuple[int, ...]:
        """The index of the host of each operator."""
        empty = PartialPlacement(problem, self.weights, self.terms, self.both_ways)
        order = begin(empty, settled(problem, self.theta, self.theta_bytes, self.theta_s))
        mappings, least = [empty] * len(problem.hosts), np.zeros(len(problem.hosts))
        for operator in order:
            energies = np.array([mapping.pe_of(operator) for mapping in mappings])  # a row for each P_k
            chosen = np.argmin(energies + least[:, None] if self.by_sum else energies, axis=0)
            least = least[chosen] + energies[chosen, np.arange(len(chosen))]
            mappings = [_extended(mappings[r], operator, host) for host, r in enumerate(chosen)]
        return answer(mappings[int(np.argmin(least))].hosts)


def _extended(mapping: PartialPlacement, operator: int, host: int) -> PartialPlacement:
    new = mapping.copy()
    new.add(operator, host)
    return new
