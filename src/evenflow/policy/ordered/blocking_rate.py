"""Blocking rate: shares follow the time the splitter spends blocked on each connection (ordered-regions §3 to §5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any, ClassVar

from evenflow.errors import InvalidArgument
from evenflow.model import RESOLUTION, Connection, SetWeights, Snapshot
from evenflow.model.routing import Splitting
from evenflow.policy.ordered.allocation import allocate, proportional
from evenflow.policy.ordered.clustering import clusters, traits
from evenflow.policy.ordered.function import BlockingFunction, Vector, pool
from evenflow.policy.ordered.pace import Pace
from evenflow.policy.ordered.recall import Recall

SHORT = 0.25
"""A sample shorter than this share of the usual one is added to the next."""
BYSTANDER = 0.1
"""A connection with less than this share of all blocking counts as quiet."""
AGE = 0.97
"""With each new sample, an old one counts this share of what it counted before."""
DELTA_LEARNING = 1e-6
"""delta while some heavily loaded connection has never blocked; also the delta in the distance of clusters."""
MOST_REACH = 1.0
"""The largest reach: no weight more than doubles in one step, except the smallest."""
SMALL = 0.2
"""A weight below this share of the even one is small: for it, a step up is a large step."""
SETTLED = 1.5
"""Samples at one weight after which a small share may rise; older ones count a little less, so these are two."""

Key = tuple[int, int]


@dataclass(slots=True)
class _Link:
    """What is known of the connection to one incarnation of a worker."""

    function: BlockingFunction = field(default_factory=BlockingFunction)
    weight: int = 0
    blocked_s: float = 0.0
    rate: float = 0.0
    reach: float = 0.0
    """The share of its weight by which it may rise in one step."""
    rose: bool = False


@dataclass
class BlockingRate:
    """LB-adaptive; `explore=False` gives LB-static.

    With each sample, r_j = (blocking time of j since the last sample) / (feeder-seconds since then). The function F_j
    takes in the sample at the present weight w'_j. Then the weights become those that minimise
    max_j F_j(w_j) / w'_j ** size_power with sum w_j = R and m_j <= w_j <= M_j. From `cluster_from` connections on,
    functions are pooled in clusters.

    The paper leaves open what a splitter needs that is blocked nearly all of the time:

    - r_j sums to at most 1 over the connections, because one thread waits for one connection at a time. It tells which
      connection is waited for, not how bad that is. So F takes r_j / pace (rows done in a feeder-second), times the
      best pace known: the blocking rate if the same work had been done at full speed. At full speed this is r_j.
    - By drafting (§4.2), a connection that did not block while another one held up the region (pace below Pace.HELD of
      the best) has shown nothing: such samples are left out.
    - Equal workers and a class of slow workers look the same until every connection has been tried with more weight:
      equal workers have then all blocked, the faster class has not. Until then (`Pace.learning`) a connection that is
      waited for may lose all its weight, and delta is almost 0. Afterwards delta draws quiet connections together, so
      that a connection that lost its share as draft leader, or whose worker is no longer slow, gets it back; more
      weakly, the more often the pace falls (`Pace.calm`). And no weight falls by more than the region's slowness and
      `fall` explain: m_j = w'_j (1 - fall) min(1, pace / best).
    - M_j = w'_j (1 + reach_j), at least one more; reach_j starts at `rise` and doubles with each rise in a row. A share
      far below the even one rises only after its buffers have had time to fill.
    - A small share rises by large steps, each of them a risk. F_j / w'_j ** size_power makes the region more patient
      with smaller shares. It also keeps a slow worker, which blocks rarely and for long, from being traded against fast
      ones, which block often and do no harm by it.
    - Weights that follow the blocking wander off even from the best possible split: when the pace falls below that of
      earlier weights, those are restored (`Recall`).

    Workers that join start with an even share and no function; those that leave are forgotten; the rest keep theirs.
    """

    name: ClassVar[str] = "blocking-rate"
    splitting: ClassVar[Splitting] = "block"

    explore: bool = True
    decay: float = 0.1
    """The share of F beyond the present weight that is taken off with each sample (§5.4)."""
    memory: float = 4.0
    """So many samples at one weight are averaged; after that the newest counts 1/memory."""
    delta: float = 1e-3
    """F rises at least this much from one weight to the next, as a rate: the pull towards an even split."""
    rise: float = 0.1
    """The first and least reach: the share by which a weight may rise in one step."""
    fall: float = 0.1
    """The share by which a weight may fall in one step once the workers are known."""
    size_power: float = 0.6
    """How much more patient the region is with small shares; 0 for not at all."""
    cluster_from: int = 32
    """The number of connections from which on functions are pooled in clusters."""

    def __post_init__(self) -> None:
        limits = {
            "decay": (0, 1),
            "memory": (1, 1e6),
            "delta": (0, 1),
            "rise": (0, 1),
            "fall": (0, 1),
            "size_power": (0, 1),
            "cluster_from": (2, 1e6),
        }
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise InvalidArgument(f"{name} is {value}: give a number from {least} to {most:g}")
        self._links: dict[Key, _Link] = {}
        self._pace = Pace()
        self._recall = Recall()
        self._fed_s = self._done = self._usual_s = 0.0

    def decide(self, snapshot: Snapshot) -> list[SetWeights]:
        """New weights, or none if nothing was fed, nothing blocked, or nothing would change."""
        if not snapshot.connections:
            return []
        if {_key(c) for c in snapshot.connections} != set(self._links):
            return self._meet(snapshot)
        elapsed = snapshot.feeding_s - self._fed_s
        if elapsed <= 0.0 or elapsed < SHORT * self._usual_s:
            return []
        self._usual_s = elapsed if not self._usual_s else self._usual_s + (elapsed - self._usual_s) / 4
        blocked = self._sample(snapshot, elapsed)
        if self._pace.best <= 0.0:
            return []  # no row has been processed yet: there is no speed to compare with
        self._learn(blocked)
        if blocked < Pace.IDLE:
            return []
        groups = self._groups()
        weights = self._proven() or self._choose(groups)
        self._stretch(weights)
        if weights == [link.weight for link in self._links.values()]:
            return []
        for link, weight in zip(self._links.values(), weights, strict=True):
            link.weight = weight
        shares = {worker: link.weight for (worker, _), link in self._links.items()}
        return [SetWeights(snapshot.region, shares, self._reason(blocked), self._detail(groups))]

    def _meet(self, snapshot: Snapshot) -> list[SetWeights]:
        """Workers joined or left: forget those that left, give new ones an even share, keep the others' proportions."""
        before = self._links
        newcomer = RESOLUTION / len(snapshot.connections)
        self._links = {_key(c): before.get(_key(c)) or _Link(reach=self.rise) for c in snapshot.connections}
        here = {c.worker: c.weight for c in snapshot.connections}
        known = sum(link.weight for key, link in self._links.items() if key in before)
        scale = (RESOLUTION - newcomer * sum(key not in before for key in self._links)) / known if known else 0.0
        shares = [link.weight * scale if key in before else newcomer for key, link in self._links.items()]
        whole = not before and sum(here.values()) == RESOLUTION
        weights = (
            list(here.values()) if whole else proportional(shares if any(shares) else [1.0] * len(here), RESOLUTION)
        )
        for link, weight in zip(self._links.values(), weights, strict=True):
            link.weight = weight
        self._recall.reset()
        self._pace.resize(len(before), len(self._links), set(self._links))
        self._rebase(snapshot)
        new = dict(zip(here, weights, strict=True))
        return [] if new == here else [SetWeights(snapshot.region, new, "workers joined or left", self._detail(None))]

    def _rebase(self, snapshot: Snapshot) -> None:
        """Let the next sample begin at this snapshot."""
        self._fed_s = snapshot.feeding_s
        self._done = float(sum(c.rows_done for c in snapshot.connections))
        for connection in snapshot.connections:
            link = self._links[_key(connection)]
            link.blocked_s = connection.blocked_s

    def _sample(self, snapshot: Snapshot, elapsed: float) -> float:
        """Set the links' blocking rates since the last sample; returns their sum."""
        done = sum(c.rows_done for c in snapshot.connections) - self._done
        counted = any(c.rows_sent or c.rows_done for c in snapshot.connections)
        for connection in snapshot.connections:
            link = self._links[_key(connection)]
            link.weight = connection.weight
            link.rate = min(1.0, max(0.0, connection.blocked_s - link.blocked_s) / elapsed)
        self._rebase(snapshot)
        rates = {key: link.rate for key, link in self._links.items()}
        heaviest = max(link.weight for link in self._links.values())
        heavy = {key for key, link in self._links.items() if link.weight >= Pace.HEAVY * heaviest}
        self._pace.update(done / elapsed if counted else 1.0, rates, heavy)
        return sum(rates.values())

    def _learn(self, blocked: float) -> None:
        """Take the rates into the functions, smoothed; then decay for exploration, and age (§5.1, §5.4)."""
        for link in self._links.values():
            function = link.function.age(AGE) if self.explore else link.function
            if not (self._pace.held and link.rate < BYSTANDER * blocked):
                function = function.observe(link.weight, link.rate / self._pace.now, self.memory)
            if self.explore and blocked >= Pace.IDLE:
                function = function.decay(link.weight, self.decay)
            link.function = function

    def _proven(self) -> list[int] | None:
        """The weights to keep or to restore, because the region runs or ran best with them; None to choose by F."""
        if self._pace.learning or self._pace.held:  # some worker is too slow for its share: F tells which
            self._recall.reset()
            return None
        return self._recall.keep([link.weight for link in self._links.values()], self._pace.now)

    def _groups(self) -> list[list[int]] | None:
        """Clusters of similar connections, by place; None if there are too few connections for that (§5.3)."""
        if len(self._links) < self.cluster_from:
            return None
        delta = DELTA_LEARNING / self._pace.best
        curves = [link.function.seen(delta) * self._pace.best for link in self._links.values()]
        return clusters(traits(curves, DELTA_LEARNING))

    def _choose(self, groups: list[list[int]] | None) -> list[int]:
        """The weights that minimise the largest F within the bounds."""
        links = list(self._links.values())
        current = [link.weight for link in links]
        lower = [self._least(link) for link in links]
        upper = [min(RESOLUTION, self._most(link)) for link in links]
        if sum(lower) > RESOLUTION or sum(upper) < RESOLUTION:  # the present weights do not sum up: ignore the bounds
            lower, upper = [0] * len(links), [RESOLUTION] * len(links)
        curves = self._curves(groups or [[place] for place in range(len(links))])
        return allocate(curves, lower, upper, RESOLUTION, current)

    def _curves(self, groups: list[list[int]]) -> list[Vector]:
        """For each connection the function of its group, made from all data of the group.

        Among connections that share a strictly increasing function, Fox's greedy gives the next unit to the one with
        the least weight: so it solves the problem over clusters and divides each cluster's share evenly in one go.
        """
        links = list(self._links.values())
        delta = (DELTA_LEARNING if self._pace.learning else self.delta * self._pace.calm) / self._pace.best
        curves: dict[int, Vector] = {}
        for group in groups:
            size = max(1.0, sum(links[place].weight for place in group) / len(group))
            values = pool(links[place].function for place in group).values(delta) / size**self.size_power
            curves |= dict.fromkeys(group, values)
        return [curves[place] for place in range(len(links))]

    def _least(self, link: _Link) -> int:
        """m_j. While learning, a connection that the splitter mostly waits for may lose all its weight."""
        if self._pace.learning:
            blamed = link.rate >= BYSTANDER * self._pace.blocked
            return 0 if blamed else floor(link.weight * (1.0 - self.fall))
        return floor(link.weight * (1.0 - self.fall) * min(1.0, self._pace.now / self._pace.best))

    def _most(self, link: _Link) -> int:
        """M_j. A small share rises only from a weight it has had for SETTLED samples: buffers take time to fill."""
        if 0 < link.weight < SMALL * RESOLUTION / len(self._links) and link.function.data(link.weight) < SETTLED:
            return link.weight
        return link.weight + max(1, ceil(link.weight * link.reach))

    def _stretch(self, weights: list[int]) -> None:
        """Adapt each reach: a weight that rises again may rise further next time, one that falls less far.

        If the pace fell, weights of at least an even share start again with the first reach.
        """
        even = RESOLUTION / len(weights)
        for link, weight in zip(self._links.values(), weights, strict=True):
            chastened = self._pace.fell and link.weight >= even
            if chastened:
                link.reach = self.rise
            if weight > link.weight:
                if link.rose and not chastened:
                    link.reach = min(MOST_REACH, link.reach * 2)
                link.rose = True
            elif weight < link.weight:
                link.reach = max(self.rise, link.reach / 2)
                link.rose = False

    def _reason(self, blocked: float) -> str:
        (worker, _), link = max(self._links.items(), key=lambda item: item[1].rate)
        return f"blocked {blocked:.2f} of the time, {link.rate:.2f} on worker {worker}"

    def _detail(self, groups: list[list[int]] | None) -> dict[str, Any]:
        """Rates, pace, functions and clusters for the event log: enough to draw Figures 8, 11 and 12."""
        workers = [str(worker) for worker, _ in self._links]
        links = list(self._links.values())
        detail: dict[str, Any] = {
            "rates": {worker: round(link.rate, 5) for worker, link in zip(workers, links, strict=True)},
            "pace": round(self._pace.now, 3),
            "best_pace": round(self._pace.best, 3),
            "learning": self._pace.learning,
            "functions": {
                worker: [[weight, round(height * self._pace.best, 5)] for weight, height in link.function.knots()]
                for worker, link in zip(workers, links, strict=True)
            },
        }
        if groups is not None:
            numbers = {place: number for number, group in enumerate(groups) for place in group}
            detail["clusters"] = {workers[place]: numbers[place] for place in range(len(workers))}
        return detail


def _key(connection: Connection) -> Key:
    return connection.worker, connection.incarnation
