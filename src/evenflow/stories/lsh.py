"""Fingerprints of vectors by random hyperplanes: similar vectors are likely to have the same fingerprint."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from evenflow.errors import InvalidArgument
from evenflow.model.given import whole_of
from evenflow.operators.columns import locked
from evenflow.operators.compiled import compiled
from evenflow.stories.vectors import FEATURES, Sparse

BITS = 12
MOST_BITS = 16
SEED = 2016


class Fingerprints:
    """Numbers below 2 ** bits: bit i is the side of hyperplane i, drawn by `seed`, on which a vector lies.

    The fingerprint of a vector without words is 0.
    """

    def __init__(self, bits: int = BITS, features: int = FEATURES, seed: int = SEED) -> None:
        if not 1 <= whole_of(bits) <= MOST_BITS:
            raise InvalidArgument(f"bits={bits!r}: give a whole number from 1 to {MOST_BITS}")
        if not 0 <= whole_of(seed) < 1 << 32:
            raise InvalidArgument(f"seed={seed!r}: give a whole number from 0 to 2**32 - 1")
        self.bits, self.features, self.seed = whole_of(bits), features, whole_of(seed)

    def of(self, vectors: Sparse) -> npt.NDArray[np.int32]:
        """The fingerprint of each vector."""
        found = np.empty(len(vectors), np.int32)
        sums = np.empty(self.bits)
        _sides(vectors.offsets, vectors.cells, planes(self.bits, self.features, self.seed), sums, found)
        return found


@lru_cache(2)
def planes(bits: int, features: int, seed: int) -> npt.NDArray[np.float32]:
    """The normals of the hyperplanes, one row for each word. The same with every version of numpy."""
    normals = np.random.RandomState(seed).standard_normal((features, bits))
    return locked(normals.astype(np.float32))


@compiled
def _sides(offsets, cells, planes, sums, found):  # type: ignore[no-untyped-def]
    for row in range(len(found)):
        sums[:] = 0.0
        for place in range(offsets[row], offsets[row + 1]):
            normal, weight = planes[cells[place].word], np.float64(cells[place].weight)
            for bit in range(len(sums)):
                sums[bit] += weight * np.float64(normal[bit])
        sides = 0
        for bit in range(len(sums)):
            if sums[bit] > 0:
                sides |= 1 << bit
        found[row] = sides
