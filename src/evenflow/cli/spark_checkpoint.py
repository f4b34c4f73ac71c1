"""Spark's own checkpoint of a query, as far as its files tell: which query it is, and at which batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyarrow import fs

from evenflow.errors import InvalidArgument, StoreError
from evenflow.state.store.files import resolve

Reads = Literal["none", "some", "all", "unknown"]


@dataclass(frozen=True, slots=True)
class SparkCheckpoint:
    """A query's checkpointLocation."""

    query: str
    """The id of the query, by which our checkpoint knows it."""
    batch: int
    """The batch that Spark runs next: the last one that it has planned, unless that is committed."""
    offsets: Mapping[int, tuple[str, ...]]
    """By batch, how far each source was read, as far as Spark still has that."""

    def reads(self, first: int, last: int) -> Reads:
        """How many of the sources had rows in these batches; "unknown" if Spark does not have that any more."""
        before = self.offsets.get(first - 1, ("-",) * len(self.offsets.get(last, ())) if not first else None)
        after = self.offsets.get(last)
        if before is None or after is None or len(before) != len(after):
            return "unknown"
        moved = sum(old != new for old, new in zip(before, after, strict=True))
        return "none" if not moved else "all" if moved == len(after) else "some"


def read_spark_checkpoint(where: str) -> SparkCheckpoint:
    """Read a checkpointLocation, at a path or a URI."""
    try:
        filesystem, base = resolve(where) if "://" in where else (fs.LocalFileSystem(), str(Path(where).absolute()))
        with filesystem.open_input_stream(f"{base}/metadata") as file:
            query = str(json.loads(file.read())["id"])
        offsets = {batch: _offsets(filesystem, path) for batch, path in _batches(filesystem, f"{base}/offsets")}
        done = max((batch for batch, _ in _batches(filesystem, f"{base}/commits")), default=-1)
    except (OSError, ValueError, KeyError, TypeError, StoreError) as error:
        raise InvalidArgument(f"{where} is not the checkpointLocation of a query: {error}") from None
    return SparkCheckpoint(query, max([done + 1, *offsets]), offsets)


def _batches(filesystem: fs.FileSystem, folder: str) -> list[tuple[int, str]]:
    """The files of a folder of Spark's checkpoint that are named after batches."""
    found = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return [(int(info.base_name), info.path) for info in found if info.base_name.isdigit()]


def _offsets(filesystem: fs.FileSystem, path: str) -> tuple[str, ...]:
    """The offsets of each source in a file of Spark's log; a version and a line about the batch come before them."""
    with filesystem.open_input_stream(path) as file:
        return tuple(file.read().decode().splitlines()[2:])
