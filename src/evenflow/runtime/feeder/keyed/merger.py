"""The keyed merger: makes whole results of what workers send back, and puts them in order where that is wanted.

A frame's answer comes in parts. Where rows wait for state on a worker's disk the parts are far between: the frame is
taken, and its results leave as they come, unless they have to be in order. Nothing here touches a socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.operators.hosted import ORIGIN
from evenflow.runtime.feeder.keyed.ages import FrameAges
from evenflow.runtime.feeder.keyed.order import Reorder
from evenflow.runtime.feeder.keyed.skew import ChunkPiece
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.wire.frames import Frame, Kind


@dataclass(slots=True)
class Sent:
    """A frame under way."""

    worker: int
    pieces: list[ChunkPiece]
    parts: list[pa.RecordBatch] = field(default_factory=list)
    taken: bool = False
    """Whether its worker has taken it in, and answers some of its rows later."""
    ages: FrameAges = field(init=False)

    def __post_init__(self) -> None:
        self.ages = FrameAges([(piece.arrived, piece.rows.num_rows) for piece in self.pieces])

    @property
    def size(self) -> int:
        """Bytes of rows that are kept here for it."""
        return sum(piece.size for piece in self.pieces)

    def rows(self) -> pa.RecordBatch:
        """All its rows."""
        batches = [piece.rows for piece in self.pieces]
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class KeyedMerger:
    """The frames of one feeder that are under way, and the results that may leave."""

    def __init__(self, schema: pa.Schema, kept: int, ordered: bool) -> None:
        self._frames: dict[int, Sent] = {}
        """By sequence, from 1 on."""
        self._sequence = self._chunks = 0
        self._reorder = Reorder() if ordered else None
        self._schema = schema
        self._kept = kept
        """How many columns of the rows stayed here; they come before the columns of the answers."""
        answered = list(schema)[kept:]
        self._schemas = pa.schema(answered), pa.schema([*answered, ORIGIN])
        """Of answers as they come; the second if their last column tells from which row of the frame each result is."""
        self._taken_bytes = 0
        self._asked: set[int] = set()
        self._ready: list[pa.RecordBatch] = []
        self._ages: list[tuple[float, int]] = []
        """When rows arrived that leave with `_ready`, and how many."""
        self._chunk_ages: deque[tuple[float, int]] = deque()
        """The same of the chunks that wait for their results, if in order."""

    def __len__(self) -> int:
        return len(self._frames)

    def expect(self, rows: int, arrived: float = 0.0) -> int:
        """Rows come in that are to leave together, if in order; the number of their chunk."""
        chunk = self._chunks
        self._chunks += 1
        if self._reorder is not None:
            self._reorder.expect(chunk, rows)
            self._chunk_ages.append((arrived, rows))
        return chunk

    def sent(self, worker: int, pieces: list[ChunkPiece]) -> int:
        """A frame goes out; its sequence."""
        self._sequence += 1
        self._frames[self._sequence] = Sent(worker, pieces)
        return self._sequence

    def __contains__(self, sequence: int) -> bool:
        return sequence in self._frames

    def owing(self) -> set[int]:
        """Workers that keep rows until they are asked to answer all they have taken."""
        return {sent.worker for sent in self._frames.values() if sent.taken} - self._asked

    def asked(self, worker: int) -> None:
        """A worker has been asked to answer all it has taken so far."""
        self._asked.add(worker)

    @property
    def held_bytes(self) -> int:
        """Bytes of rows and results that wait for other results."""
        return self._taken_bytes + (self._reorder.held_bytes if self._reorder is not None else 0)

    def ready(self) -> list[pa.RecordBatch]:
        """The results that may leave now."""
        ready, self._ready = self._ready, []
        return ready

    def ages(self) -> list[tuple[float, int]]:
        """When the rows that left since the last call had arrived, and how many."""
        ages, self._ages = self._ages, []
        return ages

    def answered(self, link: Link, frame: Frame) -> int:
        """Take a RESULT frame; the rows that the worker has finished with it, 0 if more is to come."""
        sent = self._frames.get(frame.sequence)
        if frame.kind is not Kind.RESULT or sent is None or sent.worker != link.worker:
            raise ProtocolError(f"{link} sent a {frame.kind.name} frame for sequence {frame.sequence}, unasked")
        rows = 0
        if frame.taken and not sent.taken:  # its worker may have the next frame
            link.answered(frame.sequence, 0.0)
            self.take(frame.sequence)
        elif not frame.more and not sent.taken:
            rows = link.answered(frame.sequence, frame.micros * 1e-6)
        part = link.read(frame, self._schemas[frame.told]) if len(frame.body) else None
        self.add(frame.sequence, part, frame.told, last=not frame.more)
        return rows

    def take(self, sequence: int) -> None:
        """Some rows of a frame wait for state on its worker's disk."""
        sent = self._frames[sequence]
        sent.taken = True
        self._asked.discard(sent.worker)
        if not self._kept and self._reorder is None:
            sent.pieces = []
        self._taken_bytes += sent.size

    def add(self, sequence: int, part: pa.RecordBatch | None, told: bool, last: bool) -> None:
        """Take results of some rows of a frame, or none; `last`: no more come. `told`: their last column is ORIGIN."""
        sent = self._frames[sequence]
        if part is not None:
            sent.parts.append(part)
        if last:
            del self._frames[sequence]
            self._taken_bytes -= sent.size if sent.taken else 0
        if self._reorder is None:
            if last:
                self._ages.extend(sent.ages.rest())
            elif sent.taken and part is not None:
                ages = sent.ages.of(part.columns[-1].to_numpy()) if told else sent.ages.some(part.num_rows)
                self._ages.extend(ages)
            if last or sent.taken:
                self._ready.extend(self._placed(sent, told))
        elif last:
            if sent.taken or (told and self._kept):
                self._reorder.place(sent.pieces, [self._sorted(sent)], True)
            else:
                self._reorder.place(sent.pieces, sent.parts if told else self._placed(sent, told), told)
            chunks = self._reorder.ready()
            self._ages.extend(self._chunk_ages.popleft() for _ in chunks)
            self._ready.extend(chunks)

    def _placed(self, sent: Sent, told: bool) -> list[pa.RecordBatch]:
        """The frame's results that are here, made whole; they are forgotten here."""
        parts, sent.parts = sent.parts, []
        if told:
            return [self._completed(sent, part) for part in parts]
        return list(self._whole(sent, parts)) if self._kept and parts else parts

    def _completed(self, sent: Sent, part: pa.RecordBatch) -> pa.RecordBatch:
        """Results whose last column tells their rows, with the columns of these rows that were kept here."""
        columns = part.columns[:-1]
        if self._kept:
            columns = [*sent.rows().take(part.columns[-1]).columns[: self._kept], *columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _whole(self, sent: Sent, parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Whole results: the columns that were kept here, and behind them the columns that came back."""
        added = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        start = 0
        for piece in sent.pieces:
            count = piece.rows.num_rows
            columns = [*piece.rows.columns[: self._kept], *added.slice(start, count).columns]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
            start += count

    def _sorted(self, sent: Sent) -> pa.RecordBatch:
        """All results of a frame, whole and in the order of its rows; the last column tells their rows."""
        part = pa.concat_batches(sent.parts)
        part = part.take(pa.array(np.argsort(part.columns[-1].to_numpy(), kind="stable")))
        return self._completed(sent, part).append_column(ORIGIN, part.columns[-1])
