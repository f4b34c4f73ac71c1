"""CAPS: contention-aware placement search, after the idea of CAPSys (EuroSys 2025), written anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.model.given import check_numbers, check_wholes
from evenflow.model.graphs.placement import PlacementProblem
from evenflow.policy.graph.energies.traffic import LinkTraffic
from evenflow.policy.graph.placement import Floats, Placement, answer, by_load, pins

DIMENSIONS = 3
"""Compute, state, network."""


@dataclass(frozen=True, slots=True)
class CapsPlacement(Placement):
    """Finds a placement whose most loaded host is below a threshold in each of three dimensions.

    A host's load L is its compute load over its quota, the bytes of state on it, and the bytes a second that it sends
    to others. A threshold t allows each host L_ideal + t (L_worst - L_ideal): ideal is everything spread evenly and
    nothing sent, worst is everything on one host and, for what is sent, every stream to as many hosts as it can be.

    The search goes through the operators by falling load, tries hosts by rising compute load, and turns back where a
    host exceeds a threshold. Thresholds tune themselves: the least feasible one of each dimension alone is found by
    bisection, then all are relaxed together by `relax` until there is a placement. The one of compute is relaxed no
    further than to where a host is full, or not at all if that is not enough for the least: a host that is asked for
    more than it can do falls behind for good, while one that sends more only sends more. CAPS counts seconds; as
    nothing here reads a clock, a search gives up after `visits` steps, or 4 for each operator.
    """

    name: ClassVar[str] = "caps"

    visits: int = 2000
    granularity: float = 0.01
    relax: float = 0.1

    def __post_init__(self) -> None:
        check_wholes(self, visits=(1, 10**9))
        check_numbers(self, granularity=(1e-6, 1), relax=(1e-3, 1e3))

    def place(self, problem: PlacementProblem) -> tuple[int, ...]:
        """The index of the host of each operator."""
        search = _Search(problem, max(self.visits, 4 * len(problem.operators)))
        thresholds = np.array([self._least(search, dimension) for dimension in range(DIMENSIONS)])
        most = np.array([max(thresholds[0], search.full), 1.0, 1.0])
        while (found := search.run(thresholds)) is None and (thresholds < most).any():
            thresholds = np.minimum(most, np.maximum(thresholds, self.granularity) * (1 + self.relax))
        if found is None:  # in so many steps
            found = search.run(np.ones(DIMENSIONS))
        assert found is not None, "everything on any host is within thresholds of 1"
        return found

    def _least(self, search: _Search, dimension: int) -> float:
        """The least threshold of one dimension for which there is a placement, the others open."""
        low, high = 0.0, 1.0
        while high - low > self.granularity:
            thresholds = np.ones(DIMENSIONS)
            thresholds[dimension] = middle = (low + high) / 2
            low, high = (low, middle) if search.run(thresholds) is not None else (middle, high)
        return high


class _Search:
    """A depth-first search through placements, with a limit on its steps."""

    def __init__(self, problem: PlacementProblem, visits: int) -> None:
        self._problem, self._visits = problem, visits
        hosts, operators = problem.hosts, problem.operators
        self._speed = np.array([host.coefficient / host.quota for host in hosts])
        self._base = self._speed * [float(np.mean(host.background)) if host.background else 0.0 for host in hosts]
        self._load = np.array([float(np.mean(operator.series)) for operator in operators])
        self._state = np.array([float(operator.state_bytes) for operator in operators])
        total = float(self._load.sum() + (self._base / self._speed).sum())
        sent = sum(each.bytes_s * min(len(each.readers), len(hosts) - 1) for each in operators)
        even = total / float((1 / self._speed).sum())
        self._ideal = np.array([even, self._state.sum() / len(hosts), 0.0])
        heaviest = float((self._base + self._speed * self._load.sum()).max())
        self._worst = np.array([max(even, heaviest), float(self._state.sum()), float(sent)])
        pinned = pins(problem)
        self._pinned = pinned
        self._order = sorted(by_load(problem).tolist(), key=lambda operator: pinned[operator] < 0)

    @property
    def full(self) -> float:
        """The threshold of compute that allows a load of 1, its whole quota, on a host; 0 if that is not enough."""
        room = float(1 - self._ideal[0])
        return min(1.0, max(0.0, room) / max(float(self._worst[0] - self._ideal[0]), room, 1e-9))

    def run(self, thresholds: Floats) -> tuple[int, ...] | None:
        """The first placement within the thresholds; None if there is none, or it takes too long."""
        self._limits = (self._ideal + thresholds * (self._worst - self._ideal)) * (1 + 1e-9)
        self._used = np.stack([self._base, np.zeros(len(self._base))])
        self._traffic = LinkTraffic(self._problem)
        placed: list[int] = []
        ways = [self._hosts(self._order[0])] if self._order else []
        for _ in range(self._visits):
            if not ways or len(placed) == len(self._order):
                break
            host = next(ways[-1], None)
            if host is None:
                ways.pop()
                if placed:
                    self._take_back(placed.pop())
                continue
            operator = self._order[len(placed)]
            if self._put(operator, host):
                placed.append(operator)
                if len(placed) < len(self._order):
                    ways.append(self._hosts(self._order[len(placed)]))
        return answer(np.array(self._traffic.placed, np.int64)) if len(placed) == len(self._order) else None

    def _hosts(self, operator: int) -> Iterator[int]:
        """The hosts with room for an operator's load and state, by rising load."""
        if self._pinned[operator] >= 0:
            return iter([int(self._pinned[operator])])
        after = self._used[0] + self._speed * self._load[operator]
        fits = (after <= self._limits[0]) & (self._used[1] + self._state[operator] <= self._limits[1])
        hosts = np.flatnonzero(fits)
        return iter(hosts[np.argsort(after[hosts], kind="stable")].tolist())

    def _put(self, operator: int, host: int) -> bool:
        """Place an operator; False, and nothing placed, if a host then sends too much."""
        self._traffic.add(operator, host)
        self._used[0, host] += self._speed[host] * self._load[operator]
        self._used[1, host] += self._state[operator]
        if self._pinned[operator] >= 0 or float(self._traffic.bytes.sum(axis=0).max()) <= self._limits[2]:
            return True
        self._take_back(operator)
        return False

    def _take_back(self, operator: int) -> None:
        host = self._traffic.placed[operator]
        self._traffic.remove(operator)
        self._used[0, host] -= self._speed[host] * self._load[operator]
        self._used[1, host] -= self._state[operator]
