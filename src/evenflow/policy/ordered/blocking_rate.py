"""Blocking rate: full connections show what their workers can do, the others are tried with more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar

import numpy as np

from evenflow.model import RESOLUTION, SetWeights, Snapshot
from evenflow.model.given import check_flag, check_numbers, check_wholes
from evenflow.policy.ordered.allocation import proportional
from evenflow.policy.ordered.balance import Balance
from evenflow.policy.ordered.clustering import clusters
from evenflow.policy.ordered.sampling import (
    IDLE,
    Key,
    Measured,
    Sampler,
    blocking_reason,
    clusters_by_worker,
    fullness,
    key_of,
    meet,
    rows_done,
)

FULL = 0.8
"""A connection is full if it has this share of the frames under way that the fullest one has."""
SURE = 0.8
"""Of the speed that follows from the time frames were under way, so much is taken for granted."""
NOISE = 4.0
"""A speed measured over a time for so many frames counts as much as what was known before."""
SETTLED = 16
"""Frames after which a connection that was given more would have filled up, if that was too much."""
TESTED = 0.95
"""Weights have been tested if the region does this share of what they were made for."""
CHANGED = 0.8
"""If the region does less than this share of what its weights were made for, the newest sample makes a decision."""
LOST = 0.5
"""If it does less than this share, workers whose connections have room are doubted as well."""
MOST_REACH = 1.0
"""The largest reach: no more than twice as much at once."""
PROBE = 1.05
"""A worker with weight 0 is tried as if it could do this many units of weight."""
STILL = 0.02
"""Weights stay if none would change by more than this share."""
ALIKE = 0.2
"""Speeds whose logarithms are no further apart are taken for equal: a factor of 1.22."""


@dataclass(slots=True)
class _Link:
    """What is known of the connection to one incarnation of a worker."""

    weight: int = 0
    speed: float = 0.0
    """Rows a second that the worker is believed to do."""
    known: bool = False
    """Whether it has been full: then its speed was measured."""
    ours: float = 1.0
    """The share of its worker's time that this region has when it is full; other regions have the rest."""
    full: float = 0.0
    """Its frames under way, as a share of the fullest connection's."""
    reach: float = MOST_REACH
    """The share by which more is tried next."""
    patience: int = 1
    """Decisions between two tries."""
    rest: int = 0
    """Decisions until the next try."""
    raised: bool = False
    """Whether more is being tried."""
    frames: int = 0
    """Frames done since then."""
    frame_rows: float = 1.0
    """Rows in a frame, in the mean."""

    def measure(self, measured: Measured, rise: float, patience: int) -> None:
        """It is full, so what it did is what it can do; if more was tried, that failed."""
        if measured.frames:
            self.frame_rows = measured.speed * measured.seconds / measured.frames
        expected = self.speed * measured.seconds / self.frame_rows
        self.speed += (measured.speed - self.speed) * (expected / (expected + NOISE) if self.known else 1.0)
        if self.raised:
            self.patience = min(patience, self.patience * 2)
        self.known, self.raised, self.reach, self.rest = True, False, rise, self.patience
        if measured.row_s:
            self.ours = min(1.0, self.speed * measured.row_s)

    def share(self, change: float) -> None:
        """It has room, so the region's share cannot be seen: it changed as on full ones, for others came or left."""
        ours = min(1.0, self.ours * change)
        self.speed *= ours / self.ours
        self.ours = ours

    def bound(self, measured: Measured) -> None:
        """It has room: it can do at least speed / (share of the time with frames under way), of which SURE is taken.

        That is with what others leave now. They may want their share of the worker again, so only ours is counted on.
        """
        if 0.0 < measured.under_way < 1.0:
            sure = min(SURE * self.ours * measured.speed / measured.under_way, 2.0 * max(self.speed, measured.speed))
            if sure > self.speed:
                self.speed, self.rest, self.patience = sure, 0, 1

    def doubt(self, measured: Measured) -> None:
        """It has room, but the region lost so much that its worker may be slower too, and not show it.

        Then it can do no more than the time of its frames under way says. Where they wait for each other that is too
        little, which it shows with the next sample.
        """
        if measured.under_way > 0.0 and measured.frames:
            self.speed = min(self.speed, self.ours * measured.speed / measured.under_way)

    def try_more(self, measured: Measured) -> None:
        """It has room with tested weights: try more of it, further each time that this succeeds."""
        self.frames += measured.frames
        if self.raised:
            if self.known and self.frames < SETTLED:
                return
            self.raised, self.patience, self.reach = False, 1, min(MOST_REACH, self.reach * 2)
        self.rest -= 1
        if self.rest > 0:
            return
        more = measured.speed * (1.0 + self.reach)
        if self.full > 0.0:
            more = min(more, measured.speed / self.full)
        if more > self.speed:
            self.speed, self.raised, self.frames = more, True, 0
        else:
            self.reach = min(MOST_REACH, self.reach * 2)


@dataclass
class BlockingRate(Balance):
    """Shares by the speed c_j of each worker, as the connections show it while the splitter is blocked.

    Blocking says that some worker holds up the region. It does not say which ones: by drafting (ordered-regions §4.2)
    one of a slow class bears all of it, and a fast worker that is sent a burst blocks too. All that are at their limit
    have full connections, whether the splitter waits for them or not (§3.1: what counts is how long a connection can
    take no more). So, with every decision, for the frames under way of each connection in the mean since the last one:

    - A full connection has its worker busy all the time: c_j is what it did (§3.2: its service rate). All workers of a
      slow class are found at once, and how slow they are.
    - One with room for more has a worker of unknown speed: c_j is at least what it did over the share of the time in
      which frames were under way. Beyond that, more is tried: `rise` at first, then twice as much each time, up to
      double. If the connection gets full by it, c_j is measured, and the next try waits twice as long, at most
      `patience` decisions. Nothing is tried while the region does not do what its weights were made for.
    - If the region does much less than its weights were made for, speeds changed. That is decided on at once, by the
      newest sample alone. If it does less than half, many may have changed, and the slowest hides how slow the others
      are: c_j of those with room is then at most what they did over the frames under way (Little's law: one frame at a
      time is under way for as long as it is served). Found one after the other they would take a decision each.
    - Other regions may use the same workers. A full connection shows which share of its worker's time they leave; of
      what a worker seems able to do while it has room, only that share is counted on: else all regions would move to
      the same worker, and all back. If the share changes on full connections, others came or left, and what is known
      of the rest changes likewise.
    - Workers whose share is less than a unit have weight 0. They are tried with one, and wait likewise.
    - From `cluster_from` connections on, speeds within a factor of 1.22 are averaged in clusters (§5.3).

    Weights minimise max_j F_j(w_j) with F_j(w) = w / c_j, the time that j takes for its share (§5.2). The first
    splits are learned by doubling, so a worker 100 times faster than others is known after seven decisions.

    `explore=False` tries nothing with workers that have been measured, as LB-static does not: a slow one that recovers
    keeps its share. `every` samples make a decision (§5). What was measured fades with new measurements in any case.

    Workers that join start with an even share and unknown; those that leave are forgotten.
    """

    name: ClassVar[str] = "blocking-rate"

    explore: bool = True
    every: int = 2
    """Samples between two decisions."""
    rise: float = 0.02
    """The first step of trying more with a worker whose speed has been measured."""
    patience: int = 32
    """The most decisions between two tries that fail."""
    cluster_from: int = 8
    """The number of connections from which on speeds are averaged in clusters."""

    def __post_init__(self) -> None:
        check_flag("explore", self.explore)
        check_numbers(self, rise=(0, 1))
        check_wholes(self, every=(1, 10**6), patience=(1, 10**6), cluster_from=(2, 10**6))
        self._links: dict[Key, _Link] = {}
        self._sampler = Sampler(self.every)
        self._rest, self._patience = 0, 4

    def decide(self, snapshot: Snapshot) -> list[SetWeights]:
        """New weights, or none between decisions, or if nothing was fed, nothing blocked, or nothing would change."""
        if not snapshot.connections:
            return []
        if {key_of(c) for c in snapshot.connections} != set(self._links):
            self._sampler.rebase(snapshot)
            self._links, moves = meet(self._links, snapshot, _Link)
            return moves
        measured = self._sampler.take(snapshot, self._changed)
        if measured is None:
            return []
        here = [m.weight for m in measured.values()]
        for link, weight in zip(self._links.values(), here, strict=True):
            link.weight = weight
        if sum(m.rate for m in measured.values()) < IDLE:
            return []
        self._learn(measured)
        if any(link.full >= FULL and link.weight and not link.known for link in self._links.values()):
            return []
        groups = self._pool()
        speeds = [link.speed for link in self._links.values()]
        if not any(speeds):
            return []
        weights = proportional(speeds, RESOLUTION)
        if sum(here) == RESOLUTION and all(abs(w - old) <= STILL * old for w, old in zip(weights, here, strict=True)):
            return []
        for link, weight in zip(self._links.values(), weights, strict=True):
            link.weight = weight
        shares = {worker: link.weight for (worker, _), link in self._links.items()}
        return [SetWeights(snapshot.region, shares, blocking_reason(measured), self._detail(measured, groups))]

    def _changed(self, measured: Mapping[Key, Measured]) -> bool:
        """Whether workers became slower: then the newest sample is decided on at once, and what was before is old.

        They did not if full connections show that other regions came: rows take their workers as long as before.
        """
        fill = fullness(measured)
        shown = [key for key, link in self._links.items() if fill[key] >= FULL and link.known and measured[key].row_s]
        now = sum(measured[key].speed * measured[key].row_s for key in shown)
        left = min(1.0, now / sum(self._links[key].ours for key in shown)) if shown else 1.0
        return rows_done(measured) < CHANGED * self._believed * left

    @property
    def _believed(self) -> float:
        return sum(link.speed for link in self._links.values())

    def _learn(self, measured: Mapping[Key, Measured]) -> None:
        """Take in what the connections showed while the splitter was held up."""
        fill = fullness(measured)
        believed, done = self._believed, rows_done(measured)
        tested = done >= TESTED * believed
        for key, link in self._links.items():
            link.full = fill[key]
        full = {key: link for key, link in self._links.items() if link.full >= FULL and link.weight}
        before = {key: link.ours for key, link in full.items() if link.known}
        for key, link in full.items():
            if link.known or measured[key].frames:  # else its first frame takes longer than this: wait for it
                link.measure(measured[key], self.rise, self.patience)
        change = sum(full[key].ours for key in before) / sum(before.values()) if before else 1.0
        lost = done < LOST * believed * change
        for key, link in self._links.items():
            if key in full:
                continue
            if link.known:
                link.share(change)
            if lost and link.known and self.explore:
                link.doubt(measured[key])
            link.speed = max(link.speed, measured[key].speed)
            if self.explore or not link.known:
                link.bound(measured[key])
                if tested and link.weight:
                    link.try_more(measured[key])
        if self.explore and tested and believed:
            self._probe(PROBE * believed / RESOLUTION)

    def _probe(self, speed: float) -> None:
        """Try workers that have no weight with one unit, all at once: a slow one holds up the region as much as all."""
        idle = [link for link in self._links.values() if not link.weight]
        self._rest -= 1
        if idle and self._rest <= 0:
            self._patience = min(self.patience, 2 * self._patience)
            self._rest = self._patience
            for link in idle:
                link.speed, link.raised, link.frames = max(link.speed, speed), True, 0

    def _pool(self) -> list[list[int]] | None:
        """Give measured workers of a cluster one speed, if there are enough of them; returns the clusters, by place."""
        links = list(self._links.values())
        if len(links) < self.cluster_from:
            return None
        groups = clusters(np.array([[log(max(link.speed, 1e-9))] for link in links]), ALIKE)
        for group in groups:
            alike = [links[place] for place in group if links[place].known]
            mean = sum(link.speed for link in alike) / max(1, len(alike))
            for link in alike:
                link.speed = mean
        return groups

    def _detail(self, measured: Mapping[Key, Measured], groups: Sequence[Sequence[int]] | None) -> dict[str, Any]:
        """Rates, fullness, speeds and clusters for the event log."""
        detail: dict[str, Any] = {
            "rates": {str(key[0]): round(m.rate, 5) for key, m in measured.items()},
            "full": {str(key[0]): round(link.full, 3) for key, link in self._links.items()},
            "speeds": {str(key[0]): round(link.speed, 3) for key, link in self._links.items()},
        }
        if groups is not None:
            detail["clusters"] = clusters_by_worker(self._links, groups)
        return detail
