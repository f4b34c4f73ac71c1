"""XZH: the global correlation-based distribution of Xing, Zdonik and Hwang (ICDE 2005), as potential-driven §5.3.7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.errors import InvalidArgument
from evenflow.model.given import number_of
from evenflow.model.graphs.placement import PlacementProblem
from evenflow.policy.graph.energies.energy import HostLoads
from evenflow.policy.graph.energies.measures import correlation
from evenflow.policy.graph.placement import Floats, Ints, Placement, answer, pins

SMALL = 0.005
"""Loads below this are not weighed: such operators are placed last, and step 2 leaves them where they are."""
UNEVEN = 0.2
"""Two hosts whose loads differ by at least this are evened out."""
STEP, PAIR_STEP = 0.1, 0.05
"""Scores are rounded (towards 0) to these: among operators of equal ones, that with most load is taken."""


@dataclass(frozen=True, slots=True)
class XzhPlacement(Placement):
    """Balances loads, and puts operators together whose loads do not rise together. Knows no links and no quotas.

    1. From an empty system, the host with least load takes the operator with the highest score for it, until all are
       placed. The score is how much less it correlates with what is on that host h than with hosts in the mean:

           S(o, h) = mean over all hosts g of rho(o, g) - rho(o, h)

    2. Hosts are paired, the one with most load with the one with least, and so on, as long as their loads differ by
       `UNEVEN`. Operators with the highest (rho(o, its host) - rho(o, the other)) / 2 move from the first to the
       second, at most half of the difference; if that leaves it above twice `UNEVEN`, one more, of a positive score,
       up to all of it.
    3. Hosts should be busy at the same times. Of the pairs whose loads have a correlation below `threshold`, the one
       with the lowest shares out its operators anew, as in step 1; that is kept if the correlation is higher then.

    Written anew after what the load manager of Borealis does, which is by the same authors; its constants are `SMALL`,
    `UNEVEN` and the steps of scores, and 0.8 is the correlation improvement threshold, there as in §5.3.7. As all
    hosts are alike for XZH, loads are benchmark loads without coefficients.
    """

    name: ClassVar[str] = "xzh"

    threshold: float = 0.8

    def __post_init__(self) -> None:
        if not 0 <= number_of(self.threshold) <= 1:
            raise InvalidArgument(f"threshold is {self.threshold!r:.100}: give a correlation of hosts, from 0 to 1")

    def place(self, problem: PlacementProblem) -> tuple[int, ...]:
        """The index of the host of each operator."""
        sharing = _Sharing(problem)
        sharing.share_out(np.flatnonzero(sharing.free), range(len(problem.hosts)))
        sharing.even_out()
        sharing.improve(self.threshold)
        return answer(sharing.hosts)


class _Sharing:
    """A placement while it is made; pinned operators are where they must be."""

    def __init__(self, problem: PlacementProblem) -> None:
        self._loads = HostLoads(problem)
        self._own = self._loads.loads
        self._mean = self._own.mean(axis=1)
        self.hosts = np.full(len(self._own), -1)
        pinned = pins(problem)
        self.free = pinned < 0
        for operator in np.flatnonzero(~self.free).tolist():
            self._put(operator, int(pinned[operator]))

    @property
    def _series(self) -> Floats:
        return self._loads.series

    def _put(self, operator: int, host: int) -> None:
        """To a host, from the one that it is on, if any."""
        if self.hosts[operator] >= 0:
            self._loads.remove(operator, int(self.hosts[operator]))
        self.hosts[operator] = host
        if host >= 0:
            self._loads.add(operator, host)

    def share_out(self, operators: Ints, hosts: Sequence[int]) -> None:
        """Step 1, for operators that are on none of the hosts."""
        at, left = np.array(hosts), operators
        found = correlation(self._own[left][:, None], self._series[at][None])
        while len(left):
            to = int(np.argmin(self._series[at].mean(axis=1)))
            score = _rounded(found.mean(axis=1) - found[:, to], STEP) + self._mean[left] / 100
            best = int(np.argmax(np.where(self._mean[left] < SMALL, -np.inf, score)))
            self._put(int(left[best]), int(at[to]))
            left, found = np.delete(left, best), np.delete(found, best, axis=0)
            found[:, to] = correlation(self._own[left], self._series[at[to]])

    def even_out(self) -> None:
        """Step 2."""
        loads = self._series.mean(axis=1)
        order = np.argsort(-loads, kind="stable").tolist()
        for heavy, light in zip(order[: len(order) // 2], order[::-1], strict=False):
            if loads[heavy] - loads[light] < UNEVEN:
                break
            while self._give(heavy, light, self._apart(heavy, light) / 2):
                pass
            apart = self._apart(heavy, light)
            if apart / 2 > UNEVEN:
                self._give(heavy, light, apart, above=0.0)

    def _apart(self, heavy: int, light: int) -> float:
        return float(self._series[heavy].mean() - self._series[light].mean())

    def _give(self, heavy: int, light: int, most: float, above: float = -np.inf) -> bool:
        """Move the operator with the highest score of those with a load of at most `most`; False if there is none."""
        some = np.flatnonzero(self.free & (self.hosts == heavy) & (self._mean >= SMALL) & (self._mean <= most))
        if not len(some) or most <= SMALL:
            return False
        own = self._own[some]
        gain = correlation(own, self._series[heavy] - own) - correlation(own, self._series[light])
        scores = _rounded(gain / 2, PAIR_STEP) + self._mean[some] / 1000
        best = int(np.argmax(scores))
        if scores[best] <= above:
            return False
        self._put(int(some[best]), light)
        return True

    def improve(self, threshold: float) -> None:
        """Step 3. A pair is tried again when one of its hosts has changed; n^2 / 2 pairs at most."""
        count = len(self._series)
        pairs = {(one, other): self._together(one, other) for other in range(count) for one in range(other)}
        for _ in range(count * count // 2):
            low = min(pairs, key=lambda pair: (pairs[pair], pair), default=None)
            if low is None or pairs[low] >= threshold:
                return
            before = pairs.pop(low)
            if not self._renew(low, before):
                continue
            for host in low:
                for other in set(range(count)) - set(low):
                    one, two = sorted((host, other))
                    pairs[one, two] = self._together(one, two)

    def _together(self, one: int, other: int) -> float:
        return float(correlation(self._series[one], self._series[other]))

    def _renew(self, pair: tuple[int, int], before: float) -> bool:
        """Share out the operators of two hosts anew; taken back, and False, if that is not better."""
        some = np.flatnonzero(self.free & np.isin(self.hosts, pair))
        were = self.hosts[some]
        for operator in some.tolist():
            self._put(operator, -1)
        self.share_out(some, pair)
        if self._together(*pair) > before:
            return True
        for operator, host in zip(some.tolist(), were.tolist(), strict=True):
            self._put(operator, host)
        return False


def _rounded(scores: Floats, step: float) -> Floats:
    return np.asarray(np.trunc(scores / step) * step, np.float64)
