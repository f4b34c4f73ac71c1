"""When rows of a source arrive: at a stable rate, or in turns at a high and a low one (potential-driven §5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from evenflow.errors import InvalidArgument

Seconds = npt.NDArray[np.float64]

PHASE_S = 12.0
PHASE_DEVIATION_S = 0.05
"""Of the paper's normal distribution of how long a rate lasts."""


@dataclass(frozen=True)
class ArrivalRates:
    """Rows a second, `high` and `low` in turns; each lasts `phase_s` seconds in the mean.

    If both are alike, the rate is stable, and rows come at equal distances; otherwise the time between two rows is
    exponential. The phases of different sources are shifted against each other at random, which gives their loads all
    correlations between -1 and 1.
    """

    high: float
    low: float
    phase_s: float = PHASE_S
    deviation_s: float = PHASE_DEVIATION_S

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise InvalidArgument(f"rates of {self.high} and {self.low} rows a second: give high >= low > 0")
        if not self.phase_s > 0 <= self.deviation_s:
            raise InvalidArgument(f"phases of {self.phase_s} +- {self.deviation_s} s: give more than 0 seconds")

    @property
    def mean(self) -> float:
        """Rows a second in the long run."""
        return (self.high + self.low) / 2

    def seconds(self, random: np.random.Generator, until: float) -> Seconds:
        """The seconds from 0 to `until` at which rows arrive, in order."""
        if self.high == self.low:
            offset = random.uniform(0, 1 / self.high)
            return np.arange(offset, until, 1 / self.high)
        parts = []
        for number, (start, end) in enumerate(self._phases(random, until)):
            rate = self.low if number % 2 else self.high
            gaps = random.exponential(1 / rate, int(2 * rate * (end - start)) + 50)
            times = start + np.cumsum(gaps)
            parts.append(times[(times >= 0) & (times < min(end, until))])
        return np.concatenate(parts)

    def _phases(self, random: np.random.Generator, until: float) -> list[tuple[float, float]]:
        """Starts and ends of phases, of which the first has a high rate and begins before second 0."""
        edges = [-random.uniform(0, 2 * self.phase_s)]
        while edges[-1] < until:
            edges.append(edges[-1] + max(self.phase_s / 10, random.normal(self.phase_s, self.deviation_s)))
        return list(pairwise(edges))
