"""Clusters of connections that behave alike (ordered-regions §5.3): fewer functions, with more data for each."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from evenflow.policy.ordered.function import Vector

KNEE = 0.02
"""A connection counts as blocking where F exceeds this rate; a low one, since many share one splitter's time."""
CUT = 1.0
"""Functions further apart than this are not put into one cluster: a factor of e between their knees."""

DIGITS = 9
"""Traits are rounded: logarithms differ in the last bit from processor to processor, and clusters must not."""


def traits(curves: Sequence[Vector], delta: float) -> NDArray[np.float64]:
    """Three numbers for each function: log w_s, alpha log F(w_s), alpha log F(R).

    w_s is the knee, the weight at which blocking begins, and R the largest weight. alpha = log R / |log(R delta)|
    brings weights and rates, the least of which is R delta, to one scale. A rate is at most 1. The distance of two
    functions is the largest of the three differences, max(|log w_s/w_s'|, ...): 0 if they are indistinguishable.
    """
    grid = np.minimum(np.asarray(curves), 1.0)
    most = grid.shape[1] - 1
    blocks = grid > KNEE
    knee = np.where(blocks.any(axis=1), np.maximum(blocks.argmax(axis=1), 1), most)
    least = most * delta
    alpha = log(most) / abs(log(least))
    at_knee = np.maximum(grid[np.arange(len(grid)), knee], least)
    at_most = np.maximum(grid[:, most], least)
    found = np.stack([np.log(knee), alpha * np.log(at_knee), alpha * np.log(at_most)], axis=1)
    return np.round(found, DIGITS)


def clusters(traits: NDArray[np.float64], cut: float = CUT) -> list[list[int]]:
    """Groups of rows of `traits`, by complete linkage: no two rows of a group are further apart than `cut`."""
    if len(traits) < 2:
        return [[place] for place in range(len(traits))]
    from scipy.cluster.hierarchy import fcluster, linkage  # here: it is slow to import, and only the driver needs it

    # The largest of the three differences is the Chebyshev distance between traits.
    labels = fcluster(linkage(traits, "complete", metric="chebyshev"), cut, "distance")
    groups: dict[int, list[int]] = {}
    for place, label in enumerate(labels.tolist()):
        groups.setdefault(label, []).append(place)
    return list(groups.values())
