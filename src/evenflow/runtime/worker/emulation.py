"""Sleeping off emulated service time."""

from __future__ import annotations

import time

from evenflow.model.capacity import Emulate

LEAST_SLEEP_S = 0.001
"""Debts below this wait for more: the system's timers are not finer."""
MOST_CREDIT_S = 0.05
"""Oversleeping is paid back by sleeping less, up to this much."""


class Pace:
    """One worker's emulated speed: a debt of service time, slept off as it grows."""

    def __init__(self, emulate: Emulate, worker: int) -> None:
        self._emulate = emulate
        self._worker = worker
        self._zero: float | None = None
        self._debt = 0.0

    def set_clock(self, elapsed: float) -> None:
        """Second `elapsed` of the schedule is now."""
        self._zero = time.perf_counter() - elapsed

    def serve(self, rows: int, spent_s: float) -> float:
        """Spend what `rows` rows cost, of which `spent_s` are spent already; the service time."""
        now = time.perf_counter()
        second = 0.0 if self._zero is None else now - self._zero
        service = rows * self._emulate.row_s(self._worker, second)
        self._debt += service - spent_s
        if self._debt >= LEAST_SLEEP_S:
            time.sleep(self._debt)
            self._debt -= time.perf_counter() - now
        self._debt = max(self._debt, -MOST_CREDIT_S)
        return max(service, spent_s)
