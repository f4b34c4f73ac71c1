"""Going back to the weights under which a region ran best, once later ones have turned out worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass
class Recall:
    """The best weights so far, and whether to go back to them.

    By drafting (ordered-regions §4.2) equal connections take turns at being blamed, and weights that follow the blame
    wander off a split that was as good as can be. The pace tells: when it has fallen below WORSE of what other weights
    gave, those are taken back and kept for PROBE samples. If the pace does not come back with them, the workers have
    changed and the past is forgotten. If it does, weights stay where they are for a while, twice as long each time.
    """

    WORSE: ClassVar[float] = 0.95
    PROBE: ClassVar[int] = 3
    PATIENCE: ClassVar[int] = 16
    """The longest that weights are left alone."""
    FORGET: ClassVar[float] = 0.003
    """Of the best pace, each sample."""
    SMOOTH: ClassVar[float] = 1 / 3

    _weights: list[int] = field(default_factory=list)
    _best: float = 0.0
    _pace: float = 0.0
    _stay: int = 0
    _probing: bool = False
    _hold: int = 1

    def reset(self) -> None:
        """The workers are not those they were."""
        self._weights, self._best, self._pace, self._stay, self._probing, self._hold = [], 0.0, 0.0, 0, False, 1

    def keep(self, weights: Sequence[int], pace: float) -> list[int] | None:
        """Take a sample of the pace under `weights`; the weights to have next, or None to choose freely."""
        self._pace = self._pace + (pace - self._pace) * self.SMOOTH if self._pace else pace
        self._best *= 1.0 - self.FORGET
        if self._stay:
            self._stay -= 1
            if self._stay:
                return self._weights
            if self._probing:
                return self._judge()
        if self._pace >= self._best:
            self._best, self._weights = self._pace, list(weights)
        elif self._pace < self.WORSE * self._best and list(weights) != self._weights:
            self._stay, self._probing, self._pace = self.PROBE, True, 0.0
            return self._weights
        return None

    def _judge(self) -> list[int] | None:
        """The best weights have been tried again."""
        self._probing = False
        if self._pace < self.WORSE * self._best:
            self._best, self._hold = self._pace, 1
            return None
        self._stay, self._hold = self._hold, min(self.PATIENCE, self._hold * 2)
        return self._weights
