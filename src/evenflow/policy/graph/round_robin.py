"""Operators on hosts in turn, as schedulers of stream processors do by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.model.graphs.placement import PlacementProblem
from evenflow.policy.graph.placement import Placement, answer, pins


@dataclass(frozen=True, slots=True)
class RoundRobinPlacement(Placement):
    """Operator i on host i mod n: as many operators on each host, whatever they cost."""

    name: ClassVar[str] = "round-robin"

    def place(self, problem: PlacementProblem) -> tuple[int, ...]:
        """The index of the host of each operator."""
        pinned = pins(problem)
        return answer(np.where(pinned >= 0, pinned, np.arange(len(pinned)) % len(problem.hosts)))
