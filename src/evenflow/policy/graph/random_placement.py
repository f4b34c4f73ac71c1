"""Operators on hosts at random: where warm-up begins (potential-driven §4.1), and what every placement must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.model.given import check_seed
from evenflow.model.graphs.placement import PlacementProblem
from evenflow.policy.graph.placement import Placement, answer, pins


@dataclass(frozen=True, slots=True)
class RandomPlacement(Placement):
    """Each operator on any host, with equal probability; a function of the seed and the operator's index alone."""

    name: ClassVar[str] = "random"

    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_seed(self.seed))

    def place(self, problem: PlacementProblem) -> tuple[int, ...]:
        """The index of the host of each operator."""
        drawn = draws(self.seed, len(problem.operators)) % np.uint64(len(problem.hosts))
        pinned = pins(problem)
        return answer(np.where(pinned >= 0, pinned, drawn.astype(np.int64)))


def draws(seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The first numbers of splitmix64 from a seed."""
    step = np.uint64(0x9E3779B97F4A7C15)
    value = np.uint64(seed % 2**64) + step * np.arange(1, count + 1, dtype=np.uint64)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
