"""The waiting room: rows of all units of a worker, until their time has come.

Rows are kept as they came, in few large batches for all units together: a batch for each unit would be a thousand small
ones. Rows that leave are marked; a batch goes when its last row does, and is copied when half of it has gone. Rows
are sorted by unit when they are first looked up by unit.

Where memory is short rows go to disk by their time, the latest first, and come back when it has come: so a row is
written and read about once, however many ticks pass while it waits. Ticks are of some units at a time: so rows of units
with numbers close to each other lie together in a file.
"""

from __future__ import annotations

import numpy as np

from evenflow.operators.keyed import Units
from evenflow.operators.time.chunks import Chunk, merged
from evenflow.operators.time.files import Shelved
from evenflow.operators.time.waiting import Waiting
from evenflow.scratch.rows import NewFile, Numbers

MERGED_BYTES = 32 << 20
"""Batches are joined up to about this size: larger ones take longer to copy, and their memory longer to come free."""
SLICES = 4
"""A batch of the largest size goes to disk as this many files, each for a stretch of time, which come back singly."""
BANDS = 128
"""The units of a file are read in this many parts."""
SMALL = 16
"""With more small files than this they are joined."""
FRESH = 256
"""Batches that are left as they came, at most."""
MANY = 12
"""Units with more than this part of the rows are found by going through all rows: sorting these takes longer."""


class WaitingRoom:
    """Waiting rows of `units` units, in memory and on disk."""

    def __init__(self, units: int) -> None:
        self.counts = np.zeros(units, np.int64)
        """Rows of each unit, in memory and on disk."""
        self.largest = MERGED_BYTES
        """Bytes of a batch, about, at most."""
        self._fresh: list[Chunk] = []
        """Batches as they came."""
        self._joined: list[Chunk] = []
        """Batches made of those, from old to new."""
        self._shelved: list[Shelved] = []
        self._width = -(-units // BANDS)
        """Units of a band."""
        self._looked: tuple[int, list[Chunk]] = (-1, [])
        """The band of units that `look` has read last, and its rows on disk: most often the next unit is in it, too."""

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def _chunks(self) -> list[Chunk]:
        """All rows in memory."""
        return [*self._joined, *self._fresh, *self._looked[1]]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(chunk.nbytes for chunk in self._chunks)

    @property
    def shelved(self) -> int:
        """Bytes on disk."""
        return sum(shelved.nbytes for shelved in self._shelved)

    @property
    def files(self) -> int:
        """Files on disk."""
        return len(self._shelved)

    def add(self, waiting: Waiting) -> None:
        """Take rows in."""
        if len(waiting):
            self._fresh.append(Chunk(waiting))
            self.counts += np.bincount(waiting.units, minlength=len(self.counts))
            if len(self._fresh) > FRESH:
                self._join()

    def shelve(self, amount: int, file: NewFile) -> None:
        """Put whole batches of rows on disk until `amount` bytes are free, or none is left in memory.

        The batch whose earliest row is due last goes first.
        """
        wanted = self.nbytes - amount
        self._looked = (-1, [])
        self._unshelve_small()
        self._join()
        for chunk in sorted(self._joined, key=lambda each: each.earliest, reverse=True):
            if self.nbytes <= wanted:
                return
            rest = chunk.rest()
            order = np.argsort(rest.times, kind="stable")
            made: list[Shelved] = []
            try:
                for some in np.array_split(order, min(len(order), max(1, SLICES * chunk.nbytes // self.largest))):
                    made.append(Shelved(rest.pick(some), self._width, file))
            except BaseException:  # a full disk: all of it is still here
                for shelved in made:
                    shelved.drop()
                raise
            self._shelved += made
            self._joined.remove(chunk)

    def take(self, units: Units, until: Numbers | None = None) -> Waiting | None:
        """Take out rows of some units: those whose time is before `until`, which has a time for every unit, or all."""
        self._looked = (-1, [])
        if not self.counts[units].any():
            return None
        least, most = (None, None) if until is None else (int(until[units].min()), int(until[units].max()))
        self._unshelve(units, most)
        self._join()
        mine = int(self.counts[units].sum())
        everyone, many = mine == len(self), mine * MANY > len(self)
        parts: list[Waiting] = []
        for chunk in self._joined:
            if most is not None and chunk.earliest >= most:
                continue
            late = until is None or least is None or chunk.latest < least
            if everyone and chunk.whole and late:
                parts.append(chunk.waiting)
                chunk.left = 0
                continue
            places = chunk.of(units, many) if until is None or late else chunk.due(units, until, many)
            if len(places):
                parts.append(chunk.waiting.pick(places))
                chunk.remove(places)
        self._sweep()
        if not parts:
            return None
        taken = Waiting.joined(parts)
        self.counts -= np.bincount(taken.units, minlength=len(self.counts))
        return taken

    def copy(self, units: Units) -> Waiting | None:
        """All rows of some units, which stay."""
        return self._copied(units, self._on_disk(units)) if self.counts[units].any() else None

    def extract(self, unit: int) -> Waiting | None:
        """Take out all rows of a unit."""
        return self.take(np.array([unit], np.int32))

    def look(self, unit: int) -> Waiting | None:
        """All rows of a unit, which stay. Units are best asked for by number: a band is read from disk once then."""
        units = np.array([unit], np.int32)
        if not self.counts[unit]:
            return None
        if self._looked[0] != unit // self._width:
            self._looked = unit // self._width, self._on_disk(units)
        return self._copied(units, self._looked[1])

    def sizes(self, units: Units) -> Numbers:
        """Bytes of the rows of each of the units, wherever they are, by the average row."""
        rows = sum(len(chunk.waiting) for chunk in self._chunks) + sum(shelved.left for shelved in self._shelved)
        each = (self.nbytes + self.shelved) / rows if rows else 0.0
        return (self.counts[units] * each).astype(np.int64)

    def _on_disk(self, units: Units) -> list[Chunk]:
        """The rows on disk of some units, and of others in the same bands; they stay there, too."""
        return [Chunk(part) for shelved in self._shelved for part in shelved.read(units)]

    def _copied(self, units: Units, read: list[Chunk]) -> Waiting:
        """All rows of some units, which have any, given those read from disk."""
        self._join()
        found = ((chunk, chunk.of(units)) for chunk in (*self._joined, *read))
        return Waiting.joined([chunk.waiting.pick(places) for chunk, places in found if len(places)])

    def _unshelve(self, units: Units, most: int | None) -> None:
        """Bring rows of some units back into memory, from files with times before `most`, or from all files."""
        for shelved in self._shelved:
            if most is None or shelved.earliest < most:
                self._fresh += map(Chunk, shelved.take(units))
        self._shelved = [shelved for shelved in self._shelved if shelved.left]

    def _unshelve_small(self) -> None:
        """If there are many small files: bring back what makes up one batch, to be written to larger files."""
        small = [shelved for shelved in self._shelved if 2 * SLICES * shelved.nbytes < self.largest]
        if len(small) > SMALL:
            everyone = np.arange(len(self.counts), dtype=np.int32)
            room = self.largest
            for shelved in small:
                room -= shelved.nbytes
                if room > 0:
                    self._fresh += map(Chunk, shelved.take(everyone))
            self._shelved = [shelved for shelved in self._shelved if shelved.left]

    def _join(self) -> None:
        """Make few batches of many: each is at least twice as large as the one after it, or as large as they get."""
        if self._fresh:
            self._joined += merged(self._fresh, self.largest)
            self._fresh = []
        while len(self._joined) > 1:
            before, last = (chunk.nbytes for chunk in self._joined[-2:])
            if before >= 2 * last or before + last > self.largest:
                return
            self._joined[-2:] = merged(self._joined[-2:], self.largest)

    def _sweep(self) -> None:
        """Let go of batches of which nothing is left, and copy those of which less than half is."""
        kept = [chunk for chunk in self._joined if chunk.left]
        self._joined = [Chunk(chunk.rest()) if 2 * chunk.left < len(chunk.waiting) else chunk for chunk in kept]
