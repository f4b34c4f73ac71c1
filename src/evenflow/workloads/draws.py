"""Random numbers that are functions of a seed and a row number: any part of a sequence can be made by itself."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from evenflow.model.compiled import compiled

ADD, M1, M2 = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
S30, S27, S31, S11 = (np.uint64(value) for value in (30, 27, 31, 11))
UNIT = 2.0**-53
Element = TypeVar("Element", bound=np.generic)


def locked(array: npt.NDArray[Element]) -> npt.NDArray[Element]:
    """`array`, contiguous and read-only."""
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


@compiled
def mixed(value):  # type: ignore[no-untyped-def]
    """The finisher of splitmix64."""
    value = (value ^ (value >> S30)) * M1
    value = (value ^ (value >> S27)) * M2
    return value ^ (value >> S31)


@compiled
def drawn(seed, row, stream):  # type: ignore[no-untyped-def]
    """64 random bits for a row; different streams are independent."""
    return mixed(mixed(seed * M1 + np.uint64(stream) * ADD) + np.uint64(row) * ADD)


@compiled
def uniform(seed, row, stream):  # type: ignore[no-untyped-def]
    """A number from 0 up to 1."""
    return np.float64(drawn(seed, row, stream) >> S11) * UNIT


@compiled
def uniforms(seed, rows, stream, out):  # type: ignore[no-untyped-def]
    """`uniform` for many rows."""
    for place in range(len(rows)):
        out[place] = uniform(seed, rows[place], stream)
