"""The streams between hosts under a partial placement: bytes on each link, and what the use of the links costs.

An operator sends each row once to every other host that has readers of it (potential-driven §5.1). Both ways to count
what that costs are here: once for each host it sends to, as in the paper, or for each reader by its share of results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from evenflow.model.graphs.placement import PlacementProblem, upstream
from evenflow.policy.graph.placement import Floats, Ints

Price = Callable[[Floats, Floats], Floats]
"""What a link costs, of its delay in ms and its use, bytes over bandwidth."""
EVERYWHERE = slice(None)


def rubber_band(delay: Floats, use: Floats) -> Floats:
    """c(l) of §3.2: the delay of the link, times its use once that is above 1."""
    return delay * np.maximum(1.0, use)


class LinkTraffic:
    """Traffic between hosts, of the operators placed so far. Tables: a row a receiving host, a column a sending one.

    The cost of a link is its price times its mass: the number of operators that send over it or, with `shares`, the
    sum of the shares of the operators that read from it.
    """

    def __init__(
        self,
        problem: PlacementProblem,
        price: Price = rubber_band,
        shares: Mapping[tuple[int, int], float] | None = None,
    ) -> None:
        operators, count = problem.operators, len(problem.hosts)
        delay, bandwidth = problem.links.dense(count)
        self.delay, self.bandwidth = np.ascontiguousarray(delay.T), np.ascontiguousarray(bandwidth.T)
        self.bytes, self.mass = np.zeros((count, count)), np.zeros((count, count))
        self.placed = [-1] * len(operators)
        self._price, self._shares = price, shares
        self._rate = [operator.bytes_s for operator in operators]
        self._readers = [operator.readers for operator in operators]
        self._upstream = upstream(operators)
        self._count = count
        self._reads: dict[int, int] = {}
        """How many readers of operator o are on host h, at o * hosts + h."""

    def copy(self) -> LinkTraffic:
        """A copy that changes by itself; what never changes is shared."""
        new = LinkTraffic.__new__(LinkTraffic)
        new.__dict__.update(self.__dict__)
        new.bytes, new.mass = self.bytes.copy(), self.mass.copy()
        new.placed, new._reads = self.placed.copy(), self._reads.copy()
        return new

    def add(self, operator: int, host: int) -> None:
        """Place an operator that is nowhere."""
        self._change(operator, host, 1)
        self.placed[operator] = host

    def remove(self, operator: int) -> None:
        """Take an operator away from where it is."""
        host, self.placed[operator] = self.placed[operator], -1
        self._change(operator, host, -1)

    def _change(self, operator: int, host: int, sign: int) -> None:
        for other, mass in self._sends(operator).items():
            if other != host:
                self.bytes[other, host] += sign * self._rate[operator]
                self.mass[other, host] += sign * mass
        for sender in self._upstream[operator]:
            slot = sender * self._count + host
            before = self._reads.get(slot, 0)
            self._reads[slot] = before + sign
            source = self.placed[sender]
            if source in (-1, host):
                continue
            if max(before, before + sign) == 1:
                self.bytes[host, source] += sign * self._rate[sender]
                self.mass[host, source] += sign * (self._shares is None)
            if self._shares is not None:
                self.mass[host, source] += sign * self._shares[sender, operator]

    def _sends(self, operator: int) -> dict[int, float]:
        """The hosts with readers of an operator, each with the mass that the stream to there has."""
        found: dict[int, float] = {}
        for reader in self._readers[operator]:
            host = self.placed[reader]
            if host >= 0:
                found[host] = 1.0 if self._shares is None else found.get(host, 0.0) + self._shares[operator, reader]
        return found

    def own(self, operator: int) -> Floats:
        """PE_n of an operator that is nowhere, for each host: the sum of c(l) over its downstream links (§3.2)."""
        found = np.zeros(self._count)
        for host in self._sends(operator):
            use = (self.bytes[host] + self._rate[operator]) / self.bandwidth[host]
            found += self._price(self.delay[host], use)
            # The link of a host to itself has no delay and endless bandwidth, so it costs nothing.
        return found

    def costs(self, operator: int, at: slice = EVERYWHERE) -> Floats:
        """How much more all links together cost with an operator that is nowhere on each of the hosts `at`."""
        found = np.zeros(len(range(self._count)[at]))
        rate = self._rate[operator]
        for host, mass in self._sends(operator).items():
            found += self._more((host, at), rate, mass)
        for source in {self.placed[sender] for sender in self._upstream[operator]} - {-1}:
            rates, masses = self._arriving(operator, source, at)
            found += self._more((at, source), rates, masses)
        return found

    def _arriving(self, operator: int, source: int, at: slice) -> tuple[Floats, Floats]:
        """Bytes and mass that more go from a host to each of the hosts `at` if the operator is there."""
        hosts = range(self._count)[at]
        rates, masses = np.zeros(len(hosts)), np.zeros(len(hosts))
        for sender in self._upstream[operator]:
            if self.placed[sender] != source:
                continue
            new = np.ones(len(hosts))
            for reader in self._readers[sender]:
                if self.placed[reader] in hosts:
                    new[self.placed[reader] - hosts[0]] = 0.0
            rates += new * self._rate[sender]
            masses += new if self._shares is None else self._shares[sender, operator]
        return rates, masses

    def _more(self, links: tuple[int | slice, int | slice], rate: float | Floats, mass: float | Floats) -> Floats:
        delay, bandwidth = self.delay[links], self.bandwidth[links]
        carried, weighed = self.bytes[links], self.mass[links]
        now = weighed * self._price(delay, carried / bandwidth)
        return (weighed + mass) * self._price(delay, (carried + rate) / bandwidth) - now

    def swap(self, one: int, other: int) -> float:
        """How much more all links cost if two operators change places."""
        here, there = self.placed[one], self.placed[other]
        found = 0.0
        for operator, host in ((one, here), (other, there)):
            self.remove(operator)
            found -= float(self.costs(operator, slice(host, host + 1))[0])
        for operator, host in ((one, there), (other, here)):
            found += float(self.costs(operator, slice(host, host + 1))[0])
            self.add(operator, host)
        for operator in (one, other):
            self.remove(operator)
        self.add(one, here)
        self.add(other, there)
        return found

    def savings(self, operator: int) -> float:
        """What links cost because of an operator: no move of it saves more. A link above its bandwidth counts whole."""
        host = self.placed[operator]
        masses = {(other, host): mass for other, mass in self._sends(operator).items() if other != host}
        for sender in self._upstream[operator]:
            link = host, self.placed[sender]
            if link[1] not in (-1, host):
                mass = 1.0 if self._shares is None else self._shares[sender, operator]
                masses[link] = masses.get(link, 0.0) + mass
        found = 0.0
        for link, mass in masses.items():
            use = self.bytes[link] / self.bandwidth[link]
            found += float(self._price(self.delay[link], use) * (mass if use <= 1 else max(mass, self.mass[link])))
        return found

    def roomy(self) -> bool:
        """Whether every link has room for the streams of all operators at once, however these are placed."""
        return sum(self._rate) <= float(self.bandwidth.min())

    def near(self) -> list[Ints]:
        """For each operator those whose places matter for its links: neighbours, and readers of what it reads."""
        found = []
        for operator, readers in enumerate(self._readers):
            near = {*readers, *self._upstream[operator]}
            near.update(reader for sender in self._upstream[operator] for reader in self._readers[sender])
            found.append(np.array(sorted(near - {operator}), np.int64))
        return found

    def total(self) -> float:
        """What all links cost."""
        return float((self.mass * self._price(self.delay, self.bytes / self.bandwidth)).sum())
