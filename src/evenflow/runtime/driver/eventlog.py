"""The event log: one JSON object a line, in a file if the user names one; the latest entries are kept in memory."""

from __future__ import annotations

import json
import time
from collections import deque
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from evenflow.control.events import Record

KEPT = 10_000
"""Entries in memory, at most."""
MOST, PER_S = 100, 60.0
"""At most MOST refusals are logged in PER_S seconds."""


class Quota:
    """Bounds how many refusals are logged: strangers must not fill the log. Of those beyond it only the number is."""

    def __init__(self, most: int = MOST, per_s: float = PER_S) -> None:
        self._most, self._per_s = most, per_s
        self._since = -per_s
        self._count = 0

    def admits(self) -> bool:
        """Count one; whether it is to be logged."""
        self._count += 1
        return self._count <= self._most

    def left_out(self, now: float, closing: bool = False) -> int:
        """At the end of a period, how many were not logged; counting begins anew."""
        if now - self._since < self._per_s and not closing:
            return 0
        left, self._count, self._since = max(0, self._count - self._most), 0, now
        return left


class EventLog:
    """Appends records; `time` is seconds since the cluster started, `at` the wall clock."""

    def __init__(self, path: str | Path | None) -> None:
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._next = 0
        """The number of the next entry."""
        self._file: TextIO | None = None
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._file = Path(path).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 - closed by close()

    def write(self, record: Record) -> None:
        """Append one record."""
        entry = {"time": round(record.time, 6), "at": round(time.time(), 3), "event": record.event, **record.fields}
        self._keep(entry)
        if self._file is not None:
            try:
                self._file.write(json.dumps(entry, default=str) + "\n")
            except OSError as error:  # a full disk costs the log, not the cluster
                self.close()
                self._keep({**entry, "event": "event-log-lost", "reason": str(error)})

    def _keep(self, entry: dict[str, Any]) -> None:
        self._kept.append(entry)
        self._next += 1

    def tail(self) -> list[dict[str, Any]]:
        """The latest entries, oldest first."""
        return list(self._kept)

    def since(self, number: int) -> tuple[list[dict[str, Any]], int]:
        """The entries from a number on, as far as they are kept, and the number of the next one."""
        missed = min(len(self._kept), max(0, self._next - number))
        return list(islice(self._kept, len(self._kept) - missed, None)), self._next

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):  # what could not be written before fails again
                self._file.close()
            self._file = None
