"""Emulated capacity: a worker sleeps until its rows have taken the time that they are to take."""

from __future__ import annotations

import time
from collections.abc import Callable

from evenflow.model.capacity import Emulate

LEAST_SLEEP_S = 0.001
"""Seconds; smaller debts add up first, since the system's timers are not finer."""
MOST_CREDIT_S = 0.05
"""Seconds slept too long that are paid back by sleeping less, at most."""


class EmulatedSpeed:
    """One worker's emulated speed: a debt of service time, slept off as it grows."""

    def __init__(
        self,
        emulate: Emulate,
        worker: int,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._emulate = emulate
        self._worker = worker
        self._zero: float | None = None
        self._debt = 0.0

    def set_clock(self, elapsed: float) -> None:
        """Set the schedule's clock: `elapsed` seconds of it have passed by now."""
        self._zero = self._clock() - elapsed

    def factor(self) -> float:
        """The worker's slowdown now."""
        return self._emulate.factor(self._worker, 0.0 if self._zero is None else self._clock() - self._zero)

    def serve(self, rows: int, spent_s: float, operator: str = "") -> float:
        """Sleep until `rows` rows have taken their time, of which `spent_s` have passed; returns the service time.

        `operator` is the name of a graph's operator, else empty.
        """
        now = self._clock()
        second = 0.0 if self._zero is None else now - self._zero
        service = rows * self._emulate.row_s(self._worker, second, operator)
        self._debt += service - spent_s
        if self._debt >= LEAST_SLEEP_S:
            self._sleep(self._debt)
            self._debt -= self._clock() - now
        self._debt = max(self._debt, -MOST_CREDIT_S)
        return max(service, spent_s)
