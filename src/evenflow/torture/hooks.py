"""Points at which faults strike, in whatever process they are reached.

A run's folder tells every process what the schedule is (`schedule.json`) and what of it is done (`done/`, one file a
fault). A process counts how often it comes to a point; whoever is first to come there often enough, strikes.
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

from evenflow.torture.schedule import DAMAGES, Fault, Schedule, from_json

SCHEDULE = "schedule.json"
DRIVER = "driver.pid"
DONE = "done"
BEGUN = "begun"
STATE = "state"
ENDED = "ended.json"
BUCKET = "bucket.txt"
"""Beside the folders of the runs: where the bucket is, if there is one."""
WORK = "work.txt"
"""Beside the folders of the runs: where executors have left something."""


class Hooks:
    """What one process knows of one run's faults."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.schedule: Schedule = from_json((folder / SCHEDULE).read_text())
        self.random = random.Random(f"{self.schedule.seed} {os.getpid()}")
        """For all stores that this process opens: one that is opened again must not fail just as the one before."""
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def reach(self, point: str, do: Callable[[int, Fault], None] | None = None) -> None:
        """Let what is due at a point happen; this process has come there."""
        with self._lock:
            self._counts[point] += 1
            count = self._counts[point]
        for number, fault in enumerate(self.schedule.faults):
            if fault.point == point and count >= fault.nth and fault.kind not in DAMAGES and not self.done(number):
                if do is not None:
                    do(number, fault)
                elif self.claim(number):
                    kill(self.folder, fault.victim)

    @property
    def begun(self) -> int:
        """How many drivers have begun this run."""
        try:
            return len((self.folder / BEGUN).read_text().splitlines())
        except FileNotFoundError:
            return 0

    @property
    def life(self) -> int:
        """The how manieth of them is at work, from 0 on."""
        return max(0, self.begun - 1)

    def done(self, number: int) -> bool:
        """Whether a fault has struck."""
        return (self.folder / DONE / str(number)).exists()

    def since(self, number: int) -> float:
        """How long ago a fault has struck; endless if it has not."""
        try:
            return time.time() - (self.folder / DONE / str(number)).stat().st_mtime
        except FileNotFoundError:
            return float("inf")

    @property
    def spill_full(self) -> bool:
        """Whether there is no space for what does not fit into memory."""
        return self._full(spill=True)

    @property
    def store_full(self) -> bool:
        """Whether there is no space in the store."""
        return self._full(spill=False)

    def _full(self, spill: bool) -> bool:
        faults = enumerate(self.schedule.faults)
        full = [number for number, fault in faults if fault.kind == "full" and (fault.point == "spill") == spill]
        return any(self.since(number) < self.schedule.faults[number].seconds for number in full)

    def claim(self, number: int) -> bool:
        """Make a fault this process's own; False if another was faster."""
        try:
            with (self.folder / DONE / str(number)).open("x") as file:
                file.write(f"{os.getpid()}\n")
            return True
        except FileExistsError:
            return False


@lru_cache(maxsize=4)
def hooks_of(folder: Path) -> Hooks:
    """The hooks of a run; those of the last few stay, since Spark uses its processes again."""
    return Hooks(folder)


def kill(folder: Path, victim: str) -> None:
    """Kill this process, or the driver: Python and Java, without their children."""
    if victim == "driver":
        with suppress(ProcessLookupError):
            os.killpg(int((folder / DRIVER).read_text()), signal.SIGKILL)
    else:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait(5)  # a signal takes a moment
