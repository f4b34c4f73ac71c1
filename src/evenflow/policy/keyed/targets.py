"""Targets of latency (flux §8): what an operator gets that misses its own, and when it gives that back.

Two levers, in this order: a larger weight, which takes service from the other operators on the same workers; and, only
where the user has said so, rows that are dropped. Both go up one level in a round in which the target was missed, as
long as that helps, and down one level after several rounds with room.

Levels do not swing: nothing is raised while p99 falls already; a round has room only if p99 is half the target or less;
and if the target is missed after a level was given back, that level returns at once, and is kept for twice as many
rounds the next time, up to MOST_CALM. So under a steady load there are a few changes in MOST_CALM rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from evenflow.model import Performance
from evenflow.model.qos import Qos

ROUND_S = 1.0
"""Seconds that latencies are counted over, at least."""
ROOM = 0.5
"""There is room if p99 is at most this share of the target."""
HELPED = 0.9
"""A level has helped if p99 is at most this share of what it was before."""
FALLING = 0.95
"""p99 falls if it is at most this share of that of the round before; buckets are 9 % apart."""
CALM, MOST_CALM = 5, 320
"""Rounds with room before a level is given back: at first, and at most."""
FIRST_REST, MOST_REST = 30, 960
"""Rounds until a lever that did not help is tried again: at first, and at most."""
BOOSTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""By level, how many times its own weight an operator has."""
SHARES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
"""By level, the share of rows that is dropped."""


@dataclass(slots=True)
class Lever:
    """One lever. It has helped if p99 fell within `tries` levels; else it goes back to where it helped, and rests."""

    top: int
    tries: int
    level: int = 0
    _useful: int = 0
    """The highest level known to have helped."""
    _before: float = 0.0
    """p99 before the levels above `_useful`."""
    _last: float = 0.0
    """p99 of the round before, if it was missed then."""
    _rest: int = 0
    _next_rest: int = FIRST_REST
    _calm: int = 0
    _kept: int = 0
    """The level before the last one that was given back, to return to if it was needed."""
    _floor: int = 0
    """A level that was needed when it was last given back, so that it is not given back soon again."""
    _patience: int = CALM
    """Rounds with room before `_floor`, or less, is given back."""

    @property
    def spent(self) -> bool:
        """Whether it can do nothing about a target that is missed, for now."""
        return self._rest > 0 or (self.level == self.top and self.level == self._useful)

    def miss(self, p99: float) -> None:
        """The target was missed in this round: go up, or down again if going up did not help."""
        self._calm = 0
        falling, self._last = p99 < FALLING * self._last, p99
        if self.level > self._useful and p99 <= HELPED * self._before:
            self._useful, self._next_rest = self.level, FIRST_REST
        if self._kept > self.level:
            self.level = self._useful = self._floor = self._kept
            self._kept, self._patience = 0, min(MOST_CALM, 2 * self._patience)
        elif self._rest:
            self._rest -= 1
        elif falling:
            return  # what was done last still works off what waits
        elif self.level - self._useful >= self.tries or (self.level == self.top and self.level > self._useful):
            self.level, self._rest = self._useful, self._next_rest
            self._next_rest = min(MOST_REST, 2 * self._next_rest)
        elif self.level < self.top:
            if self.level == self._useful:
                self._before = p99
            self.level += 1

    def meet(self, room: bool) -> None:
        """The target was met in this round: after enough of them with room, go down."""
        self._rest, self._last = max(0, self._rest - 1), 0.0
        self._useful = self.level
        self._calm = self._calm + 1 if room else 0
        if self._calm < (self._patience if self.level <= self._floor else CALM):
            return
        if self.level < self._floor:  # what was needed then is not any more
            self._floor, self._patience = self.level, max(CALM, self._patience // 2)
        self._calm, self._kept = 0, self.level
        self.level = self._useful = max(0, self.level - 1)

    def release(self) -> None:
        """It can have no effect now: give all of it back."""
        self.level = self._useful = self._kept = self._rest = 0


@dataclass(frozen=True, slots=True)
class Adjusted:
    """What an operator gets from now on, and why."""

    boost: float
    shed: float
    p99_ms: float
    why: str


@dataclass(slots=True)
class _Target:
    qos: Qos
    boost: Lever = field(default_factory=lambda: Lever(len(BOOSTS) - 1, 2))
    shed: Lever = field(default_factory=lambda: Lever(len(SHARES) - 1, len(SHARES)))
    """Dropping rows helps only from where fewer come than can be served: it is tried up to its top."""
    since: float | None = None
    seen: Performance = field(default_factory=Performance)
    settling: bool = False
    """Whether rows that leave may have waited under what was before the last change."""

    def adjusted(self, p99: float, contended: bool) -> str:
        """Pull the levers; what was missed or met, for the log."""
        assert self.qos.latency_ms is not None
        if not contended:
            self.boost.release()  # there is nobody to take anything from
        if p99 > self.qos.latency_ms:
            helpless = self.boost.spent or not contended
            if contended:
                self.boost.miss(p99)
            if helpless and self.qos.shed is not None:
                self.shed.miss(p99)
            return "target missed"
        room = p99 <= ROOM * self.qos.latency_ms
        self.shed.meet(True)  # rows are not dropped for the sake of room
        self.boost.meet(room and not self.shed.level)
        return "room" if room else "target met"


class Targets:
    """The targets of all regions, by the names in `qos`; a region without one is left alone."""

    def __init__(self) -> None:
        self._targets: dict[str, _Target] = {}

    def decide(self, time: float, region: str, qos: Qos, told: Performance, contended: bool) -> Adjusted | None:
        """What changes for a region, given all that its feeders have told; None if nothing does.

        `contended`: whether others have rows on the same workers, so that a larger weight could help.
        """
        if qos.latency_ms is None:
            return None
        known = self._targets.setdefault(region, _Target(qos))
        if known.since is None:
            known.since, known.seen = time, told
        took = (told.latencies - known.seen.latencies).summary
        if time - known.since < ROUND_S or took is None:
            return None
        known.since, known.seen = time, told
        if known.settling:
            known.settling = False
            return None
        before = known.boost.level, known.shed.level
        why = known.adjusted(took.p99, contended)
        levels = known.boost.level, known.shed.level
        if levels == before:
            return None
        known.settling = True
        raised = levels > before
        return Adjusted(BOOSTS[levels[0]], SHARES[levels[1]], took.p99, why if raised else f"{why}: taken back")

    def forget(self, region: str) -> None:
        """A region is closed, or has had no rows for long: it begins anew."""
        self._targets.pop(region, None)
