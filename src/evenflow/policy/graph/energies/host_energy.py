"""Load and correlation energies of all operators together, and how they change with moves and swaps."""

from __future__ import annotations

import numpy as np

from evenflow.model.graphs.placement import EnergyWeights, PlacementProblem
from evenflow.policy.graph.energies.energy import PartialPlacement, load_energy
from evenflow.policy.graph.energies.measures import correlation
from evenflow.policy.graph.placement import Floats, Ints


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
