"""Partial key grouping in a feeder: each row to the less loaded of two workers; importing this module imports numba."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from evenflow.operators.compiled import compiled, readable
from evenflow.operators.keyed import Keys


class TwoChoices:
    """Which worker gets each row, by its key and by how many rows this feeder has given to each worker before.

    Two hash functions of the key, the halves of a 64-bit mix, name two different workers. The one with fewer rows
    from this feeder gets the row; if both have as many, the first.
    """

    def __init__(self, workers: Iterable[int]) -> None:
        self._workers = np.array(sorted(workers), np.int16)
        self._given = np.zeros(len(self._workers), np.int64)
        self.of(np.empty(0, np.int64))  # compiled, or loaded from disk, before the first row

    def of(self, keys: Keys) -> npt.NDArray[np.int16]:
        """The worker of each row."""
        return self._workers[_chosen(readable(keys, np.int64), self._given)]


@compiled
def _chosen(keys: Keys, given: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    count = np.uint64(len(given))
    chosen = np.zeros(len(keys), np.int64)
    if len(given) == 1:
        given[0] += len(keys)
        return chosen
    for row in range(len(keys)):
        mixed = np.uint64(keys[row]) + np.uint64(0x9E3779B97F4A7C15)  # the finaliser of splitmix64
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
        one = (mixed & np.uint64(0xFFFFFFFF)) % count
        other = (one + np.uint64(1) + (mixed >> np.uint64(32)) % (count - np.uint64(1))) % count
        place = one if given[one] <= given[other] else other
        given[place] += 1
        chosen[row] = place
    return chosen
