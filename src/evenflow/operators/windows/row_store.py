"""A growing table whose rows are found by number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument

LARGEST = 1 << 29
"""Bytes of a chunk at most: the offsets of its strings have 32 bits."""


class RowStore:
    """Rows in chunks, each at least twice as long as the next, so that a row is copied rarely and chunks are few."""

    def __init__(self) -> None:
        self.chunks: list[pa.Table] = []
        self.length = 0

    def append(self, rows: pa.Table) -> int:
        """Add rows at the end; returns the number of the first."""
        first = self.length
        if rows.num_rows:
            self.chunks.append(rows)
            self.length += rows.num_rows
            while len(self.chunks) > 1 and self._should_merge(*self.chunks[-2:]):
                self.chunks[-2:] = [joined(self.chunks[-2:])]
        return first

    def take(self, numbers: npt.NDArray[np.int64]) -> pa.Table:
        """The rows with these numbers, in this order. The store must not be empty."""
        if len(self.chunks) == 1:
            return self.chunks[0].take(pa.array(numbers))
        starts = np.cumsum([0, *(chunk.num_rows for chunk in self.chunks)])
        home = np.searchsorted(starts, numbers, side="right") - 1
        order = np.argsort(home, kind="stable")
        ends = np.searchsorted(home[order], np.arange(len(self.chunks) + 1))
        parts = [
            chunk.take(pa.array(numbers[order[ends[place] : ends[place + 1]]] - starts[place]))
            for place, chunk in enumerate(self.chunks)
            if ends[place] < ends[place + 1]
        ]
        if len(parts) <= 1:  # in one chunk, `take` has kept the order
            return parts[0] if parts else self.chunks[0].slice(0, 0)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return joined(parts).take(pa.array(back))

    def keep(self, numbers: npt.NDArray[np.int64]) -> None:
        """Drop all rows but these, which get the numbers from 0 on."""
        kept = self.take(numbers) if self.length else None
        self.chunks = [kept] if kept is not None and kept.num_rows else []
        self.length = len(numbers)

    def row_bytes(self) -> int:
        """The average bytes of a row."""
        total: int = sum(chunk.nbytes for chunk in self.chunks)
        return total // max(1, self.length)

    @staticmethod
    def _should_merge(older: pa.Table, newer: pa.Table) -> bool:
        return bool(2 * newer.num_rows > older.num_rows and older.nbytes + newer.nbytes < LARGEST)


def joined(tables: list[pa.Table]) -> pa.Table:
    """The rows of all tables as one table with a single chunk per column."""
    *others, now = (", ".join(f"{field.name} {field.type}" for field in table.schema) for table in tables)
    was = next((other for other in others if other != now), now)
    if was != now:
        raise InvalidArgument(
            f"the state has rows with columns {was}, and now they have {now}: cast them to what they were (times by "
            "spark.sql.session.timeZone), or start without the state, with a new checkpoint"
        )
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def to_bytes(rows: pa.Table) -> bytes:
    """Rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def from_bytes(content: bytes) -> pa.Table:
    """The reverse of `to_bytes`."""
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()
