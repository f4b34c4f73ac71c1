"""Going back to the weights with which a region ran best, when later ones turned out worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass
class Recall:
    """The best weights so far, and whether to go back to them.

    By drafting (ordered-regions §4.2) equal connections block in turns, and weights that follow the blocking wander off
    the best split. The pace shows it: when it has fallen below WORSE of the best pace, the weights of that pace are
    restored and kept for PROBE samples. If the pace does not recover with them, the workers have changed and the past
    is forgotten. If it does, the weights are kept for a while, twice as long each time.
    """

    WORSE: ClassVar[float] = 0.95
    PROBE: ClassVar[int] = 3
    PATIENCE: ClassVar[int] = 16
    """The most samples for which weights are kept."""
    FORGET: ClassVar[float] = 0.003
    """The share of the best pace that is taken off with each sample."""
    SMOOTH: ClassVar[float] = 1 / 3
    """What a new sample counts in the smoothed pace."""

    _weights: list[int] = field(default_factory=list)
    _best: float = 0.0
    _pace: float = 0.0
    _stay: int = 0
    _probing: bool = False
    _hold: int = 1

    def reset(self) -> None:
        """Forget everything: the workers have changed."""
        self._weights, self._best, self._pace, self._stay, self._probing, self._hold = [], 0.0, 0.0, 0, False, 1

    def keep(self, weights: Sequence[int], pace: float) -> list[int] | None:
        """Take in a sample of the pace with `weights`; returns the weights to have next, or None to choose freely."""
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
        """Decide after the best weights have been tried again: keep them, or None to choose freely."""
        self._probing = False
        if self._pace < self.WORSE * self._best:
            self._best, self._hold = self._pace, 1
            return None
        self._stay, self._hold = self._hold, min(self.PATIENCE, self._hold * 2)
        return self._weights
