"""Reading an event log: all its pieces as one, also while it is written and rotated."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from evenflow.errors import InvalidArgument
from evenflow.eventlog.rotation import numbers, piece
from evenflow.model.entries import (
    ClusterStartedEntry,
    EventEntry,
    LogContinuedEntry,
    RawEntry,
    decode,
    entry_of,
    name_of,
)

KNOWN_BY = 256
"""Bytes at the beginning of a piece that tell it from others; the time of day is among them."""
EARLIER_S = 1.0
"""A time that is so much before the last one is that of another run, which was appended."""
CONTINUED = name_of(LogContinuedEntry)
DAMAGED = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError)
"""What entries raise whose figures make no sense, such as units that a region does not have."""

Wanted = TypeVar("Wanted", bound=EventEntry)


def entries_of(entries: Iterable[EventEntry], kind: type[Wanted]) -> list[Wanted]:
    """Those of one kind."""
    return [entry for entry in entries if isinstance(entry, kind)]


def refuse_damaged(path: Path, entries: Iterable[EventEntry], kinds: Iterable[type[EventEntry]]) -> None:
    """Refuse a log in which an entry of these kinds cannot be read."""
    needed = {name_of(kind) for kind in kinds}
    for entry in entries_of(entries, RawEntry):
        if entry.why and entry.kind in needed:
            raise InvalidArgument(
                f"{path} has entries that are not as this version writes them ({entry.kind}: {entry.why}): give the "
                "event log of a cluster (Cluster(event_log=...)), and record it again if another version wrote it"
            )


def read_log(path: Path) -> list[EventEntry]:
    """The entries of the last run in an event log, oldest first."""
    entries: list[EventEntry] = []
    for entry in LogReader(path).entries():
        if begins_run(entry, entries[-1] if entries else None):
            entries.clear()
        entries.append(entry)
    return entries


def begins_run(entry: EventEntry, before: EventEntry | None) -> bool:
    """Whether an entry is the first of another run than the entry before it: all of that run is over."""
    return isinstance(entry, ClusterStartedEntry) or (before is not None and entry.time < before.time - EARLIER_S)


class _Place(NamedTuple):
    """How far a log has been read: a piece, by its beginning and what was read last, and bytes and lines of it."""

    begins: bytes
    offset: int
    lines: int
    ends: bytes = b""


class LogReader:
    """Reads a log from its oldest piece on, and then what is new, each time that it is asked.

    No entry is read twice or left out, however often the log is rotated meanwhile, unless pieces are deleted before
    they were read: then it goes on with the oldest there is, and first gives the entries that still held there (the
    field `standing` of its first entry). It keeps no file open.

    With `broken`, it follows: a line that is no entry is handed to it as an error and stepped over, and a log that is
    not there, or cannot be read, has no entries this time. Without, both are errors.
    """

    def __init__(self, path: Path, broken: Callable[[InvalidArgument], object] | None = None) -> None:
        self._path, self._broken = path, broken
        self._place: _Place | None = None
        self._before = self._size = 0
        """Bytes of the pieces before the one that is being read, and of all that there were when it was begun."""

    @property
    def share(self) -> float:
        """How much of the log has been read, of 1."""
        offset = self._place.offset if self._place is not None else 0
        return min(1.0, (self._before + offset) / self._size) if self._size else 0.0

    def check(self) -> None:
        """Refuse a log that is not there, or cannot be read."""
        for _, file in _open_pieces(self._path):
            file.close()

    def entries(self) -> Iterator[EventEntry]:
        """What has come since the last call; half a line at the end is left for the next one."""
        try:
            yield from self._entries()
        except (InvalidArgument, OSError):
            if self._broken is None:
                raise

    def _entries(self) -> Iterator[EventEntry]:
        with ExitStack() as stack:
            opened = [(name, stack.enter_context(file)) for name, file in _open_pieces(self._path)]
            begins = [file.read(KNOWN_BY) for _, file in opened]
            first = next((at for at, begin in enumerate(begins) if self._is_mine(begin, opened[at][1])), None)
            if first is None:
                self._place = None
            sizes = [os.fstat(file.fileno()).st_size for _, file in opened]
            self._size = sum(sizes)
            for at in range(first or 0, len(opened)):
                name, file = opened[at]
                place = self._place if at == first else None
                last, self._before = at == len(opened) - 1, sum(sizes[:at])
                yield from self._read(name, file, place or _Place(begins[at], 0, 0), last, first is None and at == 0)

    def _is_mine(self, begin: bytes, file: BinaryIO) -> bool:
        """Whether a piece is the one that was read last: it begins alike, and what was read last is still there."""
        place = self._place
        if place is None or not place.offset or not begin.startswith(place.begins[: place.offset]):
            return False
        file.seek(place.offset - len(place.ends))
        return file.read(len(place.ends)) == place.ends

    def _read(self, name: Path, file: BinaryIO, place: _Place, last: bool, oldest: bool) -> Iterator[EventEntry]:
        file.seek(place.offset)
        offset, lines, begins = place.offset, place.lines, place.begins
        for line in file:
            whole = line.endswith(b"\n")
            try:
                entry = _entry(line, name, lines + 1) if line.strip() else None
            except InvalidArgument as error:
                if last and not whole:
                    return  # half a line: it is being written, or the driver was killed
                if self._broken is None:
                    raise
                self._broken(error)
                entry = None
            if not offset:
                begins = line[:KNOWN_BY]
            offset, lines = offset + len(line), lines + whole
            self._place = _Place(begins, offset, lines, line[-KNOWN_BY:])
            if isinstance(entry, LogContinuedEntry):
                yield from _standing(entry) if oldest else ()
            elif entry is not None and entry.event != CONTINUED:
                yield entry


def _entry(line: bytes, name: Path, number: int) -> EventEntry:
    try:
        return decode(line)
    except (ValueError, RecursionError):  # no JSON, or none that this version writes
        return _other_entry(line, name, number)


def _other_entry(line: bytes, name: Path, number: int) -> EventEntry:
    """The entry in a line of another version, or that is damaged; json says better than msgspec what is no JSON."""
    try:
        found: Any = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # also bytes that are no text, and brackets without end
        raise InvalidArgument(f"line {number} of {name} is no entry of an event log: {error}") from None
    if not _is_entry(found):
        raise InvalidArgument(f"line {number} of {name} is no entry of an event log: it has no event and time")
    return entry_of(found)


def _is_entry(found: Any) -> bool:
    return (
        isinstance(found, dict) and isinstance(found.get("event"), str) and isinstance(found.get("time"), int | float)
    )


def _standing(entry: LogContinuedEntry) -> list[EventEntry]:
    """The entries that held when a piece was begun, as far as they are entries."""
    return [entry_of(each) for each in entry.standing if _is_entry(each)]


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _open_pieces(path: Path) -> list[tuple[Path, BinaryIO]]:
    """All pieces, open, oldest first.

    They are opened from the newest on: a rotation on the way gives them higher numbers, so none is passed by. One that
    is met again is known by its inode, which is not given away while the file is open; its last number counts, since
    what lies between is newer.
    """
    found: dict[tuple[int, int], tuple[int, BinaryIO]] = {}
    most = max((0, *numbers(path))) + 2
    for number in range(most + 1):
        name = piece(path, number)
        try:
            file = name.open("rb")
        except FileNotFoundError:
            continue
        except OSError as error:
            for _, opened in found.values():
                opened.close()
            raise InvalidArgument(f"cannot read the event log {name}: {error.strerror}") from None
        about = os.fstat(file.fileno())
        _, known = found.get((about.st_dev, about.st_ino), (0, file))
        if known is not file:
            file.close()
        found[about.st_dev, about.st_ino] = number, known
    if not found:
        raise InvalidArgument(f"there is no event log {path}: give Cluster an event_log to write one")
    return [(piece(path, number), file) for number, file in sorted(found.values(), key=lambda each: -each[0])]
