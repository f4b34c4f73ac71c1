"""Columns of pairs of rows: values that repeat are kept once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Gathered:
    """`values` at places `index`, which may repeat: text is decoded once for all its repetitions."""

    def __init__(self, values: pa.Array, index: npt.NDArray[np.integer], objects: Any = None) -> None:
        self.values, self.index = values, index
        self._objects = [] if objects is None else objects

    def at(self, index: npt.NDArray[np.integer]) -> Gathered:
        """The same values at other places."""
        return Gathered(self.values, index, self._objects)

    def array(self) -> pa.Array:
        """The values, one by one."""
        return self.values.take(pa.array(self.index))

    def objects(self) -> npt.NDArray[Any]:
        """The values as a user's function gets them."""
        if not self._objects:
            self._objects.append(as_numpy(self.values))
        found: npt.NDArray[Any] = self._objects[0][self.index]
        return found


def as_numpy(values: pa.Array) -> npt.NDArray[Any]:
    """As pandas has them: whole numbers with nulls as floats, times as datetime64."""
    if values.null_count == 0 and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        plain: npt.NDArray[Any] = values.to_numpy()
        return plain
    found: npt.NDArray[Any] = values.to_pandas().to_numpy()
    return found
