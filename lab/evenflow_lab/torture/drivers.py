"""Driver processes: started ahead of their turn, given jobs one after the other, and nothing is left of them.

Spark takes most of ten seconds to start, and its first query as long again. So a driver is started before it is needed,
runs a small job for practice, and waits.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from evenflow_lab.torture import processes
from evenflow_lab.torture.faults.hooks import RUN
from evenflow_lab.torture.schedule import SessionKind

LEAVE_S = 30.0
"""A process that runs for longer after the end of its driver is left over."""
LOG = "driver-{}.log"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""Options with which Java starts fast."""


class Driver:
    """A process that reads the folders of its jobs from its standard input, one a line, and ends with it."""

    def __init__(self, folder: Path, kind: SessionKind) -> None:
        self.kind = kind
        self.mark = uuid.uuid4().hex
        """Its value of the variable MARK, which the processes that it starts inherit."""
        self.log = folder / LOG.format(self.mark)
        self.temporary = folder / self.mark
        self.temporary.mkdir()
        options = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir='{self.temporary}' {QUICK}"
        environment = os.environ | {
            processes.MARK: self.mark,
            RUN: str(folder),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.temporary),
            "TMPDIR": str(self.temporary),
            "JAVA_TOOL_OPTIONS": options,
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "evenflow_lab.torture.jobs.job", json.dumps(kind)],
                cwd=self.temporary,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def give(self, folder: Path) -> None:
        """Have it run the job in a folder; `alive` tells whether it is there to do so."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{folder}\n".encode())
            self._process.stdin.flush()

    def end(self) -> None:
        """Ask it to end after its last job."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def wake(self) -> None:
        """Continue it, if it is frozen."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGCONT)

    def wait(self, patience_s: float) -> None:
        """Wait for its end, no longer than `patience_s`."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)

    def last_words(self) -> str:
        """The last line that it has written."""
        text = self.log.read_text(errors="replace").strip()
        return text.splitlines()[-1] if text else "(nothing)"

    def remove(self) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)


class Drivers:
    """Owns the drivers of a run: some wait for their turn, one is at work, others are ending."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready: list[Driver] = []
        self._gone: list[tuple[Driver, float]] = []
        """Drivers that have been retired, and when."""
        self.leaked: list[str] = []
        """Processes that outlived their drivers."""

    def take(self, kind: SessionKind) -> Driver:
        """A driver with such a session: one that waits, if there is one."""
        for driver in self._ready:
            if driver.kind == kind and driver.alive:
                self._ready.remove(driver)
                return driver
        return Driver(self._folder, kind)

    def prepare(self, needed: Sequence[SessionKind]) -> None:
        """Start a driver for the first of these sessions, if none waits; end waiting drivers of other sessions."""
        for driver in [driver for driver in self._ready if driver.kind not in needed or not driver.alive]:
            self._ready.remove(driver)
            self.retire(driver)
        if needed and not any(driver.kind == needed[0] for driver in self._ready):
            self._ready.append(Driver(self._folder, needed[0]))
        self._sweep(LEAVE_S)

    def park(self, driver: Driver) -> None:
        """Let a driver wait until a job needs its session again."""
        self._ready.append(driver)

    def retire(self, driver: Driver) -> None:
        """End a driver that has had its turn, or note that it has ended."""
        driver.end()
        self._gone.append((driver, time.monotonic()))

    def close(self) -> None:
        """End all drivers, and wait for their processes."""
        self.prepare(())
        deadline = time.monotonic() + LEAVE_S
        while self._gone and time.monotonic() < deadline + 1:
            self._sweep(LEAVE_S)
            time.sleep(0.1)

    def kill(self, driver: Driver) -> None:
        """End a driver that hangs, with the processes that it has started."""
        processes.sweep(driver.mark, 0)
        driver.wait(30)

    def abandon(self) -> None:
        """Kill every process of the run, also of a driver that was being started when the run was interrupted."""
        processes.sweep(str(self._folder), 0, RUN)
        for driver in [*self._ready, *(driver for driver, _ in self._gone)]:
            driver.wait(30)

    def _sweep(self, patience_s: float) -> None:
        """Forget drivers without processes; processes that outlive their driver for too long are killed and noted."""
        for each in list(self._gone):
            driver, since = each
            late = time.monotonic() - since > patience_s
            if late:
                self.leaked += processes.sweep(driver.mark, 0)
            if late or not (driver.alive or processes.marked(driver.mark) or processes.marked(driver.mark)):
                driver.wait(30)
                driver.remove()
                self._gone.remove(each)
