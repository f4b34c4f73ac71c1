"""How much of something there is a second, by the clock: rows, or seconds of service."""

from __future__ import annotations

from collections import deque

RECENT_S = 5.0
"""What is shown as now is the mean of so many seconds: micro-batches begin and end, and figures that jump tire."""
STEADY_S = 10.0
"""The verdict is about the mean of so many seconds: several micro-batches, or it would change with each."""
SHORTEST_S, LONGEST_S = 1.0, 10.0
"""For how long an amount counts, at least and at most."""
LAG_S = 2.0
"""What is told now of the time before is shown so much later, at least: as long as most entries are about."""
TOGETHER_S = 0.1
"""Amounts that are told within so short a time, and cease to count within as short a time, are one."""
MOST = 256
"""Amounts that are kept; more than those of STEADY_S and LAG_S are only there if the clock goes back."""


class Pace:
    """Amounts of one thing, and how much there was of it a second.

    Amounts are told afterwards, for the span of time that ends then. Each counts evenly over that span, LAG_S later, or
    over as long a time from then on if it is longer: so every amount counts once, and in no time that has been shown.
    Spans that join without gaps join here, too, also where a long one follows a short one, and a rest is a rest.
    """

    def __init__(self, begun: float = float("-inf")) -> None:
        self._counting: deque[tuple[float, float, float]] = deque()
        """From when, until when, and how much; those that are over for STEADY_S are dropped, and all beyond MOST."""
        self._past = 0.0
        """The sum of those that were dropped."""
        self._begun = begun
        """From when on the first amount counts, unless it is said that others were before it."""
        self._end = float("-inf")
        self._step = (float("-inf"), 0.0)

    def add(self, at: float, amount: float, seconds: float) -> None:
        """Add an amount of the last so many seconds."""
        while self._counting and (self._counting[0][1] < at - STEADY_S or len(self._counting) >= MOST):
            self._past += self._counting.popleft()[2]
        lasts = min(LONGEST_S, max(SHORTEST_S, seconds))
        if seconds > lasts:  # the pace is right, at the expense of the sum
            amount *= lasts / seconds
        end = at + max(LAG_S, lasts)
        start, self._end = end - lasts, max(self._end, end)
        if self._begun == float("-inf"):
            self._begun = start
        if self._counting:
            begun, over, other = self._counting[-1]
            if 0 <= start - begun < TOGETHER_S and abs(end - over) < TOGETHER_S:
                start, end, amount = begun, max(end, over), amount + other
                self._counting.pop()
        self._counting.append((start, end, amount))

    def lives(self, now: float) -> bool:
        """Whether anything was told of late."""
        return now < self._end + RECENT_S

    @property
    def counts(self) -> bool:
        """Whether some of what was told is in no step yet."""
        return self._until(float("inf")) > self._step[1]

    def recent(self, now: float, seconds: float = RECENT_S) -> float:
        """The mean a second of the last so many seconds, STEADY_S at most, or since it began, if that is later."""
        span = min(seconds, now - self._begun)
        if not self.lives(now):
            return 0.0
        if span < 1e-3:  # it does not count yet: as it will begin
            first = self._begun + 1e-3
            return sum(each / (end - start) for start, end, each in self._counting if start <= first < end)
        return (self._until(now) - self._until(now - span)) / span

    def step(self, time: float) -> float:
        """The mean a second since the last call, or since it began, if that is later; 0 if the clock went back."""
        before, amount = self._step
        if time <= before:
            return 0.0
        before = max(before, self._begun)
        self._step = time, self._until(time)
        return (self._step[1] - amount) / (time - before) if time - before > 1e-3 else 0.0

    def _until(self, time: float) -> float:
        """What has counted until a time."""
        counted = (each * min(1.0, max(0.0, (time - a) / (b - a))) for a, b, each in self._counting)
        return self._past + sum(counted)
