"""The keyed merger: makes whole results of what workers send back, and puts them in order where that is wanted.

A frame's answer comes in parts. Where rows wait for state on a worker's disk the parts are far between: the frame is
taken, and its results leave as they come, unless they must wait for their turn. Nothing here touches a socket.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.operators.hosted import ORIGIN
from evenflow.runtime.feeder.keyed_order import Reorder
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.feeder.skew import Piece


@dataclass(slots=True)
class Sent:
    """A frame under way."""

    link: Link
    pieces: list[Piece]
    parts: list[pa.RecordBatch] = field(default_factory=list)
    taken: bool = False
    """Whether its worker has taken it in, and answers some of its rows later."""

    @property
    def size(self) -> int:
        """Bytes that are kept here for it."""
        return sum(piece.size for piece in self.pieces)

    def rows(self) -> pa.RecordBatch:
        """All its rows."""
        batches = [piece.rows for piece in self.pieces]
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class KeyedMerger:
    """The frames of one feeder that are under way, and the results that may leave."""

    def __init__(self, schema: pa.Schema, kept: int, ordered: bool) -> None:
        self.frames: dict[int, Sent] = {}
        """By sequence."""
        self.reorder = Reorder() if ordered else None
        self._schema = schema
        self._kept = kept
        """So many columns of the rows stayed here, and come before those of the answers."""
        answered = list(schema)[kept:]
        self.schemas = pa.schema(answered), pa.schema([*answered, ORIGIN])
        """Of answers as they come; the second of those whose last column tells of which row each is."""
        self._taken_bytes = 0
        self._ready: list[pa.RecordBatch] = []

    @property
    def held_bytes(self) -> int:
        """Of rows and results that wait for other results."""
        return self._taken_bytes + (self.reorder.held_bytes if self.reorder is not None else 0)

    def ready(self) -> list[pa.RecordBatch]:
        """The results that may leave now."""
        ready, self._ready = self._ready, []
        return ready

    def take(self, sent: Sent) -> None:
        """Some rows of a frame wait for state on disk."""
        sent.taken = True
        if not self._kept and self.reorder is None:
            sent.pieces = []
        self._taken_bytes += sent.size

    def add(self, sequence: int, part: pa.RecordBatch | None, told: bool, last: bool) -> None:
        """Results of some rows of a frame, or none of them; `last`: there are no more."""
        sent = self.frames[sequence]
        if part is not None:
            sent.parts.append(part)
        if last:
            del self.frames[sequence]
            self._taken_bytes -= sent.size if sent.taken else 0
        if self.reorder is None:
            if last or sent.taken:
                self._ready.extend(self._placed(sent, told))
        elif last:
            if sent.taken or (told and self._kept):
                self.reorder.place(sent.pieces, [self._sorted(sent)], True)
            else:
                self.reorder.place(sent.pieces, sent.parts if told else self._placed(sent, told), told)
            self._ready.extend(self.reorder.ready())

    def _placed(self, sent: Sent, told: bool) -> list[pa.RecordBatch]:
        """The results that are here, whole; they are not kept."""
        parts, sent.parts = sent.parts, []
        if told:
            return [self._completed(sent, part) for part in parts]
        return list(self._whole(sent, parts)) if self._kept and parts else parts

    def _completed(self, sent: Sent, part: pa.RecordBatch) -> pa.RecordBatch:
        """Results whose last column tells of which row each is, with the columns of these rows that were kept here."""
        columns = part.columns[:-1]
        if self._kept:
            columns = [*sent.rows().take(part.columns[-1]).columns[: self._kept], *columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _whole(self, sent: Sent, parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that were kept here, each with the columns that came back for it."""
        added = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        start = 0
        for piece in sent.pieces:
            count = piece.rows.num_rows
            columns = [*piece.rows.columns[: self._kept], *added.slice(start, count).columns]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
            start += count

    def _sorted(self, sent: Sent) -> pa.RecordBatch:
        """All results of a frame, whole and in the order of its rows, of which the last column tells."""
        part = pa.concat_batches(sent.parts)
        part = part.take(pa.array(np.argsort(part.columns[-1].to_numpy(), kind="stable")))
        return self._completed(sent, part).append_column(ORIGIN, part.columns[-1])
