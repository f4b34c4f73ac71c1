"""Waiting rows on disk: a file has the rows of one stretch of time, in bands of units that are read one by one."""

from __future__ import annotations

import numpy as np

from evenflow.operators.keyed import Units
from evenflow.operators.time.waiting import Waiting
from evenflow.scratch.rows import NewFile, RowFile, bounds_of


class Shelved:
    """A file of rows, in bands: the rows of `width` units with consecutive numbers."""

    def __init__(self, waiting: Waiting, width: int, file: NewFile) -> None:
        self.earliest = int(waiting.times.min())
        self.left = len(waiting)
        """How many rows it has."""
        self._width = width
        bands = (waiting.units // width).astype(np.uint8)
        order = np.argsort(bands, kind="stable")
        bounds = bounds_of(bands[order])
        self._bands = set(bounds)
        self._file = RowFile(waiting.pick(order).packed(), bounds, file)

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self._file.nbytes

    def drop(self) -> None:
        """Remove the file."""
        self._file.drop(self._bands)

    def read(self, units: Units) -> list[Waiting]:
        """The rows of all bands in which some units lie; they stay."""
        bands = self._bands.intersection((units // self._width).tolist())
        return [Waiting.unpacked(batch) for batch in self._file.read(sorted(bands))] if bands else []

    def take(self, units: Units) -> list[Waiting]:
        """Take out the rows of all bands in which some units lie."""
        found = self.read(units)
        bands = {int(part.units[0]) // self._width for part in found}
        if bands:
            self._file.drop(bands)
        self._bands -= bands
        self.left -= sum(map(len, found))
        return found
