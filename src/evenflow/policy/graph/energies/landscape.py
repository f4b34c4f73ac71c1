"""The total energy of a whole placement, and how it changes with every move and swap of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from evenflow.model.graphs.placement import EnergyWeights, PlacementProblem
from evenflow.policy.graph.energies.energy import EnergyTerm, PartialPlacement
from evenflow.policy.graph.energies.host_energy import HostEnergies
from evenflow.policy.graph.energies.latency import HostWaiting, LatencyModel, result_shares
from evenflow.policy.graph.energies.link_costs import LinkCosts
from evenflow.policy.graph.energies.traffic import LinkTraffic
from evenflow.policy.graph.placement import Floats, Ints


class HostCosts(Protocol):
    """The part of the total that is the hosts' own."""

    def add(self, operator: int, host: int) -> None:
        """Put an operator on a host."""

    def remove(self, operator: int, host: int) -> None:
        """Take an operator from a host."""

    def costs(self, operator: int) -> Floats:
        """How much more the hosts cost with an operator that is nowhere on each of them."""

    def swaps(self, operator: int, here: int, others: Ints, there: Ints) -> Floats:
        """How much more they cost if an operator on `here` changes places with each of others, on `there`."""

    def total(self) -> float:
        """What all hosts cost."""


class Landscape:
    """The total of a placement: what hosts cost, what links cost, the user's own terms, and a charge for moves.

    `charges` has what a move to each host (column) costs each operator (row), 0 on the host where it is today.
    """

    def __init__(
        self,
        problem: PlacementProblem,
        hosts: HostCosts,
        traffic: LinkTraffic,
        network: float = 1.0,
        terms: Sequence[EnergyTerm] = (),
        charges: Floats | None = None,
    ) -> None:
        self.problem, self._hosts, self._links, self._network = problem, hosts, LinkCosts(traffic), network
        self._charges = charges
        self._terms = PartialPlacement(problem, terms=terms) if terms else None
        self.placed = traffic.placed

    def add(self, operator: int, host: int) -> None:
        """Place an operator that is nowhere."""
        self._hosts.add(operator, host)
        self._links.add(operator, host)

    def remove(self, operator: int) -> None:
        """Take an operator away from its host."""
        self._hosts.remove(operator, self.placed[operator])
        self._links.remove(operator)

    def costs(self, operator: int) -> Floats:
        """How much higher the total is with an operator that is nowhere on each of the hosts."""
        found = self._hosts.costs(operator) + self._network * self._links.costs(operator)
        if self._terms is not None:
            placed = np.array(self.placed)
            for host in range(len(found)):
                placed[operator] = host
                found[host] += self._terms.term_total(placed)
        return found if self._charges is None else found + self._charges[operator]

    def swap(self, operator: int, others: Ints, least: float) -> int | None:
        """The first of some operators on other hosts, best first, whose swap lowers the total by more than `least`."""
        here, there = self.placed[operator], np.array(self.placed)[others]
        change = self._hosts.swaps(operator, here, others, there)
        if self._charges is not None:
            mine, theirs = self._charges[operator], self._charges[others]
            change = change + mine[there] - mine[here] + theirs[:, here] - theirs[np.arange(len(others)), there]
        more, known = self._links.swaps(operator, here, others, there)
        hope = change + self._network * more
        if self._terms is not None:
            hope[:], known = -np.inf, np.zeros(len(others), bool)
        for place in np.argsort(hope, kind="stable"):
            if hope[place] >= -least:
                return None
            other = int(others[place])
            if known[place]:
                return other
            exact = float(change[place]) + self._network * self._links.swap(operator, other)
            if exact + self._term_change(operator, other) < -least:
                return other
        return None

    def _term_change(self, one: int, other: int) -> float:
        if self._terms is None:
            return 0.0
        placed = np.array(self.placed)
        now = self._terms.term_total(placed)
        placed[[one, other]] = placed[[other, one]]
        return self._terms.term_total(placed) - now

    def total(self) -> float:
        """The total of the placement."""
        found = self._hosts.total() + self._network * self._links.total()
        if self._charges is not None:
            found += sum(float(self._charges[o, host]) for o, host in enumerate(self.placed) if host >= 0)
        return found + (0.0 if self._terms is None else self._terms.term_total(np.array(self.placed)))


def energy_landscape(
    problem: PlacementProblem,
    weights: EnergyWeights,
    terms: Sequence[EnergyTerm] = (),
    charges: Floats | None = None,
) -> Landscape:
    """The paper's total energy, with weights that are given."""
    hosts = HostEnergies(problem, weights)
    return Landscape(problem, hosts, LinkTraffic(problem), weights.network, terms, charges)


def latency_landscape(
    problem: PlacementProblem,
    model: LatencyModel,
    terms: Sequence[EnergyTerm] = (),
    charges: Floats | None = None,
) -> Landscape:
    """Estimated ms of the mean latency of a result."""
    shares = result_shares(problem)
    traffic = LinkTraffic(problem, model.link, shares.streams)
    return Landscape(problem, HostWaiting(problem, model, shares.operators), traffic, 1.0, terms, charges)
