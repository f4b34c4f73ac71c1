"""How fast a region runs against the best it has run, and whether every heavily loaded connection has been heard."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import ClassVar

Key = tuple[int, int]


@dataclass
class Pace:
    """Rows done a feeder-second, and what may be concluded from it.

    A splitter with a single thread blames one connection at a time (drafting, ordered-regions §4.2). With N equal
    workers it is some draft leader; with a slow class it is one of that class. The two differ only in this: weight
    moved from the blamed to the quiet soon makes the quiet block in the first case and not in the second. `learning`
    lasts until no connection is left that carries much and has never blocked, and starts again when the region has
    become much slower.
    """

    IDLE: ClassVar[float] = 0.01
    """Blocked for less than this share of the time, the splitter is not held up by anybody: nothing to learn (§3.1)."""
    HELD: ClassVar[float] = 0.8
    """Below this share of the best pace, somebody holds the region up, and silence of the others says nothing."""
    AGAIN: ClassVar[float] = 0.5
    """Below this share of the best pace, what was learned about who is fast is no longer true."""
    HEAVY: ClassVar[float] = 0.9
    """Carrying at least this share of the largest weight is carrying much."""
    TRACE: ClassVar[float] = 0.005
    """Having this share of all blocking is having blocked."""
    WAITING: ClassVar[float] = 0.5
    """A splitter blocked for less than this share of its time is slow for reasons of its own."""
    FORGET: ClassVar[float] = 0.005
    FORGET_FAST: ClassVar[float] = 0.03
    """Of the best pace, each sample: slowly while it is reached now and then, faster while it is not."""
    FELL: ClassVar[float] = 0.97
    """Below this share of the last pace, the pace fell."""
    RESTLESS: ClassVar[float] = 0.02
    """The least that calm comes to."""
    LEAST: ClassVar[float] = 1e-3
    """Of the best pace: what a sample in which nothing was done counts as."""

    now: float = 0.0
    blocked: float = 0.0
    best: float = 0.0
    held: bool = False
    fell: bool = False
    calm: float = 1.0
    """How far tidying up may go, which must cost nothing: halved when the pace falls, back to 1 by a tenth a sample."""
    learning: bool = True
    _armed: bool = True
    """Whether the best pace has been reached since the last learning: a slowdown is news only then."""
    _heard: set[Key] = field(default_factory=set)

    def update(self, pace: float, rates: Mapping[Key, float], heavy: Set[Key]) -> None:
        """Take one sample: its pace, every connection's blocking rate, and which connections carry much."""
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
        """The number of workers changed: fewer cannot be expected to be as fast."""
        if before:
            self.best *= min(1.0, after / before)
        self._heard &= keys
