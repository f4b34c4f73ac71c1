"""Scripts run in processes of their own, and what they leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
MARK = "EVENFLOW_TEST_RUN"


class Script:
    """A Python script in its own session; every process that descends from it carries a mark in its environment."""

    def __init__(self, source: str, folder: Path, **environment: str) -> None:
        self.mark = uuid.uuid4().hex
        file = folder / "script.py"
        file.write_text(source)
        env = os.environ | {MARK: self.mark, "PYTHONUNBUFFERED": "1"} | environment
        self._log = (folder / "output.txt").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(file)],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_exception: object) -> None:
        for process in self.processes():  # only what this script has started, and only if a test failed
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(30)
        self._log.close()

    def output(self) -> str:
        """What it has printed so far, errors included."""
        return Path(self._log.name).read_text()

    def wait_for(self, text: str, seconds: float = 180.0) -> None:
        """Wait until it has printed `text`."""
        self._wait(lambda: text in self.output() or self.process.poll() is not None, seconds, f"'{text}'")
        assert text in self.output(), self.output()

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = 180.0) -> None:
        """Wait for something it is to bring about."""
        self._wait(lambda: condition() or self.process.poll() is not None, seconds, what)
        assert self.process.poll() is None, self.output()

    def finish(self, seconds: float = 240.0) -> str:
        """Wait until it has ended well and nothing of it is left; its output."""
        self.ended(seconds)
        assert self.process.returncode == 0, self.output()
        self.gone()
        return self.output()

    def ended(self, seconds: float = 120.0) -> None:
        """Wait until it has ended, well or not."""
        self._wait(lambda: self.process.poll() is not None, seconds, "the end")

    def sleep(self, seconds: float) -> None:
        """Let it run for a while; it must not end in that time."""
        time.sleep(seconds)
        assert self.process.poll() is None, self.output()

    def gone(self, seconds: float = 60.0) -> None:
        """Wait until none of its processes is left."""
        self._wait(lambda: not self.processes(), seconds, f"the end of {self.processes()}")

    def processes(self) -> list[psutil.Process]:
        """All processes that come from this script, whoever is their parent by now."""
        return [process for process in psutil.process_iter() if self._ours(process)]

    def _ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def _wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come within {seconds:.0f} s:\n{self.output()}"
            time.sleep(0.05)
