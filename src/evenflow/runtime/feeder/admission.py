"""How many rows a feeder with a target of latency takes in: the rest waits in Spark, where it can still be dropped."""

from __future__ import annotations

SPAN_S = 0.25
"""Seconds over which served rows are counted."""
LEAST = 1000
"""Rows that may wait in any case."""
PART = 0.5
"""The part of the target that rows may wait here; the rest is for the workers."""


class Admission:
    """Bounds the rows that wait in a feeder: no more than are served within a part of the target, if there is one."""

    def __init__(self, target_s: float | None) -> None:
        self._target_s = target_s
        self._since: float | None = None
        self._served = 0
        self._rate = 0.0

    def full(self, now: float, waiting: int, served: int) -> bool:
        """Whether no more rows should be taken in; `served` is how many have been answered so far."""
        if self._target_s is None or waiting <= LEAST:
            return False
        if self._since is None:
            self._since, self._served = now, served
        if now - self._since >= SPAN_S:
            self._rate = max(0, served - self._served) / (now - self._since)
            self._since, self._served = now, served
        return waiting > PART * self._target_s * self._rate
