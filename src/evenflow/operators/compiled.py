"""Functions compiled by numba; importing this module is what imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Function = Callable[..., Any]

LARGE = 1 << 20
"""Bytes from which on arrays grow where they are: the system moves pages, and no second copy is in memory meanwhile."""


def compiled(function: Function) -> Function:
    """`function` as machine code, kept on disk beside its source or, if that is read-only, in the user's cache."""
    try:
        return _compile(function, cache=True)
    except RuntimeError:  # neither place can be written: every process compiles for itself
        return _compile(function, cache=False)


def _compile(function: Function, cache: bool) -> Function:
    machine: Function = njit(function, cache=cache, nogil=True, error_model="numpy")
    return machine


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
