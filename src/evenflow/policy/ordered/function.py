"""The blocking-rate function F_j of one connection (ordered-regions §5.1, §5.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isclose
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.model import RESOLUTION

Vector = NDArray[np.float64]

FORGOTTEN = 0.1
"""A point with fewer samples than this is dropped."""

_GRID = np.arange(RESOLUTION + 1, dtype=np.float64)


class Point(NamedTuple):
    """What is known of the blocking at one weight."""

    weight: int
    value: float
    """The blocking expected there: what was seen, minus what exploration has taken off since."""
    seen: float
    """The blocking seen there."""
    data: float
    """The number of samples; older ones count less."""


@dataclass(frozen=True, slots=True)
class BlockingFunction:
    """F(w) for w in 0..RESOLUTION, non-decreasing, F(0) = 0, from few and noisy points.

    1. A sample at weight w is smoothed into the raw point there: y += (sample - y) / n, with n the samples so far, at
       most `memory`; so it is a mean at first, and exponential smoothing later.
    2. The raw points, weighted by their counts, go through monotone regression; (0, 0) is given.
    3. Between points F is linear; beyond the last point it continues the last piece.
    4. Wherever F would rise by less than delta from one weight to the next, it rises by delta.

    The caller chooses the unit of F: any measure that grows with blocking.
    """

    points: tuple[Point, ...] = ()

    def observe(self, weight: int, sample: float, memory: float) -> BlockingFunction:
        """The function with one more sample; samples at weight 0 are ignored, since F(0) = 0 is given."""
        if weight == 0:
            return self
        old = next((point for point in self.points if point.weight == weight), Point(weight, 0.0, 0.0, 0.0))
        count = min(old.data + 1.0, memory)
        new = Point(weight, old.value + (sample - old.value) / count, old.seen + (sample - old.seen) / count, count)
        return BlockingFunction(tuple(sorted([*(p for p in self.points if p.weight != weight), new])))

    def decay(self, beyond: int, fraction: float) -> BlockingFunction:
        """Expect less, by `fraction`, above weight `beyond`: what is not tried looks better over time (§5.4)."""
        keep = 1.0 - fraction
        points = (p if p.weight <= beyond else p._replace(value=p.value * keep) for p in self.points)
        return replace(self, points=tuple(points))

    def age(self, keep: float) -> BlockingFunction:
        """Let old samples count less, and drop points that hardly count."""
        aged = (point._replace(data=point.data * keep) for point in self.points)
        return BlockingFunction(tuple(point for point in aged if point.data >= FORGOTTEN))

    def values(self, delta: float) -> Vector:
        """F at 0..RESOLUTION, as expected."""
        return _curve([p.weight for p in self.points], [p.value for p in self.points], self._counts, delta)

    def seen(self, delta: float) -> Vector:
        """F at 0..RESOLUTION, as seen, without what exploration has taken off."""
        return _curve([p.weight for p in self.points], [p.seen for p in self.points], self._counts, delta)

    def data(self, weight: int) -> float:
        """The number of samples at a weight."""
        return next((point.data for point in self.points if point.weight == weight), 0.0)

    def knots(self) -> list[tuple[int, float]]:
        """The corners of the expected monotone function: enough to draw it."""
        weights = [0, *(point.weight for point in self.points)]
        heights = [0.0, *_monotone([point.value for point in self.points], self._counts).tolist()]
        inner = [
            (weight, height)
            for before, weight, after, last, height, following in zip(
                weights, weights[1:], weights[2:], heights, heights[1:], heights[2:], strict=False
            )
            if not isclose((height - last) * (after - weight), (following - height) * (weight - before), abs_tol=1e-12)
        ]
        return [(0, 0.0), *inner, *([(weights[-1], heights[-1])] if self.points else [])]

    @property
    def _counts(self) -> list[float]:
        return [point.data for point in self.points]


def pool(functions: Iterable[BlockingFunction]) -> BlockingFunction:
    """One function from the data of several: at each weight the mean of their points, weighted by their counts."""
    sums: dict[int, list[float]] = {}
    for function in functions:
        for weight, value, seen, count in function.points:
            entry = sums.setdefault(weight, [0.0, 0.0, 0.0])
            entry[0] += value * count
            entry[1] += seen * count
            entry[2] += count
    return BlockingFunction(
        tuple(Point(weight, value / n, seen / n, n) for weight, (value, seen, n) in sorted(sums.items()))
    )


def _monotone(values: list[float], counts: list[float]) -> Vector:
    """The non-decreasing sequence nearest to `values` in weighted least squares."""
    if len(values) < 2:
        return np.asarray(values, dtype=np.float64)
    from scipy.optimize import isotonic_regression  # here: it costs a second to import, and only the driver needs it

    return np.asarray(isotonic_regression(values, weights=counts).x, dtype=np.float64)


def _curve(weights: list[int], values: list[float], counts: list[float], delta: float) -> Vector:
    if not weights:
        return delta * _GRID
    xs = np.array([0, *weights], dtype=np.float64)
    ys = np.concatenate(([0.0], _monotone(values, counts)))
    curve = np.interp(_GRID, xs, ys)
    last = weights[-1]
    slope = (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])
    curve[last:] = ys[-1] + slope * (_GRID[last:] - last)
    # F(w) >= F(w - 1) + delta for all w means that F(w) - delta w never decreases.
    floor: Vector = np.maximum.accumulate(curve - delta * _GRID) + delta * _GRID
    return floor
