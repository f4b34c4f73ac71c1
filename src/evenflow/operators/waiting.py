"""The waiting room: rows of all units of a worker, until their time has come.

Rows are kept as they came, in few large batches for all units together: a batch for each unit would be a thousand small
ones. Rows that leave are marked; a batch goes when its last row does, and is copied when half of it has gone. What lies
where is looked up by unit once somebody asks.

Where memory is short rows go to disk by their time, the latest first, and come back when it has come: so a row is
written and read about once, however many ticks pass while it waits. A file has rows of some stretch of time, and in it
those of units with numbers close to each other lie together, since ticks are of some units at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.keyed import Keys, Units

MERGED_BYTES = 32 << 20
"""Batches are joined up to about this size: larger ones take longer to copy, and their memory longer to come free."""

SLICES = 4
"""A batch that is as large as they get goes to disk in so many stretches of time, which come back one by one."""
BANDS = 128
"""Units of a file are read in so many parts."""
FRESH = 256
"""Batches that are left as they came, at most."""
MANY = 12
"""Units with more than this part of the rows are found by going through all rows: sorting these takes longer."""
ROW_BYTES = 24
"""Of a row beside its columns: unit, key, time, and its place by unit."""

Longs = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
Places = npt.NDArray[np.uint32]

FOREVER = np.iinfo(np.int64).max
"""A time that no row reaches."""


class File(Protocol):
    """Entries on disk, each a list of things with bytes."""

    @property
    def live(self) -> int:
        """Bytes of them."""

    def append(self, items: Iterable[tuple[int, list[Any]]]) -> None:
        """Add entries; all or, with an error, none."""

    def read(self, numbers: Iterable[int]) -> Iterator[tuple[int, list[memoryview]]]:
        """Entries, which stay."""

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget entries; the file is removed with the last of them."""


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

    def packed(self) -> pa.Buffer:
        """All of it, as bytes."""
        columns = [*self.rows.columns, *map(pa.array, (self.units, self.keys, self.times))]
        fields = [*self.rows.schema, *(pa.field("", column.type) for column in columns[-3:])]
        sink = pa.BufferOutputStream()
        batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue()

    @staticmethod
    def unpacked(content: memoryview) -> Waiting:
        """The reverse of `packed`."""
        batch = pa.ipc.open_stream(pa.py_buffer(content)).read_next_batch()
        width = batch.num_columns - 3
        units, keys, times = (batch.column(width + i).to_numpy() for i in range(3))
        return Waiting(batch.select(list(range(width))), units, keys, times)

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
        self.nbytes = int(waiting.rows.nbytes) + ROW_BYTES * len(waiting)
        self.earliest, self.latest = int(waiting.times.min()), int(waiting.times.max())
        self._here: Marks | None = None
        """None while all are."""
        self._by_unit: tuple[Places, Longs] | None = None
        """The places of the rows, unit by unit; and where each unit's begin, and the last one's end."""

    @property
    def whole(self) -> bool:
        """Whether no row has left."""
        return self._here is None

    def of(self, units: Units, many: bool = False) -> Places:
        """The places of the rows of some units that are here."""
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

    def due(self, units: Units, until: Longs, many: bool) -> Places:
        """The places of rows of some units whose time is before `until` of their unit."""
        places = self.of(units, many)
        waiting = self.waiting
        found: Places = places[waiting.times[places] < until[waiting.units[places]]]
        return found

    def remove(self, places: npt.NDArray[np.integer]) -> None:
        """These rows leave."""
        if self._here is None:
            self._here = np.ones(len(self.waiting), np.bool_)
        self._here[places] = False
        self.left -= len(places)

    def rest(self) -> Waiting:
        """The rows that are here; not copied if none has left."""
        return self.waiting if self._here is None else self.waiting.pick(np.flatnonzero(self._here))


class _Shelved:
    """Rows of some stretch of time on disk; the entries of the file are bands of units."""

    def __init__(self, waiting: Waiting, width: int, file: File) -> None:
        self.earliest, self.latest = int(waiting.times.min()), int(waiting.times.max())
        self.left = len(waiting)
        self._width, self._file = width, file
        bands = waiting.units // width
        bounds = np.concatenate([[0], np.cumsum(np.bincount(bands, minlength=1))])
        ordered = waiting.pick(np.argsort(bands.astype(np.uint8), kind="stable"))
        self._bands = set(np.flatnonzero(np.diff(bounds)).tolist())
        parts = {band: _part(ordered, *bounds[band : band + 2].tolist()) for band in sorted(self._bands)}
        file.append((band, [part.packed()]) for band, part in parts.items())

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self._file.live

    def drop(self) -> None:
        """Remove the file."""
        self._file.drop(self._bands)

    def read(self, units: Units) -> list[Waiting]:
        """Rows of these units, and of others that lie beside them; they stay."""
        bands = self._bands.intersection((units // self._width).tolist())
        return [Waiting.unpacked(content) for _, (content,) in self._file.read(sorted(bands))] if bands else []

    def take(self, units: Units) -> list[Waiting]:
        """Rows of these units, and of others that lie beside them."""
        found = self.read(units)
        bands = {int(part.units[0]) // self._width for part in found}
        if bands:
            self._file.drop(bands)
        self._bands -= bands
        self.left -= sum(map(len, found))
        return found


class WaitingRoom:
    """Rows of up to `units` units."""

    def __init__(self, units: int) -> None:
        self.counts = np.zeros(units, np.int64)
        """Rows of each unit, in memory and on disk."""
        self._fresh: list[_Chunk] = []
        """As they came."""
        self._joined: list[_Chunk] = []
        self._shelved: list[_Shelved] = []
        self.largest = MERGED_BYTES
        self._width = -(-units // BANDS)

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def _chunks(self) -> list[_Chunk]:
        return [*self._joined, *self._fresh]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(chunk.nbytes for chunk in self._chunks)

    @property
    def shelved(self) -> int:
        """Bytes on disk."""
        return sum(shelved.nbytes for shelved in self._shelved)

    def add(self, waiting: Waiting) -> None:
        """Rows come in."""
        if len(waiting):
            self._fresh.append(_Chunk(waiting))
            self.counts += np.bincount(waiting.units, minlength=len(self.counts))
            if len(self._fresh) > FRESH:
                self._join()

    def shelve(self, amount: int, file: Callable[[], File]) -> None:
        """Put rows on disk, those that wait longest first: at least `amount` bytes, if there are so many."""
        self._join()
        wanted = self.nbytes - amount
        for chunk in sorted(self._joined, key=lambda each: each.earliest, reverse=True):
            if self.nbytes <= wanted:
                return
            rest = chunk.rest()
            order = np.argsort(rest.times, kind="stable")
            made: list[_Shelved] = []
            try:
                for some in np.array_split(order, min(len(order), max(1, SLICES * chunk.nbytes // self.largest))):
                    made.append(_Shelved(rest.pick(some), self._width, file()))
            except BaseException:  # a full disk: all of it is still here
                for shelved in made:
                    shelved.drop()
                raise
            self._shelved += made
            self._joined.remove(chunk)

    def take(self, units: Units, until: Longs | None = None) -> Waiting | None:
        """Take out rows of these units whose time is before `until`, told for every unit there is; or all of them."""
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
        """All rows of these units; they stay."""
        if not self.counts[units].any():
            return None
        self._join()
        read = (_Chunk(part) for shelved in self._shelved for part in shelved.read(units))
        found = ((chunk, chunk.of(units)) for chunks in (self._joined, read) for chunk in chunks)
        return Waiting.joined([chunk.waiting.pick(places) for chunk, places in found if len(places)])

    def extract(self, unit: int) -> Waiting | None:
        """Take out all rows of a unit."""
        return self.take(np.array([unit], np.int32))

    def look(self, unit: int) -> Waiting | None:
        """A copy of all rows of a unit."""
        return self.copy(np.array([unit], np.int32))

    def sizes(self, units: Units) -> Longs:
        """Bytes of the rows of each of the units, wherever they are, by the average row."""
        chunks = self._chunks
        rows = sum(len(chunk.waiting) for chunk in chunks) + sum(shelved.left for shelved in self._shelved)
        each = (self.nbytes + self.shelved) / rows if rows else 0.0
        return (self.counts[units] * each).astype(np.int64)

    def _unshelve(self, units: Units, most: int | None) -> None:
        """Read in rows of these units that lie in files with times before `most`, or in any."""
        for shelved in self._shelved:
            if most is None or shelved.earliest < most:
                self._fresh += map(_Chunk, shelved.take(units))
        self._shelved = [shelved for shelved in self._shelved if shelved.left]

    def _join(self) -> None:
        """Make few batches of many: each is at least twice as large as the one after it, or as large as they get."""
        if self._fresh:
            self._joined += _merged(self._fresh, self.largest)
            self._fresh = []
        while len(self._joined) > 1:
            before, last = (chunk.nbytes for chunk in self._joined[-2:])
            if before >= 2 * last or before + last > self.largest:
                return
            self._joined[-2:] = _merged(self._joined[-2:], self.largest)

    def _sweep(self) -> None:
        """Let go of what has left."""
        kept = [chunk for chunk in self._joined if chunk.left]
        self._joined = [
            _Chunk(chunk.rest()) if 2 * chunk.left < len(chunk.waiting) else chunk  # half of it is of no use
            for chunk in kept
        ]


def _merged(chunks: Iterable[_Chunk], largest: int) -> list[_Chunk]:
    """The rows that are here, in batches of about `largest` bytes."""
    merged: list[_Chunk] = []
    parts: list[Waiting] = []
    size = 0
    for chunk in chunks:
        if parts and size + chunk.nbytes > largest:
            merged.append(_Chunk(Waiting.joined(parts)))
            parts, size = [], 0
        parts.append(chunk.rest())
        size += chunk.nbytes
    if parts:
        merged.append(_Chunk(Waiting.joined(parts)))
    return merged


def _part(waiting: Waiting, start: int, stop: int) -> Waiting:
    """Consecutive rows; nothing is copied."""
    some = slice(start, stop)
    rows = waiting.rows.slice(start, stop - start)
    return Waiting(rows, waiting.units[some], waiting.keys[some], waiting.times[some])
