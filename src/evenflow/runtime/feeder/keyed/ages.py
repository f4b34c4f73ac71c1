"""When the rows of a frame arrived, and which of them are still without results."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class FrameAges:
    """The rows of one frame that is answered in parts: rows of units in memory at once, the others later.

    A row whose results come in one part leaves with it. Rows that have no result leave with the last part.
    """

    def __init__(self, pieces: list[tuple[float, int]]) -> None:
        self._arrived = [arrived for arrived, _ in pieces]
        self._rows = np.array([rows for _, rows in pieces], np.int64)
        self._ends = np.cumsum(self._rows)

    def of(self, places: npt.NDArray[np.integer]) -> list[tuple[float, int]]:
        """When the rows at these places of the frame arrived, and how many; each is given once."""
        found = np.searchsorted(self._ends, np.unique(places), side="right")
        counts = np.minimum(np.bincount(found, minlength=len(self._rows)), self._rows)
        self._rows = self._rows - counts
        return self._pairs(counts)

    def some(self, count: int) -> list[tuple[float, int]]:
        """The same for `count` rows whose places are not known: the first that are left are taken."""
        before = np.concatenate([[0], np.cumsum(self._rows)[:-1]])
        counts = np.clip(count - before, 0, self._rows)
        self._rows = self._rows - counts
        return self._pairs(counts)

    def rest(self) -> list[tuple[float, int]]:
        """The rows that are left."""
        return self._pairs(self._rows)

    def _pairs(self, counts: npt.NDArray[np.int64]) -> list[tuple[float, int]]:
        pairs = zip(self._arrived, counts.tolist(), strict=True)
        return [(arrived, rows) for arrived, rows in pairs if rows]
