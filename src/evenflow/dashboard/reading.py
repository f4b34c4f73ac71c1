"""Reading an event log, from its oldest entry on, and following it while it grows or is rotated.

A log that was rotated lies in several files: `events.jsonl.2`, `events.jsonl.1`, `events.jsonl`, oldest first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from evenflow.errors import InvalidArgument

CHUNK = 1 << 22
"""Bytes read at a time, at most."""
LONGEST = 1 << 26
"""Bytes of one entry, at most: what is longer is no entry of ours."""

EventEntry = dict[str, Any]


def files_of(path: Path) -> list[Path]:
    """The files of a log, the oldest first: rotated ones by falling number, then the one that is written to."""
    numbered = [
        (int(suffix), each)
        for each in path.parent.glob(f"{path.name}.*")
        if (suffix := each.name.removeprefix(f"{path.name}.")).isdecimal()
    ]
    return [each for _, each in sorted(numbered, reverse=True)] + ([path] if path.exists() else [])


def entry_of(line: bytes) -> EventEntry | None:
    """The entry on a line; None if it is none, as where a full disk or a killed driver cut it short."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    sound = isinstance(entry, dict) and isinstance(entry.get("event"), str)
    return entry if sound and all(isinstance(entry.get(each), int | float) for each in ("time", "at")) else None


class LogReader:
    """Reads what is there, and on each further call what has come since. Whoever makes it closes it."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._file: BinaryIO | None = None
        self._waiting = files_of(self._path)
        """Files that were not opened yet."""
        self._rest = b""
        self.skipped = 0
        """Lines that are no entries."""
        if not self._waiting:
            raise InvalidArgument(
                f"there is no event log {path}: give the file that Cluster(event_log=...) or simulate wrote"
            )
        if self._path.is_dir():
            raise InvalidArgument(f"{path} is a directory: give one of the event logs in it")

    def entries(self) -> Iterator[EventEntry]:
        """The entries that are new since the last call."""
        while self._open():
            assert self._file is not None
            chunk = self._file.read(CHUNK)
            if chunk:
                yield from self._split(chunk)
            elif not self._passed():
                return

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> bool:
        if self._file is None:
            while self._waiting and self._file is None:
                try:
                    self._file = self._waiting.pop(0).open("rb")
                except FileNotFoundError:  # rotated away meanwhile
                    continue
        return self._file is not None

    def _split(self, chunk: bytes) -> Iterator[EventEntry]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST:
            self._rest = b""
            self.skipped += 1
        for line in lines:
            entry = entry_of(line) if line else None
            if entry is not None:
                yield entry
            elif line:
                self.skipped += 1

    def _passed(self) -> bool:
        """At the end of a file: whether there is another, which is opened next."""
        assert self._file is not None
        if not self._waiting:
            here = os.fstat(self._file.fileno())
            try:
                there = self._path.stat()
            except FileNotFoundError:  # between two steps of a rotation
                return False
            if (here.st_ino, here.st_dev) == (there.st_ino, there.st_dev):
                if here.st_size >= self._file.tell():
                    return False
                self._file.seek(0)  # it was emptied and is written anew
                self._rest = b""
                return True
            self._waiting = self._newer(here)
        self.close()
        self._rest = b""
        return True

    def _newer(self, here: os.stat_result) -> list[Path]:
        """The files that were begun after the one that is open: it may have been rotated more than once."""
        found = files_of(self._path)
        for place, each in enumerate(found):
            try:
                seen = each.stat()
            except FileNotFoundError:
                continue
            if (seen.st_ino, seen.st_dev) == (here.st_ino, here.st_dev):
                return found[place + 1 :]
        return found[-1:]
