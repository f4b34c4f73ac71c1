"""Puts the results of a keyed operator back into the order of their rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.runtime.feeder.keyed.skew import ChunkPiece, Places


@dataclass(slots=True)
class _Chunk:
    """One batch of the input, and the results of its rows so far."""

    missing: int
    """Rows without results."""
    parts: list[pa.RecordBatch] = field(default_factory=list)
    places: list[Places] = field(default_factory=list)


class Reorder:
    """Chunks leave in order, each when the results of all its rows are here."""

    def __init__(self) -> None:
        self.held_bytes = 0
        """Bytes of results that wait."""
        self._chunks: dict[int, _Chunk] = {}

    def expect(self, chunk: int, rows: int) -> None:
        """Take note of a chunk of `rows` rows; chunks are numbered as they come."""
        self._chunks[chunk] = _Chunk(rows)

    def place(self, pieces: list[ChunkPiece], parts: list[pa.RecordBatch], told: bool) -> None:
        """Take the results of pieces sent in one frame; `told`: their last column says which row each is of."""
        whole = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        rows = sum(piece.rows.num_rows for piece in pieces)
        origin = whole.column(whole.num_columns - 1).to_numpy() if told else np.arange(rows)
        if told:
            whole = whole.select(list(range(whole.num_columns - 1)))
        start = 0
        for piece in pieces:
            end = start + piece.rows.num_rows
            low, high = np.searchsorted(origin, (start, end))
            chunk = self._chunks[piece.chunk]
            assert piece.places is not None
            part = whole.slice(low, high - low)
            chunk.parts.append(part)
            chunk.places.append(piece.places[origin[low:high] - start])
            chunk.missing -= piece.rows.num_rows
            self.held_bytes += part.nbytes
            start = end

    def ready(self) -> list[pa.RecordBatch]:
        """The chunks that may leave now, in order."""
        out = []
        for number, chunk in list(self._chunks.items()):
            if chunk.missing:
                break
            del self._chunks[number]
            self.held_bytes -= sum(part.nbytes for part in chunk.parts)
            places = np.concatenate(chunk.places)
            out.append(pa.concat_batches(chunk.parts).take(pa.array(np.argsort(places, kind="stable"))))
        return out
