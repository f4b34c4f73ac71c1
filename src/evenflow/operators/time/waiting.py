"""Rows that wait for their time, as values. Snapshots hold them by the name of this class and module."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.keyed import Keys, Units

Longs = npt.NDArray[np.int64]

FOREVER = np.iinfo(np.int64).max
"""A time that no row reaches."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Rows, and for each its unit, its key and the time for which it waits."""

    rows: pa.RecordBatch
    units: Units
    keys: Keys
    times: Longs

    def __len__(self) -> int:
        return len(self.units)

    def pick(self, places: npt.NDArray[np.integer]) -> Waiting:
        """A copy of the rows at some places."""
        rows = self.rows.take(pa.array(places))
        return Waiting(rows, self.units[places], self.keys[places], self.times[places])

    def part(self, start: int, stop: int) -> Waiting:
        """Consecutive rows; nothing is copied."""
        some = slice(start, stop)
        rows = self.rows.slice(start, stop - start)
        return Waiting(rows, self.units[some], self.keys[some], self.times[some])

    def packed(self) -> pa.Buffer:
        """The rows, units, keys and times as bytes."""
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
        """The rows of all parts, one part after the other; there is at least one."""
        if len(parts) == 1:
            return parts[0]
        rows = pa.concat_batches([part.rows for part in parts])
        units, keys, times = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("units", "keys", "times")
        )
        return Waiting(rows, units, keys, times)
