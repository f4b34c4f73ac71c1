"""The base class of placements of operator graphs, and what all of them share: an order, and operators that stay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from evenflow.model.graphs.placement import PlacementProblem

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Placement(ABC):
    """Decides which operator runs on which host; derive from it for a placement of your own.

    It reads no clock and no random source: the same problem always gives the same answer. Every operator gets a host,
    also one that is heavier than any host; a pinned operator stays on its own.
    """

    name: ClassVar[str] = "own"
    """Its name in reasons of moves, in the event log and on the live page."""

    @abstractmethod
    def place(self, problem: PlacementProblem) -> tuple[int, ...]:
        """The index of the host of each operator."""

    def moves(self, problem: PlacementProblem) -> list[tuple[int, int, int]] | None:
        """Operators to move now, each with the host that it leaves (-1: none) and the one that it goes to.

        None: the placement does not weigh moves, so now and then everything goes where `place` says.
        """
        return None


def by_load(problem: PlacementProblem) -> Ints:
    """The operators by falling mean load, ties by index: those with least load are most flexible, so last (§4.1.3)."""
    loads = np.array([sum(operator.series) for operator in problem.operators], np.float64)
    return np.argsort(-loads, kind="stable").astype(np.int64)


def pins(problem: PlacementProblem) -> Ints:
    """The host that each operator must be on, or -1 where any will do."""
    return np.array([-1 if operator.pinned is None else operator.pinned for operator in problem.operators], np.int64)


def answer(hosts: Ints) -> tuple[int, ...]:
    """An array of hosts as a placement is given."""
    return tuple(int(host) for host in hosts)
