"""The total energy of a whole placement, and how it changes with every move and swap of an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from evenflow.model.placement import EnergyWeights, PlacementProblem
from evenflow.policy.graph.energy import EnergyTerm, PartialPlacement, load_energy
from evenflow.policy.graph.latency import HostWaiting, LatencyModel, result_shares
from evenflow.policy.graph.measures import correlation
from evenflow.policy.graph.placement import Floats, Ints
from evenflow.policy.graph.traffic import LinkTraffic


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


class HostEnergies:
    """Load and correlation energies of all operators together (potential-driven §3.2).

    An operator changes more than its own energy: the load of all that share its host, and what their own loads
    correlate with.
    """

    def __init__(self, problem: PlacementProblem, weights: EnergyWeights) -> None:
        self._partial = PartialPlacement(problem, weights)
        self._loads, self._weights = self._partial.loads, weights
        self._hosts = np.full(len(problem.operators), -1)

    def add(self, operator: int, host: int) -> None:
        """Put an operator on a host."""
        self._loads.add(operator, host)
        self._hosts[operator] = host

    def remove(self, operator: int, host: int) -> None:
        """Take an operator from a host."""
        self._loads.remove(operator, host)
        self._hosts[operator] = -1

    def _filled(self, counts: Ints, load: Floats, hosts: Ints | slice = slice(None)) -> Floats:
        """The load energies of all operators on some hosts, of how many there are and of the benchmark load."""
        loads, overload = self._loads, self._weights.overload
        energy = load_energy(loads.coefficient[hosts] * load, loads.quota[hosts], overload)
        return np.asarray(self._weights.load * counts * energy, np.float64)

    def costs(self, operator: int) -> Floats:
        """How much more the hosts cost with an operator that is nowhere on each of them."""
        loads, own = self._loads, self._loads.loads[operator]
        load = loads.series.mean(axis=1)
        found = self._filled(loads.counts + 1, load + own.mean()) - self._filled(loads.counts, load)
        there = np.flatnonzero(self._hosts >= 0)
        at, theirs = self._hosts[there], loads.loads[there]
        rest = loads.series[at] - theirs
        more = correlation(theirs, rest + own) - correlation(theirs, rest)
        together = self._partial.correlations(operator) + np.bincount(at, more, len(found))
        return found + self._weights.correlation * together

    def swaps(self, operator: int, here: int, others: Ints, there: Ints) -> Floats:
        """How much more they cost if an operator on `here` changes places with each of others, on `there`."""
        loads, counts = self._loads, self._loads.counts
        load = loads.series.mean(axis=1)
        change = (loads.loads[others] - loads.loads[operator]).mean(axis=1)
        at = np.full(len(others), here)
        found = self._filled(counts[at], load[at] + change, at) - self._filled(counts[at], load[at], at)
        found += self._filled(counts[there], load[there] - change, there)
        found -= self._filled(counts[there], load[there], there)
        if self._weights.correlation:
            together = self._exchanged(here, np.full(len(others), operator), others)
            for host in set(there.tolist()):
                at = there == host
                together[at] += self._exchanged(host, others[at], np.full(int(at.sum()), operator))
            found += self._weights.correlation * together
        return found

    def _exchanged(self, host: int, gone: Ints, come: Ints) -> Floats:
        """The change of the sum of correlations on a host if an operator replaces another, for each of some pairs."""
        loads = self._loads
        members = np.flatnonzero(self._hosts == host)
        before = loads.loads[members]
        now = correlation(before, loads.series[host] - before).sum()
        after = np.where((members == gone[:, None])[:, :, None], loads.loads[come][:, None], before)
        total = (loads.series[host] - loads.loads[gone] + loads.loads[come])[:, None]
        return np.asarray(correlation(after, total - after).sum(axis=1) - now, np.float64)

    def total(self) -> float:
        """What all hosts cost."""
        loads, there = self._loads, np.flatnonzero(self._hosts >= 0)
        own, rest = loads.loads[there], loads.series[self._hosts[there]] - loads.loads[there]
        together = float(correlation(own, rest).sum())
        return float(self._filled(loads.counts, loads.series.mean(axis=1)).sum()) + self._weights.correlation * together


class Landscape:
    """The total of a placement: what hosts cost, what links cost, the user's own terms, and a charge for moves.

    The charge is a function of an operator; it gives what each host costs it, as 0 on the host where it is today.
    """

    def __init__(
        self,
        problem: PlacementProblem,
        hosts: HostCosts,
        traffic: LinkTraffic,
        network: float = 1.0,
        terms: Sequence[EnergyTerm] = (),
        charge: Callable[[int], Floats] | None = None,
    ) -> None:
        self.problem, self._hosts, self._traffic, self._network = problem, hosts, traffic, network
        self._charge = charge
        self._terms = PartialPlacement(problem, terms=terms) if terms else None
        self.placed = traffic.placed
        self._savings: Floats | None = None

    def add(self, operator: int, host: int) -> None:
        """Place an operator that is nowhere."""
        self._savings = None
        self._hosts.add(operator, host)
        self._traffic.add(operator, host)

    def remove(self, operator: int) -> None:
        """Take an operator away from its host."""
        self._savings = None
        self._hosts.remove(operator, self.placed[operator])
        self._traffic.remove(operator)

    def costs(self, operator: int) -> Floats:
        """How much higher the total is with an operator that is nowhere on each of the hosts."""
        found = self._hosts.costs(operator) + self._network * self._traffic.costs(operator)
        if self._terms is not None:
            placed = np.array(self.placed)
            for host in range(len(found)):
                placed[operator] = host
                found[host] += self._terms.term_total(placed)
        return found if self._charge is None else found + self._charge(operator)

    def swap(self, operator: int, others: Ints, least: float) -> int | None:
        """The first of some operators on other hosts, best first, whose swap lowers the total by more than `least`."""
        here, there = self.placed[operator], np.array(self.placed)[others]
        change = self._hosts.swaps(operator, here, others, there)
        if self._charge is not None:
            mine = self._charge(operator)
            change = change + mine[there] - mine[here]
            change += [row[here] - row[h] for row, h in zip(map(self._charge, others.tolist()), there, strict=True)]
        # No swap saves more on links than these cost now: that spares the exact look at nearly all of them.
        if self._savings is None:
            self._savings = np.array([self._traffic.savings(o) for o in range(len(self.placed))])
        hope = change - self._network * (self._savings[others] + self._savings[operator])
        hope = np.full(len(others), -np.inf) if self._terms is not None else hope
        for place in np.argsort(hope, kind="stable"):
            if hope[place] >= -least:
                return None
            other = int(others[place])
            exact = float(change[place]) + self._network * self._traffic.swap(operator, other)
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
        found = self._hosts.total() + self._network * self._traffic.total()
        if self._charge is not None:
            found += sum(float(self._charge(o)[host]) for o, host in enumerate(self.placed) if host >= 0)
        return found + (0.0 if self._terms is None else self._terms.term_total(np.array(self.placed)))


def energy_landscape(
    problem: PlacementProblem,
    weights: EnergyWeights,
    terms: Sequence[EnergyTerm] = (),
    charge: Callable[[int], Floats] | None = None,
) -> Landscape:
    """The paper's total energy, with weights that are given."""
    hosts = HostEnergies(problem, weights)
    return Landscape(problem, hosts, LinkTraffic(problem), weights.network, terms, charge)


def latency_landscape(
    problem: PlacementProblem,
    model: LatencyModel,
    terms: Sequence[EnergyTerm] = (),
    charge: Callable[[int], Floats] | None = None,
) -> Landscape:
    """Estimated ms of the mean latency of a result."""
    shares = result_shares(problem)
    traffic = LinkTraffic(problem, model.link, shares.streams)
    return Landscape(problem, HostWaiting(problem, model, shares.operators), traffic, 1.0, terms, charge)
