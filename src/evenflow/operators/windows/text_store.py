"""A growing list of texts that compiled code can compare. Importing this module imports numba."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.columns import is_string
from evenflow.operators.compiled import grown


class TextStore:
    """Strings or binary values, found by number as in a `RowStore`: value n is `letters[ends[n] : ends[n + 1]]`."""

    def __init__(self) -> None:
        self.ends = np.zeros(1024, np.int64)
        self.letters = np.empty(1024, np.uint8)
        self.kind, self.wide = pa.string(), pa.large_string()
        self.length = 0

    def append(self, rows: pa.Table) -> int:
        """Add the values of a table's only column at the end; returns the number of the first."""
        first, count = self.length, rows.num_rows
        if not count:
            return first
        self.kind = rows.schema.field(0).type
        self.wide = pa.large_string() if is_string(self.kind) else pa.large_binary()
        column = rows.column(0).combine_chunks().cast(self.wide)
        _, offsets, content = column.buffers()
        ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + count + 1]
        begin, used = int(self.ends[first]), int(ends[-1] - ends[0])
        if first + count + 1 > len(self.ends):
            self.ends = grown(self.ends, 2 * (first + count + 1))
        if begin + used > len(self.letters):
            self.letters = grown(self.letters, 2 * (begin + used))
        self.ends[first + 1 : first + 1 + count] = ends[1:] + (begin - ends[0])
        if used:
            self.letters[begin : begin + used] = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
        self.length += count
        return first

    def take(self, numbers: npt.NDArray[np.int64]) -> pa.Table:
        """The values with these numbers, in this order, as the only column of a table."""
        buffers: list[pa.Buffer | None] = [None, pa.py_buffer(self.ends), pa.py_buffer(self.letters)]
        everything = pa.Array.from_buffers(self.wide, self.length, buffers)
        return pa.table([everything.take(pa.array(numbers)).cast(self.kind)], names=["value"])

    def keep(self, numbers: npt.NDArray[np.int64]) -> None:
        """Drop all values but these, which get the numbers from 0 on."""
        kept = self.take(numbers)
        self.__init__()  # type: ignore[misc]
        self.append(kept)

    def row_bytes(self) -> int:
        """The average bytes of a value."""
        return 8 + int(self.ends[self.length]) // max(1, self.length)
