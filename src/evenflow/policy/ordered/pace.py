"""How fast a region runs compared with its best, and whether every heavily loaded connection has blocked once."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import ClassVar

Key = tuple[int, int]


@dataclass
class Pace:
    """The pace is rows done in a feeder-second; this is what follows from it.

    A splitter with a single thread waits for one connection at a time (drafting, ordered-regions §4.2). With N equal
    workers it is some draft leader; with a slow class it is one of that class. The two cases differ only in this: when
    weight moves from the connection that is waited for to quiet ones, those soon block in the first case, and do not in
    the second. `learning` lasts until every connection that carries much has blocked, and starts again when the region
    has become much slower.
    """

    IDLE: ClassVar[float] = 0.01
    """A splitter blocked for less than this share of the time is not held up: there is nothing to learn (§3.1)."""
    HELD: ClassVar[float] = 0.8
    """Below this share of the best pace, some worker holds up the region, and quiet connections tell nothing."""
    AGAIN: ClassVar[float] = 0.5
    """Below this share of the best pace, what was learned about fast workers no longer holds."""
    HEAVY: ClassVar[float] = 0.9
    """A connection carries much if it has at least this share of the largest weight."""
    TRACE: ClassVar[float] = 0.005
    """A connection has blocked if it had at least this share of all blocking."""
    WAITING: ClassVar[float] = 0.5
    """A splitter blocked for less than this share of its time is slow for reasons of its own."""
    FORGET: ClassVar[float] = 0.005
    """The share of the best pace that is taken off with each sample, while it is reached now and then."""
    FORGET_FAST: ClassVar[float] = 0.03
    """The share of the best pace that is taken off with each sample, while it is not reached."""
    FELL: ClassVar[float] = 0.97
    """The pace fell if it is below this share of the last pace."""
    RESTLESS: ClassVar[float] = 0.02
    """The least value of `calm`."""
    LEAST: ClassVar[float] = 1e-3
    """A sample in which no row was done counts as this share of the best pace."""

    now: float = 0.0
    blocked: float = 0.0
    best: float = 0.0
    held: bool = False
    fell: bool = False
    calm: float = 1.0
    """A factor for delta, the pull towards even weights: halved when the pace falls, then up to 1, a tenth a sample."""
    learning: bool = True
    _armed: bool = True
    """Whether the best pace has been reached since the last learning: only then is a slowdown news."""
    _heard: set[Key] = field(default_factory=set)
    """The connections that have blocked since learning began."""

    def update(self, pace: float, rates: Mapping[Key, float], heavy: Set[Key]) -> None:
        """Take in one sample: its pace, the blocking rate of every connection, and the connections that carry much."""
        self.blocked = blocked = sum(rates.values())
        self.best = max(pace, self.best * (1.0 - (self.FORGET if self._armed else self.FORGET_FAST)))
        pace = max(pace, self.best * self.LEAST)
        self.fell = pace < self.FELL * self.now
        self.now = pace
        self.calm = max(self.RESTLESS, self.calm / 2) if self.fell else min(1.0, self.calm * 1.1)
        self.held = blocked > self.WAITING and pace < self.HELD * self.best
        if blocked < self.IDLE:
            return
        self._armed = self._armed or pace >= self.HELD * self.best
        if not self.learning and self._armed and blocked > self.WAITING and pace < self.AGAIN * self.best:
            self._heard.clear()
        self._heard |= {key for key, rate in rates.items() if rate > self.TRACE * blocked}
        was_learning, self.learning = self.learning, bool(heavy - self._heard)
        if was_learning and not self.learning:
            self._armed = False
            self.calm = 1.0

    def resize(self, before: int, after: int, keys: Set[Key]) -> None:
        """The number of workers changed from `before` to `after`: with fewer, the best pace is lower."""
        if before:
            self.best *= min(1.0, after / before)
        self._heard &= keys
