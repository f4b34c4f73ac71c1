"""Keys by Zipf's law with a changing exponent: almost even for a while, then skewed, and so on (cep §4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.errors import InvalidArgument
from evenflow.workloads.draws import locked, uniforms

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ZipfKeys:
    """The key of row i, a function of the seed and i alone.

    Phase p has `exponents[p]` and lasts `rows[p]` rows; after the last phase the first begins again. The paper has 0.2
    for five minutes and 1.5 for ten. The rank of each key is drawn once, by the seed.
    """

    keys: int = 4096
    exponents: tuple[float, ...] = (0.2, 1.5)
    rows: tuple[int, ...] = (300_000, 600_000)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.keys < 1:
            raise InvalidArgument(f"keys={self.keys}: give at least 1")
        if not self.rows or len(self.rows) != len(self.exponents) or min(self.rows) < 1 or min(self.exponents) < 0:
            raise InvalidArgument(
                f"exponents={self.exponents} for rows={self.rows}: give as many of both, exponents from 0 up and at "
                "least 1 row each"
            )

    def phases(self, ids: npt.ArrayLike) -> Longs:
        """The phase of each row."""
        ends = np.cumsum(self.rows)
        phases: Longs = np.searchsorted(ends, np.asarray(ids, np.int64) % ends[-1], side="right")
        return phases

    def changes(self, ids: npt.ArrayLike) -> Longs:
        """The number of phases that ended before each row."""
        cycle = np.asarray(ids, np.int64) // sum(self.rows)
        changes: Longs = cycle * len(self.rows) + self.phases(ids)
        return changes

    def of(self, ids: npt.ArrayLike) -> Longs:
        """The keys of the rows with these numbers, from 0 to `keys` - 1."""
        numbers = locked(np.asarray(ids, np.int64))
        draws, phases = np.empty(len(numbers)), self.phases(numbers)
        uniforms(np.uint64(self.seed), numbers, 0, draws)
        ranks = np.empty(len(numbers), np.int64)
        for phase, exponent in enumerate(self.exponents):
            here = phases == phase
            ranks[here] = np.searchsorted(_shares(self.keys, exponent), draws[here], side="right")
        keys: Longs = _order(self.keys, self.seed)[ranks]
        return keys

    def shares(self, phase: int) -> npt.NDArray[np.float64]:
        """Each key's share of the rows in a phase."""
        shares = np.empty(self.keys)
        shares[_order(self.keys, self.seed)] = np.diff(_shares(self.keys, self.exponents[phase]), prepend=0.0)
        return shares


def keys(
    seed: int, rows: int, known: npt.ArrayLike, exponents: tuple[float, ...] = (0.2, 1.5), cycles: int = 2
) -> tuple[npt.NDArray[Any], Longs]:
    """For each of `rows` rows, one of the `known` keys, and the number of changes of the exponent before it.

    Each exponent comes `cycles` times; the first of a cycle lasts half as long as each other, as in the paper.
    """
    parts = np.array([1, *[2] * (len(exponents) - 1)])
    lengths = np.maximum(1, rows * parts // (parts.sum() * cycles))
    chosen, ids = np.asarray(known), np.arange(rows)
    sampler = ZipfKeys(len(chosen), tuple(exponents), tuple(lengths.tolist()), seed)
    return chosen[sampler.of(ids)], sampler.changes(ids)


@lru_cache(16)
def _shares(keys: int, exponent: float) -> npt.NDArray[Any]:
    """The cumulative shares of the keys, by rank."""
    shares = np.cumsum(1.0 / np.arange(1, keys + 1) ** exponent)
    shares /= shares[-1]
    return locked(shares)


@lru_cache(16)
def _order(keys: int, seed: int) -> npt.NDArray[Any]:
    """The key at each rank."""
    return locked(np.random.RandomState(seed).permutation(keys))
