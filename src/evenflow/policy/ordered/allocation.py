"""Minimax separable resource allocation (ordered-regions §5.2), solved by Fox's greedy."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from typing import Protocol

from evenflow.errors import InvalidArgument


class Curve(Protocol):
    """A non-decreasing function on the whole numbers 0..total; a numpy vector is one."""

    def __getitem__(self, weight: int, /) -> float:
        """The value at `weight`."""
        ...


def allocate(
    curves: Sequence[Curve],
    lower: Sequence[int],
    upper: Sequence[int],
    total: int,
    current: Sequence[int] | None = None,
) -> list[int]:
    """Whole w_j that minimise max_j F_j(w_j) subject to sum w_j = total and lower_j <= w_j <= upper_j.

    Greedy: from w = lower, the next unit always goes where F_j(w_j + 1) is least. Since no F_j decreases, an exchange
    of two units never helps, so the result is optimal; among all optima it is also the one whose values, sorted from
    the largest down, are least. O(N) to build the heap, O(log N) for each of at most `total` units.

    Ties matter: before anything has blocked, every F is flat. A tie goes to the connection that is furthest below
    `current`, then to the first. So with flat functions the weights stay as they are; without `current` (taken as all
    zero) they become even.
    """
    weights = list(lower)
    rest = total - sum(weights)
    if rest < 0 or sum(upper) < total or any(low > high for low, high in zip(lower, upper, strict=True)):
        raise InvalidArgument(
            f"no weights between {list(lower)} and {list(upper)} sum to {total}: loosen the bounds or change the total"
        )
    now = [0] * len(weights) if current is None else current
    heap = [
        (curve[weight + 1], weight + 1 - held, place)
        for place, (curve, weight, most, held) in enumerate(zip(curves, weights, upper, now, strict=True))
        if weight < most
    ]
    heapify(heap)
    for _ in range(rest):
        place = heap[0][2]
        weight = weights[place] = weights[place] + 1
        if weight < upper[place]:
            heapreplace(heap, (curves[place][weight + 1], weight + 1 - now[place], place))
        else:
            heappop(heap)
    return weights


class _Load:
    """F(w) = w / share: how long a worker with this share of the capacity takes for `w` units."""

    def __init__(self, share: float) -> None:
        self._share = share

    def __getitem__(self, weight: int, /) -> float:
        return weight / self._share


def proportional(shares: Sequence[float], total: int) -> list[int]:
    """`total` divided in proportion to `shares`, rounded so that the largest load is least: min max_j w_j / share_j.

    Largest-remainder rounding would give a worker whose share is 0.3 units a whole unit, and so make it three times too
    slow; here it gets none.
    """
    if not sum(shares) > 0 or min(shares) < 0:
        raise InvalidArgument(f"shares {list(shares)} must be at least 0 and not all 0")
    some = [place for place, share in enumerate(shares) if share > 0]
    weights = [0] * len(shares)
    loads = [_Load(shares[place]) for place in some]
    for place, weight in zip(some, allocate(loads, [0] * len(some), [total] * len(some), total), strict=True):
        weights[place] = weight
    return weights
