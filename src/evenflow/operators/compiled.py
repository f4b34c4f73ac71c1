"""What operators compiled by numba share; importing this module is what imports numba."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.model.compiled import Function, compiled

__all__ = ["Function", "compiled", "grown", "readable"]

LARGE = 1 << 20
"""Bytes from which on arrays grow where they are: the system moves pages, and no second copy is in memory meanwhile."""


def readable(array: npt.ArrayLike, kind: type[np.generic]) -> npt.NDArray[Any]:
    """A contiguous, read-only view (or copy) of `array`: to numba every other flavour is a type of its own."""
    view = np.ascontiguousarray(array, dtype=kind).view()
    view.flags.writeable = False
    return view


def grown(array: npt.NDArray[Any], length: int, fill: float = 0) -> npt.NDArray[Any]:
    """`array` with its first axis made `length` long, what is new filled; nothing else may refer to `array`."""
    old = min(len(array), length)
    if array.nbytes >= LARGE and array.flags.owndata and array.flags.c_contiguous:
        array.resize((length, *array.shape[1:]), refcheck=False)  # what is new is zero
        if fill:
            array[old:] = fill
        return array
    other = np.empty((length, *array.shape[1:]), array.dtype)
    other[:old] = array[:old]
    other[old:] = fill
    return other
