"""LB-adaptive and LB-static: ordered-regions §3 to §5 as the text has them, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from evenflow.model import RESOLUTION, SetWeights, Snapshot
from evenflow.model.given import check_flag, check_numbers, check_wholes
from evenflow.policy.ordered.allocation import allocate
from evenflow.policy.ordered.balance import Balance
from evenflow.policy.ordered.clustering import clusters, traits
from evenflow.policy.ordered.function import BlockingFunction, Vector, mean_curve
from evenflow.policy.ordered.sampling import (
    IDLE,
    Key,
    Measured,
    Sampler,
    blocking_reason,
    clusters_by_worker,
    key_of,
    meet,
)


@dataclass(slots=True)
class _Link:
    """What is known of the connection to one incarnation of a worker."""

    weight: int = 0
    function: BlockingFunction = field(default_factory=BlockingFunction)


@dataclass
class LbAdaptive(Balance):
    """Minimise the largest blocking rate that is predicted from the rates seen so far.

    1. With every sample, r_j = (blocking time of j since the last one) / (feeder-seconds since then) (§3.1).
    2. r_j is smoothed into the raw data of F_j at the present weight w'_j; from it, by monotone regression and linear
       interpolation, F_j on 0..R (§5.1).
    3. Every `every` samples, the weights become those that minimise max_j F_j(w_j) with sum w_j = R and
       |w_j - w'_j| <= `step` (§5.2). From `cluster_from` connections on, each with the mean of the functions of its
       cluster (§5.3, step 4.3).
    4. With every decision, F_j(w) loses `decay` of itself for all w > w'_j (§5.4); not with `explore=False`.

    Where the text is silent: a connection that did not block has a sample of 0, for only that shows that more is
    possible, and Figure 7 has functions that are 0 up to a knee. A splitter that does not block leaves the weights as
    they are, and so do equal functions. Clusters compare the functions as they were seen, without what exploration took
    off: else a slow connection without weight, whose function decays to nothing, ends in one cluster with those that
    never block, and Figure 12 has pure ones. Where blocking begins, and how far apart the functions of a cluster may
    be, is in `clustering.py`.
    """

    name: ClassVar[str] = "lb-adaptive"

    explore: bool = True
    every: int = 2
    """Samples between two decisions."""
    decay: float = 0.1
    """The share of F beyond the present weight that is taken off with each decision."""
    memory: float = 4.0
    """So many samples at one weight are averaged; after that the newest counts 1/memory."""
    delta: float = 1e-6
    """F rises at least this much from one weight to the next: what forces it to be monotone."""
    step: int = RESOLUTION
    """The most units by which a weight may rise or fall in one decision."""
    cluster_from: int = 32
    """The number of connections from which on they share the functions of clusters."""

    def __post_init__(self) -> None:
        check_flag("explore", self.explore)
        check_numbers(self, decay=(0, 1), memory=(1, 1e6), delta=(1e-9, 1e-4))
        check_wholes(self, every=(1, 10**6), step=(1, RESOLUTION), cluster_from=(2, 10**6))
        self._links: dict[Key, _Link] = {}
        self._sampler = Sampler()
        self._samples = 0

    def decide(self, snapshot: Snapshot) -> list[SetWeights]:
        """New weights, or none between decisions, or if nothing was fed, nothing blocked, or nothing would change."""
        if not snapshot.connections:
            return []
        if {key_of(c) for c in snapshot.connections} != set(self._links):
            self._sampler.rebase(snapshot)
            self._links, moves = meet(self._links, snapshot, _Link)
            return moves
        measured = self._sampler.take(snapshot)
        if measured is None:
            return []
        for key, link in self._links.items():
            link.weight = measured[key].weight
            link.function = link.function.observe(link.weight, measured[key].rate, self.memory)
        self._samples += 1
        if self._samples % self.every or sum(m.rate for m in measured.values()) < IDLE:
            return []
        if self.explore:
            for link in self._links.values():
                link.function = link.function.decay(link.weight, self.decay)
        groups = self._groups()
        weights = self._choose(groups or [[place] for place in range(len(self._links))])
        if weights == [link.weight for link in self._links.values()]:
            return []
        for link, weight in zip(self._links.values(), weights, strict=True):
            link.weight = weight
        shares = {worker: link.weight for (worker, _), link in self._links.items()}
        return [SetWeights(snapshot.region, shares, blocking_reason(measured), self._detail(measured, groups))]

    def _groups(self) -> list[list[int]] | None:
        """Clusters of similar connections, by place; None if there are too few connections for that."""
        if len(self._links) < self.cluster_from:
            return None
        return clusters(traits([link.function.seen(self.delta) for link in self._links.values()], self.delta))

    def _choose(self, groups: list[list[int]]) -> list[int]:
        """The weights that minimise the largest F, each connection with the function of its group.

        Among connections that share a strictly increasing function, Fox's greedy gives the next unit to the one with
        the least weight: so it solves the problem over clusters and divides each cluster's share evenly in one go.
        """
        links = list(self._links.values())
        curves: dict[int, Vector] = {}
        for group in groups:
            curves |= dict.fromkeys(group, mean_curve([links[place].function for place in group], self.delta))
        current = [link.weight for link in links]
        lower = [max(0, weight - self.step) for weight in current]
        upper = [min(RESOLUTION, weight + self.step) for weight in current]
        if sum(lower) > RESOLUTION or sum(upper) < RESOLUTION:  # the present weights do not sum up: ignore the bounds
            lower, upper = [0] * len(links), [RESOLUTION] * len(links)
        return allocate([curves[place] for place in range(len(links))], lower, upper, RESOLUTION, current)

    def _detail(self, measured: Mapping[Key, Measured], groups: list[list[int]] | None) -> dict[str, Any]:
        """Rates, functions and clusters for the event log: enough to draw Figures 8, 11 and 12."""
        detail: dict[str, Any] = {
            "rates": {str(key[0]): round(m.rate, 5) for key, m in measured.items()},
            "functions": {
                str(key[0]): [[weight, round(height, 5)] for weight, height in link.function.knots()]
                for key, link in self._links.items()
            },
        }
        if groups is not None:
            detail["clusters"] = clusters_by_worker(self._links, groups)
        return detail


@dataclass
class LbStatic(LbAdaptive):
    """LB-adaptive without exploration: what has blocked once is not tried with more again."""

    name: ClassVar[str] = "lb-static"

    explore: bool = False
