"""Whether a move is worth it: what it saves against what it costs, and whether that is sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of
from evenflow.model.graphs.placement import PlacementProblem
from evenflow.policy.graph.energies.landscape import Landscape
from evenflow.policy.graph.equilibrium import fill, least_gain
from evenflow.policy.graph.placement import Floats
from evenflow.policy.graph.potential import PotentialPlacement


@dataclass(frozen=True, slots=True)
class Weighing:
    """What moves at any level are measured by: the total of one placement, charges, a margin and a doubt.

    Moves are worth it if they save more than the margin, and something even if loads are not what was measured:

        total before - total after - charges > margin total before
        the same > 0, if hosts that get load are slower by the factor 1 + doubt, and hosts that give some are faster

    If measurements are off by less than the doubt, every move that is made lowers the true total, so that nothing goes
    round in a circle.
    """

    potential: PotentialPlacement
    doubt: float

    def __post_init__(self) -> None:
        if not 0 <= number_of(self.doubt) < inf:
            raise InvalidArgument(f"doubt is {self.doubt!r:.100}: give the part that loads may be wrong by, 0 or more")

    def total(self, problem: PlacementProblem, placed: Sequence[int] | None = None) -> float:
        """The total of a placement, or of the present one."""
        return self.potential.total(problem, problem.placed if placed is None else placed)

    def landscape(self, problem: PlacementProblem) -> Landscape:
        """The same total, of the present placement, for looking at moves of single operators."""
        found = self.potential.landscape(problem)
        fill(found, problem.placed, ())
        return found

    def least(self, total: float) -> float:
        """What moves must save, of the total now."""
        return max(self.potential.margin * abs(total), least_gain(total))

    def charge(self, share: float, size: float, bandwidth: float) -> float:
        """What a move costs, as in `PotentialPlacement.moves`: of the share of results that wait, and bytes of state.

        During a pause of p seconds they wait p / 2 in the mean, for p of `horizon_s` seconds: 500 p^2 / horizon ms.
        """
        unit = 1.0 if self.potential.weights is None else self.potential.weights.network
        pause = self.potential.pause_s + size / bandwidth
        return unit * share * 500.0 * pause * pause / self.potential.horizon_s

    def doubted(self, problem: PlacementProblem, change: Floats) -> PlacementProblem:
        """The problem if hosts whose load rises were slower than measured, and those whose load falls faster."""
        factors = (1 + self.doubt) ** np.sign(change)
        hosts = tuple(
            replace(host, coefficient=host.coefficient * float(factor))
            for host, factor in zip(problem.hosts, factors, strict=True)
        )
        return replace(problem, hosts=hosts)
