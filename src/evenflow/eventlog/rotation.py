"""An event log as a bounded number of files: `events.jsonl` is the newest piece, `.1` the one before, and so on."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

PIECES = 8
"""Files that a log is kept in, at most."""
TOTAL = 256 * 1024**2
"""Bytes of all pieces together, if the user names no size: about 40 hours of three workers."""
LAST_LINE = 1 << 20
"""Bytes that are read at a time, from its end on, to find the last whole line of a file."""


def piece(path: Path, number: int) -> Path:
    """The file of a piece; 0 is the newest."""
    return path if number == 0 else Path(f"{path}.{number}")


def numbers(path: Path) -> list[int]:
    """The numbers of the older pieces that there are, rising."""
    pattern = re.compile(re.escape(path.name) + r"\.([1-9][0-9]{0,5})")
    with suppress(FileNotFoundError):
        return sorted(int(match[1]) for match in map(pattern.fullmatch, os.listdir(path.parent)) if match)
    return []


def delete(path: Path) -> None:
    """Delete all pieces of a log."""
    for number in (0, *numbers(path)):
        piece(path, number).unlink(missing_ok=True)


class RotatingFile:
    """Appends lines to the newest piece; when it is full, all pieces get the next number, and the oldest is deleted.

    `head` gives the line that a new piece begins with. It does not count, so that a long one cannot fill a piece. All
    together have at most `total` bytes, and PIECES times the head and one line. What is no regular file, such as
    /dev/stdout, is never rotated. Half a line that a killed driver has left at the end is cut off.
    """

    def __init__(self, path: Path, total: int, head: Callable[[], bytes]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._head = path, head
        self._most = max(1, total // PIECES)
        self._file = self._open()

    def _open(self) -> BinaryIO:
        file = self._path.open("ab", buffering=0)
        about = os.fstat(file.fileno())
        self._rotates = stat.S_ISREG(about.st_mode)
        self._size = about.st_size
        if self._rotates and self._size:
            self._size = _whole_lines(self._path, self._size)
            if self._size < about.st_size:
                file.truncate(self._size)
        return file

    def write(self, line: bytes) -> None:
        """Append a line, which ends in a newline; before it, begin a new piece if this one is full."""
        if self._rotates and self._size and self._size + len(line) > self._most:
            self._rotate()
        self._put(line)
        self._size += len(line)

    def _put(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[self._file.write(rest) or 0 :]

    def _rotate(self) -> None:
        self._file.close()
        for number in reversed((0, *numbers(self._path))):  # the oldest first: a name is free when it is needed
            if number + 1 >= PIECES:
                piece(self._path, number).unlink(missing_ok=True)
            else:
                with suppress(FileNotFoundError):
                    piece(self._path, number).rename(piece(self._path, number + 1))
        self._file = self._open()
        self._put(self._head())
        self._size = 0

    def close(self) -> None:
        """Close the newest piece."""
        self._file.close()


def _whole_lines(path: Path, size: int) -> int:
    """The length of a file without half a line at its end."""
    with path.open("rb") as file:
        end = size
        while end > 0:
            start = max(0, end - LAST_LINE)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0
