"""The event log: one JSON object a line, in files if the user names one; the latest entries are kept in memory."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from evenflow.eventlog.rotation import TOTAL, RotatingFile
from evenflow.eventlog.standing import Standing
from evenflow.model.entries import EventEntry, EventLogLostEntry, as_dict

KEPT = 10_000
"""The most entries in memory."""
MOST, PER_S = 100, 60.0
"""Of a kind of entry that has a quota, at most MOST entries are logged in PER_S seconds."""


class Quota:
    """Bounds how many refusals and failures are logged, each kind by itself, so that they do not fill the log.

    Strangers may come in crowds, and tasks may fail again and again. Of the entries beyond a quota only the number is
    logged. No kind takes from another: whoever can reach a port must not keep failures of tasks out of the log.
    """

    def __init__(self, most: int = MOST, per_s: float = PER_S) -> None:
        self._most, self._per_s = most, per_s
        self._since = -per_s
        self._counts: Counter[str] = Counter()

    def admits(self, kind: str) -> bool:
        """Count one entry; returns whether it is to be logged."""
        self._counts[kind] += 1
        return self._counts[kind] <= self._most

    def left_out(self, now: float, closing: bool = False) -> dict[str, int]:
        """At the end of a period, by kind, how many were not logged; counting begins anew."""
        if now - self._since < self._per_s and not closing:
            return {}
        left = {kind: count - self._most for kind, count in self._counts.items() if count > self._most}
        self._counts, self._since = Counter(), now
        return left


class EventLog:
    """Appends entries; `time` is seconds since the cluster started, `at` the wall clock.

    The files are rotated, so that all have at most `total` bytes (`evenflow.eventlog.rotation`).
    """

    def __init__(self, path: str | Path | None, total: int = TOTAL) -> None:
        self._kept: deque[EventEntry] = deque(maxlen=KEPT)
        self._next = 0
        """The number of the next entry."""
        self._standing = Standing()
        self._last = 0.0, 0.0
        self._file = RotatingFile(Path(path), total, self._head) if path is not None else None

    def write(self, entry: EventEntry) -> None:
        """Append one entry."""
        self._last = round(entry.time, 6), round(time.time(), 3)
        written = replace(entry, time=self._last[0], at=self._last[1])
        self._keep(written)
        if self._file is not None:
            try:
                self._file.write(_line(written))
            except OSError as error:  # a full disk costs the log, not the cluster
                self.close()
                self._keep(EventLogLostEntry(time=written.time, at=written.at, reason=str(error)))
            else:
                self._standing.add(written)

    def _keep(self, entry: EventEntry) -> None:
        self._kept.append(entry)
        self._next += 1

    def _head(self) -> bytes:
        return _line(self._standing.entry(*self._last))

    def tail(self) -> list[dict[str, Any]]:
        """The latest entries as they are written, oldest first."""
        return [as_dict(entry) for entry in self._kept]

    def since(self, number: int) -> tuple[list[EventEntry], int]:
        """The entries from a number on, as far as they are kept, and the number of the next one."""
        missed = min(len(self._kept), max(0, self._next - number))
        return list(islice(self._kept, len(self._kept) - missed, None)), self._next

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):  # what could not be written before fails again
                self._file.close()
            self._file = None


def _line(entry: EventEntry) -> bytes:
    return json.dumps(as_dict(entry), default=str).encode() + b"\n"
