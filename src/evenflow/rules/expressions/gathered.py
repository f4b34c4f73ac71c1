"""Columns of pairs of rows: values that repeat are kept once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Gathered:
    """`values` at places `index`, which may repeat: what is made of a value is made once for all its repetitions."""

    def __init__(
        self, values: pa.Array, index: npt.NDArray[np.integer], made: dict[Callable[[pa.Array], Any], Any] | None = None
    ) -> None:
        self.values, self.index = values, index
        self._made = {} if made is None else made

    def at(self, index: npt.NDArray[np.integer]) -> Gathered:
        """The same values at other places."""
        return Gathered(self.values, index, self._made)

    def array(self) -> pa.Array:
        """The values, one by one."""
        return self.values.take(pa.array(self.index))

    def objects(self) -> npt.NDArray[Any]:
        """The values as a user's function gets them."""
        found: npt.NDArray[Any] = self.made(as_numpy)[self.index]
        return found

    def made(self, prepare: Callable[[pa.Array], Any]) -> Any:
        """What `prepare` makes of the values, of which `index` tells the places."""
        if prepare not in self._made:
            self._made[prepare] = prepare(self.values)
        return self._made[prepare]


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def as_numpy(values: pa.Array) -> npt.NDArray[Any]:
    """As pandas has them: whole numbers with nulls as floats, times as datetime64."""
    if values.null_count == 0 and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        plain: npt.NDArray[Any] = values.to_numpy()
        return plain
    found: npt.NDArray[Any] = values.to_pandas().to_numpy()
    return found
