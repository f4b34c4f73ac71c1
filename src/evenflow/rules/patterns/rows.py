"""The rows of matches under way, found by number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
LEAST = 4096
"""Newer rows to collect, at least, before it is worth finding out which rows are still needed."""


class KeptRows:
    """Rows of past frames that may still be needed, and all rows of the current frame. Row numbers only grow.

    Past rows are in two segments, an old one and a shorter one of newer rows, so that adding rows is cheap. When the
    newer is a quarter of the old, both are merged without the rows that are not needed any more.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._frame = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        self._segments: list[tuple[Numbers, pa.RecordBatch]] = 2 * [(np.empty(0, np.int64), self._frame)]
        self.base = 0
        """The number of the first row of the current frame."""

    def __len__(self) -> int:
        return sum(len(numbers) for numbers, _ in self._segments)

    @property
    def row_bytes(self) -> int:
        """The average size in bytes of one kept row."""
        return sum(int(batch.nbytes) for _, batch in self._segments) // max(1, len(self))

    def begin(self, rows: pa.RecordBatch) -> None:
        """Begin a frame; its row n gets number `base + n`."""
        self._frame, self._length = rows.select(self.schema.names), rows.num_rows

    def end(self, taken: Iterable[int], needed: Callable[[], Iterable[int]]) -> None:
        """End the frame and keep the rows that were taken. `needed`, called now and then, lists all needed rows."""
        if self.schema.names:
            numbers = np.unique(np.fromiter(taken, np.int64))
            self._append(numbers, self._frame.take(pa.array(numbers - self.base)))
        self.base += self._length
        self._frame = self._frame.slice(0, 0)
        old, new = (len(segment[0]) for segment in self._segments)
        if new > max(LEAST, old // 4):
            self._merge(np.unique(np.fromiter(needed(), np.int64)))

    def add(self, rows: pa.RecordBatch, count: int) -> int:
        """Add rows of another copy; returns the number of the first."""
        first = self.base
        self._append(np.arange(first, first + rows.num_rows), rows)
        self.base += count
        return first

    def column(self, name: str, numbers: Numbers) -> pa.Array:
        """A column of the rows with these numbers; null for number -1."""
        bounds = np.array([self._segments[1][0][0] if len(self._segments[1][0]) else self.base, self.base])
        segment = np.searchsorted(bounds, numbers, side="right")
        which = np.unique(segment)
        if len(which) < 2:
            return self._take(int(which.sum()), name, numbers)
        order = np.argsort(segment, kind="stable")
        parts = [self._take(int(each), name, numbers[segment == each]) for each in which]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(place))

    def rows(self, numbers: Sequence[int]) -> pa.RecordBatch:
        """The rows with these numbers, all columns."""
        wanted = np.array(numbers, np.int64)
        return pa.RecordBatch.from_arrays([self.column(name, wanted) for name in self.schema.names], schema=self.schema)

    def _take(self, segment: int, name: str, numbers: Numbers) -> pa.Array:
        if segment == 2:
            return self._frame.column(name).take(pa.array(numbers - self.base))
        known, batch = self._segments[segment]
        places = np.searchsorted(known, numbers)
        return batch.column(name).take(pa.array(places, mask=numbers < 0))

    def _append(self, numbers: Numbers, rows: pa.RecordBatch) -> None:
        if len(numbers):
            old, batch = self._segments[1]
            self._segments[1] = np.concatenate([old, numbers]), pa.concat_batches([batch, rows])

    def _merge(self, needed: Numbers) -> None:
        numbers = np.concatenate([known for known, _ in self._segments])
        batch = pa.concat_batches([rows for _, rows in self._segments])
        wanted = np.isin(numbers, needed)
        self._segments[0] = numbers[wanted], batch.filter(pa.array(wanted))
        self._segments[1] = np.empty(0, np.int64), batch.slice(0, 0)
