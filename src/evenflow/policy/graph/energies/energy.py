"""The potential energy of operators: load, correlation and network (potential-driven §3.2), kept up step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evenflow.errors import InvalidArgument
from evenflow.model.graphs.placement import PAPER_WEIGHTS, EnergyWeights, PlacementProblem
from evenflow.policy.graph.energies.measures import correlation, ratio
from evenflow.policy.graph.energies.traffic import LinkTraffic
from evenflow.policy.graph.placement import Floats, Ints

EnergyTerm = Callable[[PlacementProblem, Ints, int], Floats]
"""A user's own energy: a pure function of the problem, the host of each operator (-1: none yet) and one operator that
has none; it gives that operator's energy on each host, already weighted."""


def check_energy(weights: object, terms: object) -> None:
    """Refuse weights and terms of a placement that are none."""
    if not isinstance(weights, EnergyWeights):
        raise InvalidArgument(f"weights is {weights!r:.100}: give an EnergyWeights of evenflow.model.graphs.placement")
    if not isinstance(terms, tuple | list) or not all(map(callable, terms)):
        raise InvalidArgument(f"terms is {terms!r:.100}: give a tuple of functions, as (my_term,)")


def load_energy(load: Floats, quota: Floats, overload: float) -> Floats:
    """PE_l of an operator on hosts with these loads, its own included (§3.2).

    With x = ld_h / q_h it is x below 1, and 1 + p (x - 1) from there on.
    """
    filled = load / quota
    return np.where(filled < 1, filled, 1 + overload * (filled - 1))


class HostLoads:
    """Benchmark loads of hosts under a partial placement, in each period."""

    def __init__(self, problem: PlacementProblem) -> None:
        hosts, periods = problem.hosts, max(problem.periods, 1)
        self.coefficient = np.array([host.coefficient for host in hosts])
        self.quota = np.array([host.quota for host in hosts])
        self.background = np.array([host.background or (0.0,) * periods for host in hosts], np.float64)
        self.loads = np.array([operator.series for operator in problem.operators], np.float64).reshape(-1, periods)
        self.series, self.counts = self.background.copy(), np.zeros(len(hosts), np.int64)

    def copy(self) -> HostLoads:
        """A copy that changes by itself; what never changes is shared."""
        new = HostLoads.__new__(HostLoads)
        new.__dict__.update(self.__dict__)
        new.series, new.counts = self.series.copy(), self.counts.copy()
        return new

    def add(self, operator: int, host: int) -> None:
        """Put an operator's load on a host."""
        self.series[host] += self.loads[operator]
        self.counts[host] += 1

    def remove(self, operator: int, host: int) -> None:
        """Take an operator's load from a host; one without operators has its background exactly."""
        self.counts[host] -= 1
        self.series[host] -= self.loads[operator]
        if not self.counts[host]:
            self.series[host] = self.background[host]

    def actual(self) -> Floats:
        """ld_h: the mean load of each host, in its own time (§2.2.1)."""
        found: Floats = self.coefficient * self.series.mean(axis=1)
        return found


class PartialPlacement:
    """Some operators on hosts, and the energy that any other operator would have on each of them.

    `add` and `remove` take O(k + degree), `pe_of` O(n k + n degree) in arrays over all hosts. After any sequence of
    them, energies are those of a new object with the same placement, up to rounding.
    """

    def __init__(
        self,
        problem: PlacementProblem,
        weights: EnergyWeights = PAPER_WEIGHTS,
        terms: Sequence[EnergyTerm] = (),
        both_ways: bool = False,
    ) -> None:
        self.problem, self.weights, self.terms, self._both_ways = problem, weights, tuple(terms), both_ways
        self.loads, self.traffic = HostLoads(problem), LinkTraffic(problem)
        self._middle = self.loads.loads.mean(axis=1)
        self._centred = self.loads.loads - self._middle[:, None]
        self._spread = np.square(self._centred).mean(axis=1)

    @property
    def hosts(self) -> Ints:
        """The host of each operator, -1 where it has none."""
        return np.array(self.traffic.placed, np.int64)

    def copy(self) -> PartialPlacement:
        """A copy that changes by itself."""
        new = PartialPlacement.__new__(PartialPlacement)
        new.__dict__.update(self.__dict__)
        new.loads, new.traffic = self.loads.copy(), self.traffic.copy()
        return new

    def add(self, operator: int, host: int) -> None:
        """Place an operator that is nowhere."""
        self.loads.add(operator, host)
        self.traffic.add(operator, host)

    def remove(self, operator: int) -> None:
        """Take an operator away from its host."""
        self.loads.remove(operator, self.traffic.placed[operator])
        self.traffic.remove(operator)

    def pe_of(self, operator: int) -> Floats:
        """PE(o, h, P) of an operator that is nowhere, for each host h (§3.2).

        With `both_ways`, its network energy is what all links cost more with it: also those from its senders.
        """
        weights, loads = self.weights, self.loads
        own = loads.coefficient * float(loads.loads[operator].mean())
        found = weights.load * load_energy(loads.actual() + own, loads.quota, weights.overload)
        found += weights.correlation * self.correlations(operator)
        links = self.traffic.costs(operator) if self._both_ways else self.traffic.own(operator)
        found += weights.network * links
        for term in self.terms:
            found += term(self.problem, self.hosts, operator)
        return found

    def correlations(self, operator: int) -> Floats:
        """PE_c of an operator that is nowhere: its correlation with all that is on each host (§3.2)."""
        periods, middle = self.loads.series.shape[1], self.loads.series.mean(axis=1)
        centred = self.loads.series - middle[:, None]
        spread = (centred * centred).sum(axis=1) / periods
        together = (centred * self._centred[operator]).sum(axis=1) / periods
        return ratio(together, self._spread[operator], spread, np.maximum(middle, self._middle[operator]))

    def total(self) -> float:
        """The sum of the energies of all operators that have a host: what a placement should make small (§4)."""
        hosts, loads, weights = self.hosts, self.loads, self.weights
        there = np.flatnonzero(hosts >= 0)
        energy = load_energy(loads.actual(), loads.quota, weights.overload)
        found = weights.load * float((energy * loads.counts).sum())
        own = loads.loads[there]
        found += weights.correlation * float(correlation(own, loads.series[hosts[there]] - own).sum())
        return found + weights.network * self.traffic.total() + self.term_total(hosts)

    def term_total(self, hosts: Ints) -> float:
        """The user's own energies of all operators, each asked about an operator as if it had no host."""
        found = 0.0
        for term in self.terms:
            for operator in np.flatnonzero(hosts >= 0):
                host, hosts[operator] = hosts[operator], -1
                found += float(term(self.problem, hosts.copy(), int(operator))[host])
                hosts[operator] = host
        return found


def total_energy(
    problem: PlacementProblem,
    placed: Sequence[int],
    weights: EnergyWeights = PAPER_WEIGHTS,
    terms: Sequence[EnergyTerm] = (),
) -> float:
    """The total energy of a placement, from nothing; operators on -1 do not count."""
    partial = PartialPlacement(problem, weights, terms)
    for operator, host in enumerate(placed):
        if host >= 0:
            partial.add(operator, host)
    return partial.total()
