"""A store in a directory of any pyarrow file system: S3, Google Cloud Storage, Azure, or one of the caller's own.

An object store shows an object only when its upload is complete: there a blob is written under its own name. On other
file systems it is written under a temporary name that begins with `.tmp-`, and then renamed. How durable a blob is once
its stream is closed depends on the file system; for the local disk there is `DiskStore`.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa
from pyarrow import fs

from evenflow.errors import BlobMissing, StoreError, StoreMissing
from evenflow.state.store.base import FORMAT_FILE, Part, Store, check_range, checked, is_name, shown
from evenflow.state.store.layout import TEMPORARY, check_format, check_scheme, explained, format_bytes, needs_format

UPLOADING = {"s3", "gcs", "abfs"}
"""Types of file systems on which a file appears only when it is complete."""
ABANDONED_S = 24 * 3600.0
"""A temporary file this old is a leftover."""

_numbers = itertools.count()


class FileStore(Store):
    """Blobs as files below the directory `base` of `filesystem`."""

    def __init__(self, filesystem: fs.FileSystem, base: str, *, create: bool = True) -> None:
        check_scheme(f"{filesystem.type_name}://{base.lstrip('/')}")
        self._fs = filesystem
        self._base = base.rstrip("/")
        self._at_once = filesystem.type_name in UPLOADING
        self._flat = filesystem.type_name == "s3"  # a list below the name of an object is empty there
        self.where = f"{filesystem.type_name}:{self._base}"
        with _explaining("open", self.where):
            if create:
                self._fs.create_dir(self._base, recursive=True)
            entries = self._files("", recursive=False, missing_ok=False)
            if needs_format([entry.base_name for entry in entries], self.where, create):
                self._write(self._path(FORMAT_FILE), [format_bytes()])
            check_format(bytes(self._read(self._path(FORMAT_FILE), 0, None)), self.where)
            if create and not self._at_once:
                self._sweep()

    def put(self, name: str, parts: Iterable[Part]) -> None:
        path = self._path(checked(name))
        with _explaining("write", path):
            self._write(path, list(parts))

    def get(self, name: str, start: int = 0, length: int | None = None) -> memoryview:
        check_range(name, start, length)
        path = self._path(checked(name))
        with _explaining("read", path):
            try:
                return self._read(path, start, length)
            except FileNotFoundError:
                raise BlobMissing(f"there is no blob {name} in {self.where}") from None

    def names(self, prefix: str = "") -> list[tuple[str, int]]:
        directory = prefix.rpartition("/")[0]
        with _explaining("list", self._path(directory)):
            if directory and not self._flat and self._fs.get_file_info(self._path(directory)).is_file:
                return []  # a blob has nothing below it
            found = [(self._name(info), info.size) for info in self._files(directory) if info.is_file]
        return sorted((name, size) for name, size in found if name.startswith(prefix) and is_name(name))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            path = self._path(checked(name))
            with _explaining("delete", path), suppress(FileNotFoundError):
                if self._at_once or self._fs.get_file_info(path).is_file:
                    self._fs.delete_file(path)

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}" if name else self._base

    def _name(self, info: fs.FileInfo) -> str:
        path: str = info.path
        return path[len(self._base) + 1 :] if self._base else path.lstrip("/")

    def _files(self, directory: str, recursive: bool = True, missing_ok: bool = True) -> list[fs.FileInfo]:
        selector = fs.FileSelector(self._path(directory), recursive=recursive, allow_not_found=missing_ok)
        found: list[fs.FileInfo] = self._fs.get_file_info(selector)
        return found

    def _write(self, path: str, parts: list[Part]) -> None:
        directory, _, _ = path.rpartition("/")
        if self._at_once:
            self._stream(path, parts)
            return
        beside = f"{directory}/{TEMPORARY}{os.uname().nodename}-{os.getpid()}-{next(_numbers)}"
        self._fs.create_dir(directory, recursive=True)
        try:
            self._stream(beside, parts)
            self._fs.move(beside, path)
        except BaseException:
            with suppress(OSError):
                self._fs.delete_file(beside)
            raise

    def _stream(self, path: str, parts: list[Part]) -> None:
        with self._fs.open_output_stream(path, compression=None) as stream:
            for part in parts:
                stream.write(part)

    def _read(self, path: str, start: int, length: int | None) -> memoryview:
        with self._fs.open_input_file(path) as file:
            there = max(0, file.size() - start)
            content = np.empty(there if length is None else min(length, there), np.uint8).data
            if not content.nbytes:
                return content
            file.seek(start)
            done = 0
            while done < content.nbytes and (count := file.readinto(content[done:])):
                done += count
        return content[:done]

    def _sweep(self) -> None:
        """Remove temporary files that were left long ago."""
        latest = time.time() - ABANDONED_S
        for info in self._files(""):
            written = info.mtime.timestamp() if info.mtime is not None else time.time()
            if info.is_file and info.base_name.startswith(TEMPORARY) and written < latest:
                with suppress(OSError):  # another process sweeps too
                    self._fs.delete_file(info.path)


def resolve(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system and the path that a URI names."""
    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError, ImportError, ValueError) as error:
        kind = StoreMissing if isinstance(error, ValueError) else StoreError  # no such scheme; else the server says no
        raise kind(
            f"cannot open {shown(uri)}: {error}; give a path, a URI that pyarrow.fs.FileSystem.from_uri takes, "
            "or a pyarrow file system and a directory in it"
        ) from error
    return filesystem, path


@contextmanager
def _explaining(doing: str, path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:  # pyarrow raises either for the same failures
        raise explained(error if isinstance(error, OSError) else OSError(str(error)), doing, path) from error
