"""How long movements of a region take until their units may leave, as it was of late."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import mean

RECENT = 32
"""How many movements tell how long one takes."""


@dataclass(slots=True)
class Pauses:
    """Of the last movements, seconds until all rows in flight were there, or until they were taken back."""

    _took: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    _ended: float = 0.0
    """When the last of them was over."""

    def add(self, time: float, seconds: float) -> None:
        """A movement is over."""
        self._took.append(seconds)
        self._ended = time

    def usual(self, time: float, half_life: float) -> float:
        """Seconds that movements waited for rows of late; the longer there was none, the less that counts."""
        if not self._took:
            return 0.0
        return float(mean(self._took) * 2.0 ** ((self._ended - time) / half_life))
