"""Points at which faults strike, in any process of a run.

All processes share the run's folder: it has the schedule (`schedule.json`) and one file for each fault that has struck
(`done/`). Each process counts how often it comes to a point; in the first that reaches a fault's count, it strikes.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from evenflow_lab.torture.schedule import CLOSED, Fault, Schedule, from_json

REAL_TIME = time.time
"""The wall clock without the steps of a schedule."""
SCHEDULE = "schedule.json"
DRIVER = "driver.pid"
DONE = "done"
BEGUN = "begun"
STATE = "state"
SPARK = "spark"
"""Spark's own checkpoint of the first query."""
ENDED = "ended.json"
RUN = "EVENFLOW_TORTURE_RUN"
"""The variable of the environment that has the directory of all runs."""
WORK = "work.txt"
"""A file beside the folders of the runs: the directories in which executors have left files."""


class Hooks:
    """The faults of one run, as one process sees them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.schedule: Schedule = from_json((folder / SCHEDULE).read_text())
        self.random = random.Random(f"{self.schedule.seed} {os.getpid()}")
        """Shared by all stores that this process opens: a store that is opened again fails in another way."""
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def reach(self, point: str, do: Callable[[int, Fault], None] | None = None) -> None:
        """Note that this process has come to a point; faults that are due there strike, by `do` or as a kill."""
        with self._lock:
            self._counts[point] += 1
            count = self._counts[point]
        for number, fault in enumerate(self.schedule.faults):
            if fault.point == point and count >= fault.nth and fault.kind not in CLOSED and not self.done(number):
                if do is not None:
                    do(number, fault)
                elif self.claim(number):
                    kill(self.folder, fault.victim)

    @property
    def begun(self) -> int:
        """The number of drivers that have begun this run."""
        try:
            return len((self.folder / BEGUN).read_text().splitlines())
        except FileNotFoundError:
            return 0

    @property
    def life(self) -> int:
        """The number of the present driver, from 0 on."""
        return max(0, self.begun - 1)

    def done(self, number: int) -> bool:
        """Whether a fault has struck."""
        return (self.folder / DONE / str(number)).exists()

    def since(self, number: int) -> float:
        """Seconds since a fault has struck; infinite if it has not."""
        try:
            return REAL_TIME() - (self.folder / DONE / str(number)).stat().st_mtime
        except FileNotFoundError:
            return float("inf")

    @property
    def spill_full(self) -> bool:
        """Whether the local disk for spilled state is full now."""
        return self._full(spill=True)

    @property
    def store_full(self) -> bool:
        """Whether the store is full now."""
        return self._full(spill=False)

    def _full(self, spill: bool) -> bool:
        faults = enumerate(self.schedule.faults)
        full = [number for number, fault in faults if fault.kind == "full" and (fault.point == "spill") == spill]
        return any(self.since(number) < self.schedule.faults[number].seconds for number in full)

    def claim(self, number: int) -> bool:
        """Mark a fault as struck by this process; False if another process was faster."""
        try:
            with (self.folder / DONE / str(number)).open("x") as file:
                file.write(f"{os.getpid()}\n")
            return True
        except FileExistsError:
            return False


@lru_cache(maxsize=4)
def hooks_of(folder: Path) -> Hooks:
    """The hooks of a run; those of the last few runs are cached, because Spark reuses its processes."""
    return Hooks(folder)


def kill(folder: Path, victim: str) -> None:
    """Kill this process, or the driver's Python and Java processes without their children."""
    if victim == "driver":
        with suppress(ProcessLookupError):
            os.killpg(int((folder / DRIVER).read_text()), signal.SIGKILL)
    else:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait(5)  # a signal takes a moment
