"""Units that are worth moving: to hosts with less load, or closer to their neighbours, as long as the total falls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenflow.model.graphs.spread import LANES, UnitsMove
from evenflow.policy.graph.equilibrium import least_gain
from evenflow.policy.graph.moves.evening import LOOKED_AT, HostFilling
from evenflow.policy.graph.moves.spread_parts import SpreadProblem
from evenflow.policy.graph.moves.weighing import Weighing
from evenflow.policy.graph.placement import Ints

BATCH_BYTES = 8 * 1024 * 1024
"""About what is moved at once: a unit waits for those that are moved with it."""
STEP = 0.1
"""What the units of one pair of hosts must save at least, as a part of what all must together."""


class UnitMoves:
    """The search of one level, with all units of its spread operators in one array.

    A step makes one pair of hosts even, and counts if the total falls, also in doubt. Its hosts are at least 4 doubts
    apart: if one is slower and the other faster than measured, they are 2 doubts closer before the step, and 2 doubts
    apart after it. If no pair gains, all units that a spread operator has on one host go to another one together, if
    the total falls: hosts that are far away, or slow, are left.
    """

    def __init__(self, weighing: Weighing, whole: SpreadProblem, level: int) -> None:
        self._weighing, self._whole, self._level = weighing, whole, level
        self._owners = [each.owners.copy() for each in whole.spread]
        self._now = whole.with_owners(self._owners)
        self._filling = HostFilling(self._now)
        _, self._bandwidth = self._now.links.dense(len(self._now.hosts))
        results, loads = whole.results(self._now, self._owners), whole.unit_loads()
        members = [number for number, each in enumerate(whole.spread) if each.level == level]
        sizes = [len(self._owners[number]) for number in members]
        self._node = np.repeat(np.array(members, np.int64), sizes)
        self._unit = np.concatenate([np.arange(size) for size in sizes])
        self._load = np.concatenate([loads[number] for number in members])
        self._share = np.concatenate([whole.shares[number] * results[number] for number in members])
        self._bytes = np.concatenate([np.asarray(whole.spread[number].unit_bytes) for number in members])
        self._owner = np.concatenate([self._owners[number] for number in members])

    def search(self, steps: int, most: int) -> tuple[tuple[UnitsMove, ...], str]:
        """The moves of at most so many steps and units that save more than the margin; and why."""
        began, first = self._owner.copy(), self._now
        for _ in range(steps):
            moved = self._step(most)
            most -= moved
            if not moved or most <= 0:
                break
        units = np.flatnonzero(began != self._owner)
        if not len(units):
            return (), ""
        now, then = self._weighing.total(first), self._weighing.total(self._now)
        if now - then - self._charges(units, began) <= self._weighing.least(now):
            return (), ""
        what = "lanes" if self._level == LANES else "units"
        return self._moves(units, began), f"{what}: saves {now - then:.3g} of {now:.3g}"

    def _step(self, most: int) -> int:
        """Take one step; how many units that moves, 0 if no step gains."""
        for donor, receiver, units in self._candidates(most):
            if len(units) and self._gains(units, donor, receiver):
                self._filling.move(float(self._load[units].sum()), donor, receiver)
                return len(units)
        return 0

    def _candidates(self, most: int) -> Iterator[tuple[int, int, Ints]]:
        """Two hosts, and units that may go from the one to the other."""
        holders = np.bincount(self._owner, self._load, len(self._now.hosts)) > 0
        for donor, receiver in self._filling.pairs(holders.tolist(), 4 * self._weighing.doubt):
            mine = np.flatnonzero(self._owner == donor)
            yield donor, receiver, mine[self._filling.chosen(self._load[mine], donor, receiver, most)]
        for number, donor, receiver in self._leaving():
            mine = (self._node == number) & (self._owner == donor) & (self._load > 0)
            yield donor, receiver, np.flatnonzero(mine)[:most]

    def _leaving(self) -> list[tuple[int, int, int]]:
        """Spread operators that may leave a host for another one: those that save most come first, a few of them."""
        landscape, first = self._weighing.landscape(self._now), len(self._whole.problem.operators)
        least, found = STEP * self._weighing.least(landscape.total()), []
        for part, (number, host) in enumerate(self._whole.parts(self._owners), first):
            if self._whole.spread[number].level == self._level:
                landscape.remove(part)
                costs = landscape.costs(part)
                landscape.add(part, host)
                best = int(np.argmin(costs))
                if costs[host] - costs[best] > least:
                    found.append((float(costs[host] - costs[best]), number, host, best))
        return [(number, host, best) for _, number, host, best in sorted(found, reverse=True)[:LOOKED_AT]]

    def _gains(self, units: Ints, donor: int, receiver: int) -> bool:
        """Move units if the total falls, charges included, also if hosts are not quite as fast as measured."""
        weighing, before = self._weighing, self._owner.copy()
        self._own(units, receiver)
        after = self._whole.with_owners(self._owners)
        change = np.zeros(len(after.hosts))
        change[[donor, receiver]] = -1.0, 1.0
        now, then = (weighing.total(weighing.doubted(each, change)) for each in (self._now, after))
        if now - then - self._charges(units, before) > max(STEP * weighing.least(now), least_gain(now)):
            self._now = after
            return True
        self._own(units, donor)
        return False

    def _own(self, units: Ints, host: int) -> None:
        self._owner[units] = host
        for number in np.unique(self._node[units]).tolist():
            self._owners[number][self._unit[units[self._node[units] == number]]] = host

    def _charges(self, units: Ints, before: Ints) -> float:
        """What it costs to move units from where they were; those that go the same way are moved together."""
        found = 0.0
        for source, target in {*zip(before[units].tolist(), self._owner[units].tolist(), strict=True)}:
            some = units[(before[units] == source) & (self._owner[units] == target)]
            size = max(min(float(self._bytes[some].sum()), BATCH_BYTES), float(self._bytes[some].max()))
            found += self._weighing.charge(float(self._share[some].sum()), size, float(self._bandwidth[source, target]))
        return found

    def _moves(self, moved: Ints, before: Ints) -> tuple[UnitsMove, ...]:
        """What has changed, by spread operator, source and target."""
        ways = {*zip(self._node[moved].tolist(), before[moved].tolist(), self._owner[moved].tolist(), strict=True)}
        found = []
        for number, source, target in sorted(ways):
            some = moved[(self._node[moved] == number) & (before[moved] == source) & (self._owner[moved] == target)]
            found.append(UnitsMove(number, tuple(self._unit[some].tolist()), source, target))
        return tuple(found)
