"""The transient-skew buffer (flux §4): rows between Spark and the connections, by the worker that owns their unit.

Space is shared by all destinations. Rows of a paused unit are set aside until the unit is released, those that waited
for its old owner among them, so the rows of one unit never change their order. Nothing here touches a socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.hosted import units_of, values_of

if TYPE_CHECKING:
    from evenflow.runtime.feeder.keyed.two_choices import TwoChoices

Places = npt.NDArray[np.int64]
Arrivals = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
"""Numbers of units, and how many rows of each."""

ANYBODY = -1
"""The destination of rows that any worker may take."""


@dataclass(slots=True)
class ChunkPiece:
    """Some rows of one chunk of the input, and their places in it."""

    rows: pa.RecordBatch
    row_bytes: float
    """Bytes of a row of the chunk on average: to count them for each slice takes longer than to send them."""
    chunk: int = 0
    places: Places | None = None
    arrived: float = 0.0
    """When the chunk came."""

    @property
    def size(self) -> int:
        """Bytes, estimated."""
        return int(self.rows.num_rows * self.row_bytes)

    def cut(self, start: int, count: int | None = None) -> ChunkPiece:
        """Some of the rows, without copying."""
        end = None if count is None else start + count
        places = None if self.places is None else self.places[start:end]
        return ChunkPiece(self.rows.slice(start, count), self.row_bytes, self.chunk, places, self.arrived)

    def pick(self, which: npt.NDArray[np.bool_]) -> ChunkPiece:
        """The rows that `which` marks."""
        places = None if self.places is None else self.places[which]
        return ChunkPiece(self.rows.filter(pa.array(which)), self.row_bytes, self.chunk, places, self.arrived)


@dataclass(slots=True)
class _Hold:
    """Rows of units that are being moved."""

    units: npt.NDArray[np.int32]
    slot: int
    pieces: list[ChunkPiece] = field(default_factory=list)


class SkewBuffer:
    """Rows by destination; the hashes of their keys are the last column.

    Rows go to the owner of their unit; if not `by_content`, to anybody or, given `choices`, where these say.
    """

    def __init__(
        self, owners: npt.NDArray[np.int32], by_content: bool = True, choices: TwoChoices | None = None
    ) -> None:
        self.bytes = 0
        self.rows = 0
        self.anybody = not by_content and choices is None
        """Whether any worker may take any row."""
        self._choices = choices
        self._destination = owners.astype(np.int16)
        self._queues: dict[int, deque[ChunkPiece]] = {}
        self._waiting: dict[int, int] = {}
        self._holds: dict[int, _Hold] = {}
        self._arrived: list[npt.NDArray[np.int32]] = []

    def insert(self, batch: pa.RecordBatch, chunk: int = 0, ordered: bool = False, arrived: float = 0.0) -> None:
        """Take rows in, sorted by where they go."""
        row_bytes = batch.nbytes / max(1, batch.num_rows)
        whole = ChunkPiece(batch, row_bytes, chunk, np.arange(batch.num_rows) if ordered else None, arrived)
        if self.anybody:
            self._append(ANYBODY, whole)
            return
        destination = self._destinations(batch)
        counts = np.bincount(destination)
        targets = np.flatnonzero(counts)
        if len(targets) == 1:
            self._put(int(targets[0]), whole)
            return
        order = np.argsort(destination, kind="stable")  # 16 bits: a radix sort
        taken = batch.take(pa.array(order))
        start = 0
        for target in targets.tolist():
            end = start + int(counts[target])
            places = order[start:end] if ordered else None
            self._put(target, ChunkPiece(taken.slice(start, end - start), row_bytes, chunk, places, arrived))
            start = end

    def _destinations(self, batch: pa.RecordBatch) -> npt.NDArray[np.int16]:
        """Where each row goes."""
        if self._choices is not None:
            return self._choices.of(values_of(batch.column(batch.num_columns - 1)))
        units = self.units(batch)
        self._arrived.append(units)
        return self._destination[units]

    def arrivals(self) -> Arrivals:
        """Units with rows taken in since the last call, and how many rows."""
        counts = np.bincount(np.concatenate(self._arrived)) if self._arrived else np.zeros(0, np.int64)
        self._arrived = []
        units = np.flatnonzero(counts)
        return units.astype(np.int32), counts[units].astype(np.int64)

    def waiting(self, worker: int) -> int:
        """Rows a worker could be sent now."""
        return self._waiting.get(worker, 0) + self._waiting.get(ANYBODY, 0)

    def full(self, limit: int, divided: bool = False) -> bool:
        """Whether `limit` bytes wait; if `divided`, for one worker or movement. A limit of 0 is reached by any row."""
        if not self.rows or not divided:
            return self.rows > 0 and self.bytes >= limit
        held = (sum(piece.rows.num_rows for piece in hold.pieces) for hold in self._holds.values())
        return bool(max(*self._waiting.values(), *held, 0) * self.bytes >= limit * self.rows)

    def retrieve(self, worker: int, most: int) -> list[ChunkPiece]:
        """At most `most` rows for a worker, oldest first; `most` is at least 1."""
        source = ANYBODY if self.anybody else worker
        queue = self._queues.get(source)
        pieces: list[ChunkPiece] = []
        while queue and most > 0:
            piece = queue.popleft()
            if piece.rows.num_rows > most:
                queue.appendleft(piece.cut(most))
                piece = piece.cut(0, most)
            most -= piece.rows.num_rows
            pieces.append(piece)
        gone = sum(piece.rows.num_rows for piece in pieces)
        self._waiting[source] = self._waiting.get(source, 0) - gone
        self.rows -= gone
        self.bytes -= sum(piece.size for piece in pieces)
        if not self.rows:
            self.bytes = 0  # sizes of slices are rounded
        return pieces

    def pause(self, move: int, units: Iterable[int]) -> set[int]:
        """Hold rows of these units back from now on; returns earlier movements that held some of the units."""
        chosen = np.fromiter(units, np.int32)
        slot = self._free_slot()
        owners = set(self._destination[chosen].tolist())
        self._destination[chosen] = slot
        marked = np.zeros(len(self._destination), np.bool_)
        marked[chosen] = True
        hold = _Hold(chosen, slot)
        earlier = {number for number, other in self._holds.items() if marked[other.units].any()}
        for number in earlier:
            other = self._holds[number]
            other.units = other.units[~marked[other.units]]
            taken, other.pieces = self._parted(other.pieces, marked)
            hold.pieces.extend(taken)
        for owner in owners & self._queues.keys():
            taken, kept = self._parted(self._queues[owner], marked)
            hold.pieces.extend(taken)
            self._queues[owner] = deque(kept)
            self._waiting[owner] = sum(piece.rows.num_rows for piece in kept)
        self._holds[move] = hold
        return earlier

    def release(self, move: int, worker: int) -> None:
        """The units of a movement are at `worker` now."""
        hold = self._holds.pop(move)
        self._destination[hold.units] = worker
        for piece in hold.pieces:
            self._count(piece, -1)
            self._append(worker, piece)

    def _parted(
        self, pieces: Iterable[ChunkPiece], marked: npt.NDArray[np.bool_]
    ) -> tuple[list[ChunkPiece], list[ChunkPiece]]:
        """The pieces in two: rows of marked units, and the others."""
        taken: list[ChunkPiece] = []
        kept: list[ChunkPiece] = []
        for piece in pieces:
            which = marked[self.units(piece.rows)]
            if not which.any():
                kept.append(piece)
                continue
            taken.append(piece.pick(which))
            rest = piece.pick(~which)
            if rest.rows.num_rows:
                kept.append(rest)
        return taken, kept

    def _put(self, target: int, piece: ChunkPiece) -> None:
        hold = next((hold for hold in self._holds.values() if hold.slot == target), None) if self._holds else None
        if hold is None:
            self._append(target, piece)
        else:
            hold.pieces.append(piece)
            self._count(piece, 1)

    def _append(self, target: int, piece: ChunkPiece) -> None:
        self._queues.setdefault(target, deque()).append(piece)
        self._waiting[target] = self._waiting.get(target, 0) + piece.rows.num_rows
        self._count(piece, 1)

    def _count(self, piece: ChunkPiece, sign: int) -> None:
        self.rows += sign * piece.rows.num_rows
        self.bytes += sign * piece.size

    def _free_slot(self) -> int:
        """A number that is no worker's, for the units of one movement."""
        used = {hold.slot for hold in self._holds.values()}
        return next(slot for slot in range(np.iinfo(np.int16).max, 0, -1) if slot not in used)

    def units(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """The unit of each row."""
        return units_of(batch.column(batch.num_columns - 1), len(self._destination))


def two_choices(workers: Iterable[int]) -> TwoChoices:
    """How rows of one key are split between two of the workers."""
    from evenflow.runtime.feeder.keyed.two_choices import TwoChoices  # numba comes with it: only those who use it pay

    return TwoChoices(workers)
