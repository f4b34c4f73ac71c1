"""Waiting rows in memory: batches of rows of all units, in which rows that have left are marked."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from evenflow.operators.keyed import Units
from evenflow.operators.time.waiting import Waiting
from evenflow.scratch.rows import Numbers

ROW_BYTES = 24
"""Of a row beside its columns: unit, key, time, and its place by unit."""

Marks = npt.NDArray[np.bool_]
Places = npt.NDArray[np.uint32]


class Chunk:
    """A batch of rows, and which of them have not left."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self.left = len(waiting)
        """How many have not left."""
        self.nbytes = int(waiting.rows.nbytes) + ROW_BYTES * len(waiting)
        self.earliest, self.latest = int(waiting.times.min()), int(waiting.times.max())
        self._here: Marks | None = None
        """Marks rows that have not left; None while that is all of them."""
        self._by_unit: tuple[Places, Numbers] | None = None
        """The places of the rows, unit by unit; and where each unit's begin, and the last one's end."""

    @property
    def whole(self) -> bool:
        """Whether no row has left."""
        return self._here is None

    def of(self, units: Units, many: bool = False) -> Places:
        """The places of the rows of some units. If these are `many`, going through all rows is faster than sorting."""
        mine = self.waiting.units
        if many and self._by_unit is None:
            marks = np.zeros(max(int(mine.max()), int(units.max())) + 1, np.bool_)
            marks[units] = True
            chosen = marks[mine] if self._here is None else marks[mine] & self._here
            return np.flatnonzero(chosen).astype(np.uint32)
        if self._by_unit is None:
            narrow = mine.astype(np.uint16) if int(mine.max()) < 1 << 16 else mine
            ends = np.cumsum(np.bincount(mine))
            self._by_unit = np.argsort(narrow, kind="stable").astype(np.uint32), np.concatenate([[0], ends])
        places, bounds = self._by_unit
        units = units[units < len(bounds) - 1]
        starts, counts = bounds[units], bounds[units + 1] - bounds[units]
        offsets = np.repeat(starts - np.cumsum(counts) + counts, counts)
        found: Places = places[offsets + np.arange(len(offsets))]
        return found if self._here is None else found[self._here[found]]

    def due(self, units: Units, until: Numbers, many: bool) -> Places:
        """The places of rows of some units whose time is before `until`, which has a time for every unit."""
        places = self.of(units, many)
        waiting = self.waiting
        found: Places = places[waiting.times[places] < until[waiting.units[places]]]
        return found

    def remove(self, places: npt.NDArray[np.integer]) -> None:
        """Mark rows as gone."""
        if self._here is None:
            self._here = np.ones(len(self.waiting), np.bool_)
        self._here[places] = False
        self.left -= len(places)

    def rest(self) -> Waiting:
        """The rows that have not left; not copied if none has."""
        return self.waiting if self._here is None else self.waiting.pick(np.flatnonzero(self._here))


def merged(chunks: Iterable[Chunk], largest: int) -> list[Chunk]:
    """The rows of chunks that have not left, in chunks of about `largest` bytes."""
    made: list[Chunk] = []
    parts: list[Waiting] = []
    size = 0
    for chunk in chunks:
        if parts and size + chunk.nbytes > largest:
            made.append(Chunk(Waiting.joined(parts)))
            parts, size = [], 0
        parts.append(chunk.rest())
        size += chunk.nbytes
    if parts:
        made.append(Chunk(Waiting.joined(parts)))
    return made
