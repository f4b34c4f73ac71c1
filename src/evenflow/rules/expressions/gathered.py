"""Columns of pairs of rows, in which each value is stored once however often it occurs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Prepared: TypeAlias = Any
"""What a user's function makes of a column, in whatever form it likes."""
Preparation: TypeAlias = Callable[[pa.Array], Prepared]


class Gathered:
    """The column `values[index]`, in which values may repeat; a result of `prepare` is computed once per value."""

    def __init__(
        self, values: pa.Array, index: npt.NDArray[np.integer], made: dict[Preparation, Prepared] | None = None
    ) -> None:
        self.values, self.index = values, index
        self._made = {} if made is None else made

    def at(self, index: npt.NDArray[np.integer]) -> Gathered:
        """A column of the same values with another index."""
        return Gathered(self.values, index, self._made)

    def array(self) -> pa.Array:
        """The column as an Arrow array."""
        return self.values.take(pa.array(self.index))

    def objects(self) -> npt.NDArray[np.generic]:
        """The column as a user's function gets it."""
        found: npt.NDArray[np.generic] = self.made(as_numpy)[self.index]
        return found

    def made(self, prepare: Preparation) -> Prepared:
        """The result of `prepare` for `values` (without index), computed once."""
        if prepare not in self._made:
            self._made[prepare] = prepare(self.values)
        return self._made[prepare]


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def as_numpy(values: pa.Array) -> npt.NDArray[np.generic]:
    """Values as pandas has them: whole numbers with nulls as floats, times as datetime64."""
    if values.null_count == 0 and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        plain: npt.NDArray[np.generic] = values.to_numpy()
        return plain
    found: npt.NDArray[np.generic] = values.to_pandas().to_numpy()
    return found
