"""A server in a process of its own, on the loopback address."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Self

from evenflow.errors import EvenflowError

PATIENCE_S = 60.0


class ServerProcess:
    """Owns a process that prints the port of its server, and ends when its standard input is closed."""

    def __init__(self, command: Sequence[str], needs: str) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        said = self._process.stdout.readline() if self._process.stdout is not None else b""
        if not said:
            self.close()
            raise EvenflowError(f"the server of a store did not start: pip install {needs}")
        self.port = int(said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE_S)
