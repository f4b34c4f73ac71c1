"""The waiting room: rows of all units of a worker, until their time has come.

Rows are kept as they came, in few large batches for all units together: a batch for each unit would be a thousand small
ones. Rows that leave are marked; a batch goes when its last row does, and is copied when half of it has gone. What lies
where is looked up by unit only when single units are taken out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.keyed import Keys, Units

MERGED_BYTES = 32 << 20
"""Batches are joined up to about this size: larger ones take longer to copy, and their memory longer to come free."""

Longs = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

FOREVER = np.iinfo(np.int64).max
"""A time that no row reaches."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Rows with, for each, its unit, its key and the time for which it waits."""

    rows: pa.RecordBatch
    units: Units
    keys: Keys
    times: Longs

    def __len__(self) -> int:
        return len(self.units)

    def pick(self, places: npt.NDArray[np.integer]) -> Waiting:
        """Some of the rows; a copy."""
        rows = self.rows.take(pa.array(places))
        return Waiting(rows, self.units[places], self.keys[places], self.times[places])

    @staticmethod
    def joined(parts: list[Waiting]) -> Waiting:
        """Rows one after the other; there are some."""
        if len(parts) == 1:
            return parts[0]
        rows = pa.concat_batches([part.rows for part in parts])
        units, keys, times = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("units", "keys", "times")
        )
        return Waiting(rows, units, keys, times)


class _Chunk:
    """Some rows, and which of them are still here."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self.left = len(waiting)
        self.nbytes = int(waiting.rows.nbytes) + 20 * len(waiting)
        self.earliest, self.latest = int(waiting.times.min()), int(waiting.times.max())
        self._here: Marks | None = None
        """None while all are."""
        self._by_unit: tuple[npt.NDArray[np.integer], Longs] | None = None
        """The places of the rows, unit by unit; and where each unit's end."""

    def due(self, members: Marks | None, until: Longs | None) -> npt.NDArray[np.intp]:
        """The places of rows of the member units whose time is before `until` of their unit; None: of all, at all."""
        waiting = self.waiting
        chosen = np.ones(len(waiting), np.bool_) if members is None else members[waiting.units]
        if until is not None:
            chosen &= waiting.times < until[waiting.units]
        if self._here is not None:
            chosen &= self._here
        return np.flatnonzero(chosen)

    def of(self, unit: int) -> npt.NDArray[np.integer]:
        """The places of the rows of one unit that are here."""
        if self._by_unit is None:
            units = self.waiting.units
            narrow = units.astype(np.uint16) if int(units.max()) < 1 << 16 else units
            self._by_unit = np.argsort(narrow, kind="stable"), np.cumsum(np.bincount(units, minlength=1))
        places, ends = self._by_unit
        if unit >= len(ends):
            return places[:0]
        found = places[ends[unit - 1] if unit else 0 : ends[unit]]
        return found if self._here is None else found[self._here[found]]

    def remove(self, places: npt.NDArray[np.integer]) -> None:
        """These rows leave."""
        if self._here is None:
            self._here = np.ones(len(self.waiting), np.bool_)
        self._here[places] = False
        self.left -= len(places)

    def rest(self) -> Waiting:
        """The rows that are here; not copied if none has left."""
        return self.waiting if self._here is None else self.waiting.pick(np.flatnonzero(self._here))


class WaitingRoom:
    """Rows of up to `units` units."""

    def __init__(self, units: int) -> None:
        self.counts = np.zeros(units, np.int64)
        """Rows of each unit."""
        self._fresh: list[_Chunk] = []
        """As they came."""
        self._joined: list[_Chunk] = []

    def __len__(self) -> int:
        return sum(chunk.left for chunk in self._chunks)

    @property
    def _chunks(self) -> list[_Chunk]:
        return [*self._joined, *self._fresh]

    def add(self, waiting: Waiting) -> None:
        """Rows come in."""
        if len(waiting):
            self._fresh.append(_Chunk(waiting))
            self.counts += np.bincount(waiting.units, minlength=len(self.counts))

    def take(self, units: Units, until: Longs) -> Waiting | None:
        """Take out rows of these units whose time is before `until`, which tells it for every unit there is."""
        if not self.counts[units].any():
            return None
        self._join()
        least, most = int(until[units].min()), int(until[units].max())
        members = np.zeros(len(self.counts), np.bool_)
        members[units] = True
        everyone = not self.counts[~members].any()
        parts: list[Waiting] = []
        for chunk in self._joined:
            if chunk.earliest >= most:
                continue
            places = chunk.due(None if everyone else members, None if chunk.latest < least else until)
            if len(places) == len(chunk.waiting):
                parts.append(chunk.waiting)
            elif len(places):
                parts.append(chunk.waiting.pick(places))
            chunk.remove(places)
        self._sweep()
        if not parts:
            return None
        taken = Waiting.joined(parts)
        self.counts -= np.bincount(taken.units, minlength=len(self.counts))
        return taken

    def copy(self, units: Units) -> Waiting | None:
        """All rows of these units; they stay."""
        if not self.counts[units].any():
            return None
        self._join()
        found = ((chunk, np.concatenate([chunk.of(unit) for unit in units.tolist()])) for chunk in self._joined)
        return Waiting.joined([chunk.waiting.pick(places) for chunk, places in found if len(places)])

    def extract(self, unit: int) -> Waiting | None:
        """Take out all rows of a unit."""
        found = self.look(unit, leave=False)
        if found is not None:
            self.counts[unit] = 0
            self._sweep()
        return found

    def look(self, unit: int, leave: bool = True) -> Waiting | None:
        """A copy of all rows of a unit; they stay if they are to be left."""
        if not self.counts[unit]:
            return None
        self._join()
        parts = []
        for chunk in self._joined:
            places = chunk.of(unit)
            if len(places):
                parts.append(chunk.waiting.pick(places))
                if not leave:
                    chunk.remove(places)
        return Waiting.joined(parts)

    def sizes(self, units: Units) -> Longs:
        """Bytes of the rows of each of the units, by the average row."""
        chunks = self._chunks
        rows = sum(len(chunk.waiting) for chunk in chunks)
        each = sum(chunk.nbytes for chunk in chunks) / rows if rows else 0.0
        return (self.counts[units] * each).astype(np.int64)

    def _join(self) -> None:
        """Make few batches of many: each is at least twice as large as the one after it, or as large as they get."""
        if self._fresh:
            self._joined += _merged(self._fresh)
            self._fresh = []
        while len(self._joined) > 1 and self._joined[-2].nbytes < 2 * self._joined[-1].nbytes < MERGED_BYTES:
            self._joined[-2:] = _merged(self._joined[-2:])

    def _sweep(self) -> None:
        """Let go of what has left."""
        kept = [chunk for chunk in self._joined if chunk.left]
        self._joined = [
            _Chunk(chunk.rest()) if 2 * chunk.left < len(chunk.waiting) else chunk  # half of it is of no use
            for chunk in kept
        ]


def _merged(chunks: Iterable[_Chunk]) -> list[_Chunk]:
    """The rows that are here, in batches of about MERGED_BYTES."""
    merged: list[_Chunk] = []
    parts: list[Waiting] = []
    size = 0
    for chunk in chunks:
        if parts and size + chunk.nbytes > MERGED_BYTES:
            merged.append(_Chunk(Waiting.joined(parts)))
            parts, size = [], 0
        parts.append(chunk.rest())
        size += chunk.nbytes
    if parts:
        merged.append(_Chunk(Waiting.joined(parts)))
    return merged
