"""How moves and swaps of operators change what all links cost, with what is known kept for as long as it holds."""

from __future__ import annotations

import numpy as np

from evenflow.policy.graph.energies.traffic import LinkTraffic
from evenflow.policy.graph.placement import Floats, Ints, Mask


class LinkCosts:
    """Traffic, with the costs of each operator on each host.

    If every link has room for all streams of all operators, what an operator costs on a host depends on the places of
    those near it alone: its readers, those that it reads from, and those that read the same. So a row of costs holds
    until one of these moves, and the change of a swap of two that are not near each other is that of two moves. If
    links can fill up, everything depends on everything, and nothing is kept.
    """

    def __init__(self, traffic: LinkTraffic) -> None:
        self._traffic, self._roomy = traffic, traffic.roomy()
        self._near = traffic.near() if self._roomy else []
        count = len(traffic.placed)
        self._rows, self._stale = np.zeros((count if self._roomy else 0, len(traffic.bytes))), np.ones(count, bool)
        self._savings: Floats | None = None

    def add(self, operator: int, host: int) -> None:
        """Place an operator that is nowhere."""
        self._traffic.add(operator, host)
        self._changed(operator)

    def remove(self, operator: int) -> None:
        """Take an operator away from its host."""
        self._traffic.remove(operator)
        self._changed(operator)

    def _changed(self, operator: int) -> None:
        self._savings = None
        if self._roomy:
            self._stale[self._near[operator]] = True

    def costs(self, operator: int) -> Floats:
        """How much more all links cost with an operator that is nowhere on each of the hosts."""
        if not self._roomy:
            return self._traffic.costs(operator)
        if self._stale[operator]:
            self._rows[operator], self._stale[operator] = self._traffic.costs(operator), False
        found: Floats = self._rows[operator]
        return found

    def swaps(self, operator: int, here: int, others: Ints, there: Ints) -> tuple[Floats, Mask]:
        """How much more links cost at least if an operator changes places with each of others, and whether exactly."""
        if self._savings is None:
            self._savings = np.array([self._traffic.savings(each) for each in range(len(self._stale))])
        # No swap saves more than what the links of both cost now: that spares an exact look at many.
        bound = -(self._savings[others] + self._savings[operator])
        if not self._roomy:
            return bound, np.zeros(len(others), bool)
        self._refresh()
        rows = self._rows
        moved = rows[operator, there] - rows[operator, here] + rows[others, here] - rows[others, there]
        known = ~np.isin(others, self._near[operator])
        return np.where(known, moved, bound), known

    def _refresh(self) -> None:
        for operator in np.flatnonzero(self._stale).tolist():
            host = self._traffic.placed[operator]
            if host >= 0:
                self._traffic.remove(operator)
                self._rows[operator], self._stale[operator] = self._traffic.costs(operator), False
                self._traffic.add(operator, host)

    def swap(self, one: int, other: int) -> float:
        """How much more all links cost if two operators change places."""
        return self._traffic.swap(one, other)

    def total(self) -> float:
        """What all links cost."""
        return self._traffic.total()
