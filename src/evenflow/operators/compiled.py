"""What operators compiled by numba share. Importing this module imports numba."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from evenflow.model.compiled import Function, compiled, compiled_in_place

__all__ = ["Element", "Function", "compiled", "compiled_in_place", "grown", "readable"]

Element = TypeVar("Element", bound=np.generic)

LARGE = 1 << 20
"""Arrays of this many bytes or more grow in place: the system moves pages, and there is never a second copy."""


def readable(array: npt.ArrayLike, kind: type[Element]) -> npt.NDArray[Element]:
    """A contiguous, read-only view (or copy) of `array`: numba would compile its code anew for any other kind."""
    view = np.ascontiguousarray(array, dtype=kind).view()
    view.flags.writeable = False
    return view


def grown(array: npt.NDArray[Element], length: int, fill: float = 0) -> npt.NDArray[Element]:
    """`array` with a first axis of `length`, new elements being `fill`; nothing else may refer to `array`."""
    old = min(len(array), length)
    if array.nbytes >= LARGE and array.flags.owndata and array.flags.c_contiguous:
        array.resize((length, *array.shape[1:]), refcheck=False)  # new elements are 0
        if fill:
            array[old:] = fill
        return array
    other = np.empty((length, *array.shape[1:]), array.dtype)
    other[:old] = array[:old]
    other[old:] = fill
    return other
