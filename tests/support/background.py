"""Queries that run while a test does something to them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Holding:
    """A function that says which process runs it and stays in there until it is let go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._gate = folder / "hold"
        self._gate.touch()

    def function(self) -> Callable[[Any], Any]:
        """What to give to `ordered_map`."""
        folder, gate = str(self._folder), str(self._gate)

        def hold(batch):
            import os
            import time

            with open(f"{folder}/pid-{os.getpid()}", "w"):
                pass
            while os.path.exists(gate):
                time.sleep(0.01)
            return batch

        return hold

    def inside(self) -> list[int]:
        """The processes that have entered."""
        return [int(file.name.removeprefix("pid-")) for file in self._folder.glob("pid-*")]

    def let_go(self) -> None:
        """Let everyone out, and do not hold anyone any more."""
        self._gate.unlink(missing_ok=True)


class Query:
    """A query in a thread; `result()` waits for it."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run = run
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._value = self._run()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        """What it returned, or raised."""
        self._thread.join(200)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._value
