"""XZH: the global correlation-based distribution of Xing, Zdonik and Hwang (ICDE 2005), as potential-driven §5.3.7."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of
from evenflow.model.placement import EnergyWeights, PlacementProblem
from evenflow.policy.graph.energy import PartialPlacement
from evenflow.policy.graph.greedy import begin
from evenflow.policy.graph.placement import Floats, answer, pins


@dataclass(frozen=True, slots=True)
class XzhPlacement:
    """Balances loads, and puts operators together whose loads do not rise together. Knows no links and no quotas.

    1. Operators by falling load; each goes, among the hosts whose load with it is at most the average that all hosts
       will have, to the one with the highest score, the improvement of its load correlation:

           S(o, h) = mean over all hosts g of rho(o, g) - rho(o, h)

       If it fits nowhere, it goes to the host with least load. Ties go to the host with less load.
    2. Hosts are paired, the one with most load with the one with least, and so on. The operator of the first whose
       score (rho(o, its host) - rho(o, the other)) / 2 is highest moves, if that is above `threshold` and the two
       loads do not come to differ by more than before.

    Reconstructed from the description in §2.2.2 and §5.3.7 and from what the ICDE paper's abstract says of it, with a
    threshold of 0.8. Departures: the second step runs once, and as all hosts are alike for XZH, loads are benchmark
    loads without coefficients.
    """

    name: ClassVar[str] = "xzh"

    threshold: float = 0.8

    def __post_init__(self) -> None:
        if not 0 <= number_of(self.threshold) <= 1:
            raise InvalidArgument(f"threshold is {self.threshold!r:.100}: give a correlation improvement from 0 to 1")

    def place(self, problem: PlacementProblem) -> tuple[int, ...]:
        """The index of the host of each operator."""
        partial = PartialPlacement(problem, EnergyWeights(load=0, correlation=1, network=0))
        average = _loads(partial).mean() + partial.loads.loads.mean(axis=1).sum() / len(problem.hosts)
        for operator in begin(partial, pins(problem)):
            partial.add(operator, _best_host(partial, operator, float(average)))
        self._exchange(partial)
        return answer(partial.hosts)

    def _exchange(self, partial: PartialPlacement) -> None:
        order = np.argsort(-_loads(partial), kind="stable")
        free = pins(partial.problem) < 0
        for heavy, light in zip(order[: len(order) // 2].tolist(), order[::-1].tolist(), strict=False):
            scores = {}
            for operator in np.flatnonzero((partial.hosts == heavy) & free).tolist():
                partial.remove(operator)
                correlations = partial.correlations(operator)
                partial.add(operator, heavy)
                scores[operator] = float(correlations[heavy] - correlations[light]) / 2
            best = max(scores, key=lambda operator: (scores[operator], -operator), default=None)
            if best is None or scores[best] <= self.threshold:
                continue
            apart, load = _loads(partial)[heavy] - _loads(partial)[light], partial.loads.loads[best].mean()
            if abs(apart - 2 * load) <= apart:
                partial.remove(best)
                partial.add(best, light)


def _loads(partial: PartialPlacement) -> Floats:
    return np.asarray(partial.loads.series.mean(axis=1), np.float64)


def _best_host(partial: PartialPlacement, operator: int, average: float) -> int:
    loads, correlations = _loads(partial), partial.correlations(operator)
    fits = loads + partial.loads.loads[operator].mean() <= average * (1 + 1e-9)
    if not fits.any():
        return int(np.argmin(loads))
    scores = np.where(fits, correlations.mean() - correlations, -np.inf)
    best = np.flatnonzero(scores >= scores.max() - 1e-12)
    return int(best[np.argmin(loads[best])])
