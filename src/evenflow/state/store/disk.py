"""A store on the local disk.

A blob is written to a temporary file in its directory, whose name begins with `.tmp-`; the file is synced and renamed,
then the directory is synced. While it is written it is locked (flock): an unlocked one was left by a killed process,
and is removed when the store is opened. Files can be read (0600), and directories listed (0700), only by the user who
writes them: driver and executors run as the same user.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from evenflow.errors import BlobMissing, StoreError
from evenflow.state.store.base import FORMAT_FILE, Lock, Part, Store, check_range, checked, is_name
from evenflow.state.store.claims.in_use import said_by, taken
from evenflow.state.store.layout import TEMPORARY, check_format, explained, format_bytes, needs_format

TRIES = 20
"""Another process may remove a directory that is empty before it is used; not this often in a row."""
VECTOR = 1024
"""Buffers that one writev takes, at most (IOV_MAX)."""
FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
LOCK_FILE = ".lock"

_numbers = itertools.count()


class DiskStore(Store):
    """Blobs as files below a directory of the local disk."""

    def __init__(self, root: Path, *, create: bool = True) -> None:
        self.root = root.absolute()
        with _explaining("open", self.root):
            if create:
                _make_directory(self.root.parent, 0o777)
                _make_directory(self.root)
            if needs_format(os.listdir(self.root), str(self.root), create):
                self._write(self.root / FORMAT_FILE, [format_bytes()])
            check_format((self.root / FORMAT_FILE).read_bytes(), str(self.root))
            if create:
                self._sweep()

    def put(self, name: str, parts: Iterable[Part]) -> None:
        path = self.root / checked(name)
        with _explaining("write", path):
            self._write(path, [memoryview(part).cast("B") for part in parts])

    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        path = self.root / checked(name)
        check_range(name, start, length)
        with _explaining("read", path):
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                raise BlobMissing(f"there is no blob {name} in {self.root}") from None
            try:
                there = max(0, os.fstat(descriptor).st_size - start)
                return _read(descriptor, start, there if length is None else min(length, there))
            finally:
                os.close(descriptor)

    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        directory = prefix.rpartition("/")[0]
        with _explaining("list", self.root / directory):
            found = ((path, entry) for path, entry in _walk(self.root, directory) if path.startswith(prefix))
            sizes = []
            for path, entry in found:
                if is_name(path):
                    with suppress(FileNotFoundError):  # deleted while we look
                        sizes.append((path, entry.stat().st_size))
        return sorted(sizes)

    def delete(self, names: Iterable[str]) -> None:
        emptied = set()
        for name in names:
            path = self.root / checked(name)
            with _explaining("delete", path), suppress(FileNotFoundError):
                path.unlink()
                emptied.add(path.parent)
        for directory in emptied:
            self._prune(directory)

    def lock(self, mine: dict[str, object]) -> Lock:
        """Lock a file (flock)."""
        return _FileLock(self.root, mine)

    def _write(self, path: Path, parts: list[memoryview] | list[bytes]) -> None:
        """Write a file; again if another process has removed its directory, or the file before we had locked it."""
        for _ in range(TRIES):
            with suppress(FileNotFoundError):
                _make_directory(path.parent)
                _write_once(path, parts)
                return
        raise StoreError(f"cannot write {path}: its directory is removed again and again; who else works there?")

    def _prune(self, directory: Path) -> None:
        """Remove a directory and those above it, as far as they are empty."""
        with suppress(OSError):  # it is not empty, or we may not remove it
            while directory != self.root:
                directory.rmdir()
                directory = directory.parent

    def _sweep(self) -> None:
        """Remove files that killed processes have left half written."""
        for path, entry in _walk(self.root, ""):
            if entry.name.startswith(TEMPORARY):
                with suppress(OSError):  # another process sweeps too, or writes it
                    _remove_unlocked(self.root / path)


class _FileLock:
    def __init__(self, root: Path, mine: dict[str, object]) -> None:
        path = root / LOCK_FILE
        try:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        except OSError as error:
            raise explained(error, "lock", str(path)) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 4096, 0)
            os.close(self._file)
            if isinstance(error, BlockingIOError):
                raise taken(str(root), said_by(holder)) from None
            raise explained(error, "lock", str(path)) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(mine).encode(), 0)

    def beat(self) -> None:
        """Nothing to do: the kernel frees the lock when we end."""

    def release(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


def _write_once(path: Path, parts: list[memoryview] | list[bytes]) -> None:
    beside = path.parent / f"{TEMPORARY}{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with suppress(OSError):  # a file system without locks: there leftovers stay
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        _write_all(descriptor, parts)
        os.fsync(descriptor)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    finally:
        os.close(descriptor)
    _sync_directory(path.parent)


def _write_all(descriptor: int, parts: list[memoryview] | list[bytes]) -> None:
    """Write every byte of the parts, without joining them."""
    waiting = [view for part in parts if (view := memoryview(part)).nbytes]
    place = 0
    while place < len(waiting):
        written = os.writev(descriptor, waiting[place : place + VECTOR])
        while place < len(waiting) and written >= waiting[place].nbytes:
            written -= waiting[place].nbytes
            place += 1
        if written:
            waiting[place] = waiting[place][written:]


def _read(descriptor: int, start: int, length: int) -> memoryview:
    """Read `length` bytes, or fewer if the file ends before."""
    content = np.empty(length, np.uint8).data
    done = 0
    while done < length:
        count = os.preadv(descriptor, [content[done:]], start + done)
        if not count:
            break
        done += count
    return content[:done]


def _walk(root: Path, directory: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every file below a directory of the store, with its path from the root."""
    try:
        entries = sorted(os.scandir(root / directory), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        path = f"{directory}/{entry.name}" if directory else entry.name
        if entry.is_dir():
            yield from _walk(root, path)
        else:
            yield path, entry


def _make_directory(path: Path, mode: int = DIRECTORY_MODE) -> None:
    """Make a directory and those above it, durably."""
    if path.is_dir():
        return
    _make_directory(path.parent, mode)
    with suppress(FileExistsError):
        path.mkdir(mode)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)


@contextmanager
def _explaining(doing: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explained(error, doing, str(path)) from error
