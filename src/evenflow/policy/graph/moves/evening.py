"""Which units go from a host with much load to one with little, so that the two become even."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from evenflow.model.graphs.placement import PlacementProblem
from evenflow.policy.graph.placement import Floats, Ints

CLOSE = 0.05
"""Units are no longer added when less than this part of what is to move is missing: small ones would be many."""
WORTH = 0.9
"""A single unit that is larger than what is to move goes if it takes at most this part of the whole difference."""
LOOKED_AT = 3
"""How many of the most and of the least loaded hosts are paired."""


class HostFilling:
    """How full hosts are: loads relative to quotas, in their own time, x_h = alpha_h / q_h (sum of mean loads)."""

    def __init__(self, problem: PlacementProblem) -> None:
        """Operators of the problem have a host, or do not count."""
        self.scale = np.array([host.coefficient / host.quota for host in problem.hosts])
        loads = np.array([float(np.mean(host.background)) if host.background else 0.0 for host in problem.hosts])
        for operator, host in zip(problem.operators, problem.placed, strict=True):
            if host >= 0:
                loads[host] += float(np.mean(operator.series))
        self.loads = loads

    @property
    def filled(self) -> Floats:
        """x_h."""
        found: Floats = self.scale * self.loads
        return found

    def move(self, load: float, source: int, target: int) -> None:
        """Take a benchmark load from one host to another."""
        self.loads[source] -= load
        self.loads[target] += load

    def pairs(self, holders: Sequence[bool], apart: float) -> Iterator[tuple[int, int]]:
        """Hosts that have units to give with hosts that have less load, the most with the least loaded first.

        Those whose loads differ by no more than the part `apart` of the greater are even.
        """
        filled = self.filled
        order = np.argsort(-filled, kind="stable")
        donors = [int(host) for host in order if holders[host]][:LOOKED_AT]
        for donor in donors:
            for receiver in order[::-1][:LOOKED_AT].tolist():
                if filled[donor] - filled[receiver] > apart * filled[donor]:
                    yield donor, receiver

    def chosen(self, loads: Floats, donor: int, receiver: int, most: int) -> Ints:
        """Which of the donor's units go: those that make the pair even, the largest that fit first.

        With d and r the two hosts, w = (x_d - x_r) / (alpha_d / q_d + alpha_r / q_r) makes them even. If all units are
        larger, the smallest goes if the receiver then has clearly less load than the donor had: a unit that makes up
        most of a host's load stays where it is, since it would only take the difference along.
        """
        difference = float(self.filled[donor] - self.filled[receiver])
        room = difference / float(self.scale[donor] + self.scale[receiver])
        order = np.argsort(-loads, kind="stable").astype(np.int64)
        order = order[loads[order] > 0]
        fits = largest_that_fit(loads[order], room, most)
        if len(fits) or not len(order):
            return order[fits]
        smallest = order[-1:]
        after = float(loads[smallest[0]] * self.scale[receiver])
        return smallest if after <= WORTH * difference else smallest[:0]


def largest_that_fit(falling: Floats, room: float, most: int) -> Ints:
    """Indices of loads, which fall, so that each is the largest that fits into what room the ones before it left."""
    found: list[Ints] = []
    start, enough, left = 0, CLOSE * room, room
    while left > enough and most > 0:
        start += int(np.searchsorted(-falling[start:], -left))  # those before are too large
        together = np.cumsum(falling[start : start + most])
        count = min(int(np.searchsorted(together, left, "right")), int(np.searchsorted(together, left - enough)) + 1)
        if not count:
            break
        found.append(np.arange(start, start + count))
        left, start, most = left - float(together[count - 1]), start + count, most - count
    return np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)
