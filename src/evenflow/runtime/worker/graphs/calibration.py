"""Measures how fast a worker is, by a standard piece of work while a graph is fed (potential-driven §2.2.1).

Only the ratios between workers matter. A worker that shares its core takes longer for it, as for any work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from statistics import median

import xxhash

from evenflow.runtime.worker.rows.emulation import EmulatedSpeed

EVERY_S = 0.5
"""Seconds between two measurements."""
KEPT = 3
"""Measurements of which the median counts."""
WORK = bytes(1 << 20)
TIMES = 8
"""The work: so many hashes of a megabyte, about a millisecond."""
EMULATED_US = 1000.0
"""The work on an emulated worker without slowdown."""


class Calibration:
    """Measures one worker."""

    def __init__(self, pace: EmulatedSpeed | None, clock: Callable[[], float]) -> None:
        self._pace = pace
        self._clock = clock
        self._measured: deque[float] = deque(maxlen=KEPT)
        self._at = -EVERY_S

    def standard_us(self, now: float) -> float:
        """Microseconds that the standard work takes at present."""
        if now - self._at >= EVERY_S:
            self._at = now
            self._measured.append(self._measure())
        return median(self._measured) if self._measured else 0.0

    def _measure(self) -> float:
        if self._pace is not None:
            return EMULATED_US * self._pace.factor()
        began = self._clock()
        for _ in range(TIMES):
            xxhash.xxh3_64_intdigest(WORK)
        return (self._clock() - began) * 1e6
