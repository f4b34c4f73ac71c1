"""The blocking-rate function F_j of one connection (ordered-regions §5.1, §5.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.model import RESOLUTION

Vector = NDArray[np.float64]

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
    ceiling: Vector | None = field(default=None, compare=False)
    """What exploration has left of F at each weight, or None if it has taken nothing off."""

    def observe(self, weight: int, sample: float, memory: float) -> BlockingFunction:
        """The function with one more sample; samples at weight 0 are ignored, since F(0) = 0 is given."""
        if weight == 0:
            return self
        old = next((point for point in self.points if point.weight == weight), Point(weight, 0.0, 0.0, 0.0))
        count = min(old.data + 1.0, memory)
        new = Point(weight, old.value + (sample - old.value) / count, old.seen + (sample - old.seen) / count, count)
        points = tuple(sorted([*(p for p in self.points if p.weight != weight), new]))
        return BlockingFunction(points, np.where(weight < _GRID, self._ceiling, np.inf))

    def decay(self, beyond: int, fraction: float) -> BlockingFunction:
        """Expect less, by `fraction`, at every weight above `beyond`: what is not tried looks better over time (§5.4).

        Where there are points, they are lowered, so that a new sample is smoothed into what is expected now. Where F
        comes from the regression, it is kept at the lowered height by a ceiling. F stays monotone: it becomes flat.
        """
        keep = 1.0 - fraction
        points = tuple(p if p.weight <= beyond else p._replace(value=p.value * keep) for p in self.points)
        lowered = np.where(beyond < _GRID, keep * self.values(0.0), np.inf)
        return BlockingFunction(points, np.minimum(lowered, self._ceiling))

    def values(self, delta: float) -> Vector:
        """F at 0..RESOLUTION, as expected."""
        weights, heights = [p.weight for p in self.points], [p.value for p in self.points]
        return _rising(np.minimum(_curve(weights, heights, self._counts), self._ceiling), delta)

    def seen(self, delta: float) -> Vector:
        """F at 0..RESOLUTION, as seen, without what exploration has taken off."""
        return _rising(_curve([p.weight for p in self.points], [p.seen for p in self.points], self._counts), delta)

    def knots(self) -> list[tuple[int, float]]:
        """The corners of F as expected: enough to draw it."""
        curve = self.values(0.0)
        bends = np.abs(np.diff(curve, 2)) > 1e-9
        corners = [0, *(np.flatnonzero(bends) + 1).tolist(), RESOLUTION]
        return [(weight, float(curve[weight])) for weight in corners]

    @property
    def _ceiling(self) -> Vector:
        return np.full(RESOLUTION + 1, np.inf) if self.ceiling is None else self.ceiling

    @property
    def _counts(self) -> list[float]:
        return [point.data for point in self.points]


def mean_curve(functions: Iterable[BlockingFunction], delta: float) -> Vector:
    """F of a cluster at 0..RESOLUTION: at each weight the mean of what its members expect there (§5.3, step 4.3)."""
    return _rising(np.mean([function.values(0.0) for function in functions], axis=0), delta)


def monotone(values: Sequence[float], counts: Sequence[float]) -> Vector:
    """The non-decreasing sequence nearest to `values` in least squares weighted by `counts`, all of them above 0.

    Pool adjacent violators: a block that is not above the one before it, or is not below the next value, joins it at
    their weighted mean.
    """
    means: list[float] = []
    weights: list[float] = []
    ends = [0]
    place = 0
    while place < len(values):
        mean, weight = values[place], counts[place]
        place += 1
        total = mean * weight
        pooled = False
        while means and means[-1] >= mean:
            total += weights[-1] * means.pop()
            weight += weights.pop()
            mean = total / weight
            ends.pop()
            while not pooled and place < len(values) and mean >= values[place]:
                total += counts[place] * values[place]
                weight += counts[place]
                mean = total / weight
                place += 1
            pooled = True
        means.append(mean)
        weights.append(weight)
        ends.append(place)
    return np.repeat(np.array(means), np.diff(ends))


def _curve(weights: list[int], values: list[float], counts: list[float]) -> Vector:
    """Monotone regression, linear in between; beyond the last point it continues the last piece."""
    if not weights:
        return np.zeros(RESOLUTION + 1)
    xs = np.array([0, *weights], dtype=np.float64)
    ys = np.concatenate(([0.0], monotone(values, counts)))
    curve = np.interp(_GRID, xs, ys)
    last = weights[-1]
    slope = (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])
    curve[last:] = ys[-1] + slope * (_GRID[last:] - last)
    return curve


def _rising(curve: Vector, delta: float) -> Vector:
    """The least function that is nowhere below `curve` and rises by `delta` at least from one weight to the next."""
    # F(w) >= F(w - 1) + delta for all w means that F(w) - delta w never decreases.
    floor: Vector = np.maximum.accumulate(curve - delta * _GRID) + delta * _GRID
    return floor
