"""Waiting rows on disk: a file has the rows of one stretch of time, in bands of units that are read one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from evenflow.operators.keyed import Units
from evenflow.operators.time.waiting import Waiting


class File(Protocol):
    """Numbered entries on disk, each a list of buffers."""

    @property
    def live(self) -> int:
        """Bytes of all entries."""

    def append(self, items: Iterable[tuple[int, list[Any]]]) -> None:
        """Add entries; all or, with an error, none."""

    def read(self, numbers: Iterable[int]) -> Iterator[tuple[int, list[memoryview]]]:
        """Read entries, which stay."""

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget entries; the file is removed with the last of them."""


class Shelved:
    """A file of rows. Its entries are bands: the rows of `width` units with consecutive numbers."""

    def __init__(self, waiting: Waiting, width: int, file: File) -> None:
        self.earliest = int(waiting.times.min())
        self.left = len(waiting)
        """How many rows it has."""
        self._width, self._file = width, file
        bands = waiting.units // width
        bounds = np.concatenate([[0], np.cumsum(np.bincount(bands, minlength=1))])
        ordered = waiting.pick(np.argsort(bands.astype(np.uint8), kind="stable"))
        self._bands = set(np.flatnonzero(np.diff(bounds)).tolist())
        parts = {band: ordered.part(*bounds[band : band + 2].tolist()) for band in sorted(self._bands)}
        file.append((band, [part.packed()]) for band, part in parts.items())

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self._file.live

    def drop(self) -> None:
        """Remove the file."""
        self._file.drop(self._bands)

    def read(self, units: Units) -> list[Waiting]:
        """The rows of all bands in which some units lie; they stay."""
        bands = self._bands.intersection((units // self._width).tolist())
        return [Waiting.unpacked(content) for _, (content,) in self._file.read(sorted(bands))] if bands else []

    def take(self, units: Units) -> list[Waiting]:
        """Take out the rows of all bands in which some units lie."""
        found = self.read(units)
        bands = {int(part.units[0]) // self._width for part in found}
        if bands:
            self._file.drop(bands)
        self._bands -= bands
        self.left -= sum(map(len, found))
        return found
