"""Where entries come from: the file of an event log, or a cluster in this process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from evenflow.dashboard.regions import WALL
from evenflow.errors import InvalidArgument
from evenflow.eventlog.reading import LogReader
from evenflow.model.entries import EventEntry

logger = logging.getLogger("evenflow")

FRESH_S = 60.0
"""A log whose last entry is older than so many seconds is shown as it was then."""
MOST_WARNINGS = 10
"""Lines that are no entries and are warned of, each by itself; the page has their number."""


class EntrySource(Protocol):
    """Gives entries, each once, and says what time it is."""

    title: str
    unread: int
    """Lines that were no entries, and were stepped over."""

    @property
    def share(self) -> float:
        """How much of what is there has been read, of 1."""

    def entries(self) -> Iterator[EventEntry]:
        """Those that are new since the last call."""

    def now(self, heard: float) -> float:
        """The time that is to be shown, when the last entry is of `heard`."""


class FileSource:
    """An event log, which may still grow."""

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.time) -> None:
        self.unread = 0
        self._reader = LogReader(Path(path), self._broken)
        self._reader.check()
        self._clock = clock
        self.title = Path(path).name

    def entries(self) -> Iterator[EventEntry]:
        return self._reader.entries()

    @property
    def share(self) -> float:
        return self._reader.share

    def _broken(self, error: InvalidArgument) -> None:
        self.unread += 1
        logger.log(logging.WARNING if self.unread <= MOST_WARNINGS else logging.DEBUG, "%s; it is left out", error)

    def now(self, heard: float) -> float:
        """The wall clock while entries are of today; a finished log, or a simulated one, stands still at its end."""
        now = self._clock()
        return now if heard > WALL and 0 <= now - heard <= FRESH_S else heard


class MemorySource:
    """The event log that a cluster in this process keeps; `since` gives the entries from a number on, and the next."""

    def __init__(self, title: str, since: Callable[[int], tuple[list[EventEntry], int]]) -> None:
        self.title, self.unread = title, 0
        self._since = since
        self._next = 0
        self.share = 1.0

    def entries(self) -> Iterator[EventEntry]:
        found, self._next = self._since(self._next)
        yield from found

    def now(self, heard: float) -> float:
        return max(heard, time.time()) if heard > WALL else heard
