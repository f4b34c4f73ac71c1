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
    """Groups of rows of `traits`, by complete linkage: no two rows of a group are further apart than `cut`.

    The distance is the largest difference (Chebyshev), so two clusters are as far apart as their bounding boxes reach:
    there is no matrix of distances. Pairs are found along chains of nearest neighbours, n - 1 merges in all. Of
    neighbours equally near, the one before in the chain is taken, and else the first.
    """
    alike: dict[tuple[float, ...], list[int]] = {}
    for place, row in enumerate(traits.tolist()):
        alike.setdefault(tuple(row), []).append(place)
    groups = sorted(alike.values(), key=lambda group: group[-1])  # equal rows count as the last of them
    points = traits[[group[-1] for group in groups]].T
    boxes = np.array([*points, *-points])  # a row for each: greatest values, and least ones with their sign turned
    turned = np.roll(np.arange(len(boxes)), len(points))
    chain: list[int] = []
    for _ in range(len(groups) - 1):
        if not chain:
            chain.append(int(np.isfinite(boxes[0]).argmax()))
        one, other, apart = _take_nearest_pair(boxes, turned, chain)
        if apart <= cut:
            groups[other] = groups[other] + groups[one]
            groups[one] = []
        boxes[:, other] = np.maximum(boxes[:, one], boxes[:, other])
        boxes[:, one] = np.inf
    return sorted(sorted(group) for group in groups if group)


def _take_nearest_pair(
    boxes: NDArray[np.float64], turned: NDArray[np.intp], chain: list[int]
) -> tuple[int, int, float]:
    """Follow the chain to two clusters that are nearest to each other and take them off it: by place, and how far."""
    while True:
        last = chain[-1]
        reach = (boxes + boxes[turned, last][:, np.newaxis]).max(axis=0)
        reach[last] = np.inf
        nearest = int(reach.argmin())
        if len(chain) > 1 and reach[chain[-2]] <= reach[nearest]:
            one, other = sorted((chain.pop(), chain.pop()))
            return one, other, float(reach[nearest])
        chain.append(nearest)
