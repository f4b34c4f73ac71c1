"""Scratch files for what does not fit into memory: several entries a file, each of which can be read by itself.

An entry is a list of parts, such as a pickle (protocol 5) and its buffers. Parts are written without joining them, each
padded to a multiple of 64 bytes so that arrays read back are aligned. The index is in memory only: no process reads the
files of another, and `sweep` removes those that a killed process left behind.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import xxhash

from evenflow.errors import CorruptState, SpillError

ALIGN = 64
VECTOR = 1024
"""Buffers that one call to the kernel takes (IOV_MAX)."""
WORTH = 1 << 20
"""A file with fewer dead bytes than this is not rewritten."""
PREFIX = "evenflow-spill-"

Part: TypeAlias = Any
"""Any object with contiguous bytes: Python 3.11 has no type for the buffer protocol."""
UnitState: TypeAlias = Any
"""A unit's state as its operator gives it: a user's value, which can be pickled."""
_ZEROS = memoryview(bytes(ALIGN))


@dataclass(frozen=True, slots=True)
class _Entry:
    offset: int
    lengths: tuple[int, ...]
    checksum: int

    @property
    def nbytes(self) -> int:
        return sum(padded(length) for length in self.lengths)


class Spill:
    """The directory, made below `parent`, for the files of one evaluation; `close` removes it."""

    def __init__(self, parent: str | Path) -> None:
        try:
            os.makedirs(parent, exist_ok=True)
            self.directory = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))
        except OSError as error:
            raise SpillError(f"cannot spill to {parent}: {error.strerror}; give a directory to write to") from error
        self.written = self.read = 0
        """Bytes, in all."""
        self._made = 0

    def segment(self) -> Segment:
        """A new file, without entries."""
        self._made += 1
        return Segment(self, self.directory / f"{self._made:08d}.spill")

    @property
    def files(self) -> int:
        """How many files there are."""
        return len(os.listdir(self.directory))

    def close(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.directory, ignore_errors=True)


@dataclass(slots=True)
class Segment:
    """One file with numbered entries; it is removed with its last entry."""

    spill: Spill
    path: Path
    entries: dict[int, _Entry] = field(default_factory=dict)
    size: int = 0
    """Bytes of the file."""
    live: int = 0
    """Bytes of its entries; the other bytes are dead."""

    def __contains__(self, number: int) -> bool:
        return number in self.entries

    def append(self, items: Iterable[tuple[int, list[Part]]]) -> None:
        """Add entries; all or, with a SpillError, none."""
        made: dict[int, _Entry] = {}
        buffers: list[memoryview] = []
        offset = self.size
        for number, parts in items:
            digest = xxhash.xxh3_64(seed=number)
            lengths = []
            for part in parts:
                view = memoryview(part).cast("B")
                digest.update(view)
                lengths.append(view.nbytes)
                buffers += [view, _ZEROS[: -view.nbytes % ALIGN]]
            made[number] = entry = _Entry(offset, tuple(lengths), digest.intdigest())
            offset += entry.nbytes
        self._write([view for view in buffers if view.nbytes], offset - self.size)
        self.entries |= made
        self.live += offset - self.size
        self.size = offset

    def read(self, numbers: Iterable[int]) -> Iterator[tuple[int, list[memoryview]]]:
        """Read entries; the parts of each are in writable memory of their own."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise SpillError(f"cannot read {self.path}: {error.strerror}") from error
        try:
            for number in numbers:
                yield number, self._parts(descriptor, number)
        finally:
            os.close(descriptor)

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget entries; the file is rewritten once more than half of it is dead."""
        for number in numbers:
            self.live -= self.entries.pop(number).nbytes
        if not self.entries:
            self.path.unlink(missing_ok=True)
            self.size = self.live = 0
        elif self.size - self.live > max(self.live, WORTH):
            with suppress(SpillError):  # no space for a second file: then the first one stays
                self._rewrite()

    def nbytes(self, number: int) -> int:
        """Bytes of an entry in the file."""
        return self.entries[number].nbytes

    def _write(self, buffers: list[memoryview], total: int) -> None:
        at = self.size
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                _write_all(descriptor, buffers, at)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(descriptor, at)
                raise
            finally:
                os.close(descriptor)
        except OSError as error:
            if not self.entries:
                with suppress(OSError):
                    self.path.unlink()
            raise SpillError(
                f"cannot write {total} bytes to {self.spill.directory}: {error.strerror}; "
                "what was to be written is still in memory: free space there, or give another directory or more memory"
            ) from error
        self.spill.written += total

    def _parts(self, descriptor: int, number: int) -> list[memoryview]:
        entry = self.entries[number]
        content = np.empty(entry.nbytes, np.uint8).data
        done = 0
        while done < content.nbytes:
            try:
                count = os.preadv(descriptor, [content[done:]], entry.offset + done)
            except OSError as error:
                raise SpillError(f"cannot read {self.path}: {error.strerror}") from error
            if not count:
                raise CorruptState(f"{self.path} ends at byte {entry.offset + done}, in the middle of entry {number}")
            done += count
        digest = xxhash.xxh3_64(seed=number)
        parts, at = [], 0
        for length in entry.lengths:
            parts.append(content[at : at + length])
            digest.update(parts[-1])
            at += padded(length)
        if digest.intdigest() != entry.checksum:
            raise CorruptState(
                f"{self.path} does not hold what was written to it: entry {number}, {entry.nbytes} bytes from byte "
                f"{entry.offset} on, fails its checksum; look after the disk, and start the query anew"
            )
        self.spill.read += done
        return parts

    def _rewrite(self) -> None:
        fresh = self.spill.segment()
        try:
            for item in self.read(list(self.entries)):
                fresh.append([item])
        except BaseException:
            fresh.path.unlink(missing_ok=True)
            raise
        self.path.unlink(missing_ok=True)
        self.path, self.entries, self.size, self.live = fresh.path, fresh.entries, fresh.size, fresh.live


def pack(state: UnitState) -> list[Part]:
    """A state as parts: its pickle, and the buffers that the pickle leaves out."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(state, protocol=5, buffer_callback=buffers.append)
    return [body, *(buffer.raw() for buffer in buffers)]


def unpack(parts: list[Part]) -> UnitState:
    """The reverse of `pack`."""
    return pickle.loads(parts[0], buffers=parts[1:])


def sweep(parent: str | Path) -> None:
    """Remove the files of processes of this machine that do not run any more."""
    for path in Path(parent).glob(f"{PREFIX}*-*"):
        owner = path.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}") and os.path.exists("/proc/self"):
            shutil.rmtree(path, ignore_errors=True)


def padded(length: int) -> int:
    """Bytes that a part of this length takes in a file."""
    return length + -length % ALIGN


def _write_all(descriptor: int, buffers: list[memoryview], at: int) -> None:
    place = 0
    while place < len(buffers):
        written = os.pwritev(descriptor, buffers[place : place + VECTOR], at)
        at += written
        while place < len(buffers) and written >= buffers[place].nbytes:
            written -= buffers[place].nbytes
            place += 1
        if written:
            buffers[place] = buffers[place][written:]
