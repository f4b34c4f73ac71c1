"""Spread operators as part of a placement problem: one pinned operator for each host that has some of their units.

So the total of a placement, in ms of latency, depends on the owners of units as it depends on the hosts of operators,
and one number says whether a move of either kind is worth it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenflow.model.graphs.placement import OperatorLoad, PlacementProblem
from evenflow.model.graphs.spread import SpreadOperator, check_spread
from evenflow.policy.graph.energies.latency import result_shares
from evenflow.policy.graph.placement import Floats, Ints


class SpreadProblem:
    """A problem with spread operators, whose units may have any owners.

    The part of spread operator s on host h has the share f of its load, rows and bytes that its units there have:

        f_sh = sum of the shares of the units of s on h         series_sh = f_sh series_s      rows_sh = f_sh rows_s

    A stream to a spread operator goes to each part, by keys: each gets f_sh of the rows. Traffic counts one rate of an
    operator for all hosts that it sends to; where all its readers are spread, that is the mean over these hosts.
    """

    def __init__(self, problem: PlacementProblem, spread: Sequence[SpreadOperator]) -> None:
        check_spread(problem, spread)
        self.problem, self.spread = problem, tuple(spread)
        self.shares = [each.shares for each in spread]
        self._whole = len(problem.operators)
        whole = range(self._whole)
        self._reads = [tuple(s for s, each in enumerate(spread) if o in each.senders) for o in whole]
        """By whole operator, the spread ones that read it."""

    def with_owners(self, owners: Sequence[Ints]) -> PlacementProblem:
        """The problem with units where they would be: operators as they are, then the parts, pinned."""
        parts = [self._parts(number, mine) for number, mine in enumerate(owners)]
        starts = np.cumsum([self._whole, *(len(hosts) for hosts, _ in parts)])
        numbers = [tuple(range(starts[s], starts[s + 1])) for s in range(len(parts))]
        operators = [self._whole_operator(number, numbers) for number in range(self._whole)]
        for number, (hosts, shares) in enumerate(parts):
            each = self.spread[number]
            readers = tuple(reader for reader in each.readers if reader < self._whole)
            behind = tuple(reader - self._whole for reader in each.readers if reader >= self._whole)
            carried = each.bytes_s * _sent(readers, behind, numbers)
            to = readers + tuple(part for reader in behind for part in numbers[reader])
            series = np.array(each.series)
            for host, share in zip(hosts.tolist(), shares.tolist(), strict=True):
                part = OperatorLoad(
                    name=f"{each.name}@{host}",
                    series=tuple((share * series).tolist()),
                    readers=to,
                    rows_s=share * each.rows_s,
                    bytes_s=share * carried,
                    pinned=host,
                    endpoint=each.endpoint,
                    turn_ms=each.turn_ms,
                )
                operators.append(part)
        placed = self.problem.placed + tuple(host for hosts, _ in parts for host in hosts.tolist())
        return replace(self.problem, operators=tuple(operators), placed=placed)

    def parts(self, owners: Sequence[Ints]) -> list[tuple[int, int]]:
        """The spread operator and the host of each part, in the order in which `with_owners` has them."""
        found = (self._parts(number, mine)[0] for number, mine in enumerate(owners))
        return [(number, host) for number, hosts in enumerate(found) for host in hosts.tolist()]

    def _parts(self, number: int, owners: Ints) -> tuple[Ints, Floats]:
        """The hosts that have a part of a spread operator, and its share there."""
        held = np.bincount(owners, self.shares[number], len(self.problem.hosts))
        hosts = np.flatnonzero(held > 0).astype(np.int64)
        return hosts, held[hosts].astype(np.float64)

    def _whole_operator(self, number: int, numbers: Sequence[tuple[int, ...]]) -> OperatorLoad:
        operator, behind = self.problem.operators[number], self._reads[number]
        if not behind:
            return operator
        to = operator.readers + tuple(part for reader in behind for part in numbers[reader])
        return replace(operator, readers=to, bytes_s=operator.bytes_s * _sent(operator.readers, behind, numbers))

    def results(self, problem: PlacementProblem, owners: Sequence[Ints]) -> Floats:
        """By spread operator, the share of all results that pass through it; `problem` is that of these owners."""
        of = np.array([number for number, _ in self.parts(owners)], np.int64)
        found = np.bincount(of, result_shares(problem).operators[self._whole :], len(self.spread))
        return np.minimum(found, 1.0)

    def unit_loads(self) -> list[Floats]:
        """By spread operator and unit, the mean benchmark load."""
        return [float(np.mean(each.series)) * shares for each, shares in zip(self.spread, self.shares, strict=True)]


def _sent(readers: tuple[int, ...], behind: tuple[int, ...], numbers: Sequence[tuple[int, ...]]) -> float:
    """The part of a stream that a host with readers of it gets, in the mean: all of it where a whole one reads."""
    if readers or not behind:
        return 1.0
    return min(1.0, sum(1 / max(len(numbers[reader]), 1) for reader in behind))
