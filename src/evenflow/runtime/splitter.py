"""The splitter's decisions: whose turn it is, and how many rows a frame has."""

from __future__ import annotations

from collections.abc import Mapping

FRAME_S = 0.005
"""A frame aims at this much work: long against its overhead, short against anything a person waits for."""
FIRST_ROWS = 16
"""Rows in a frame while the cost of a row is unknown: it may be a second."""
GROWTH = 4
"""How much larger the next frame may be than the largest that was ever answered."""
FRAME_BYTES = 1024 * 1024


class Turns:
    """Smooth weighted round-robin: over any run of picks each worker's share follows its weight, spread evenly.

    At each pick every worker's credit grows by its weight; the largest credit wins and pays the sum of the weights.
    Credits survive a change of weights, so frequent changes do not starve anyone.
    """

    def __init__(self) -> None:
        self._weights: dict[int, int] = {}
        self._credit: dict[int, int] = {}

    def set(self, weights: Mapping[int, int]) -> None:
        """Take new weights; workers not among them lose their turn."""
        if any(weight < 0 for weight in weights.values()):
            raise ValueError(f"negative weight in {dict(weights)}")
        self._weights = dict(weights) if any(weights.values()) else dict.fromkeys(weights, 1)
        self._credit = {worker: self._credit.get(worker, 0) for worker in self._weights}

    def drop(self, worker: int) -> None:
        """Forget a worker; the others share what was its."""
        self.set({other: weight for other, weight in self._weights.items() if other != worker})

    def __contains__(self, worker: int) -> bool:
        return worker in self._weights

    def __len__(self) -> int:
        return len(self._weights)

    def pick(self) -> int:
        """The worker whose turn it is."""
        credit = self._credit
        for worker, weight in self._weights.items():
            credit[worker] += weight
        winner = max(credit, key=credit.__getitem__)
        credit[winner] -= sum(self._weights.values())
        return winner


class FrameSize:
    """How many rows make FRAME_S of work, from the service times that workers report with each result.

    A worker's cost per row falls to a lower report at once and rises by a quarter of the way to a higher one: a slow
    report may be a first call that imported something. `rows()` goes by the fastest worker, so that a slow one does not
    chop everybody's frames; `rows(worker)` goes by that worker alone.
    """

    def __init__(self, guess_s: float | None = None) -> None:
        self._guess = guess_s
        self._cost: dict[int, float] = {}
        self._largest = FIRST_ROWS // GROWTH if guess_s is None else FRAME_BYTES

    def learn(self, worker: int, rows: int, seconds: float) -> None:
        """A worker answered a frame of `rows` rows after `seconds` of work."""
        if rows == 0:
            return
        cost = seconds / rows
        old = self._cost.get(worker)
        self._cost[worker] = cost if old is None else min(cost, old + (cost - old) / 4)
        self._largest = max(self._largest, rows)

    def forget(self, worker: int) -> None:
        """The worker is gone."""
        self._cost.pop(worker, None)

    def rows(self, worker: int | None = None) -> int:
        """Rows for the next frame."""
        return max(1, min(self._fit(worker), self._largest * GROWTH))

    def settled(self, most: int) -> bool:
        """Whether frames have grown to their size, or to `most` rows; until then few should be under way."""
        known = self._guess is not None or bool(self._cost)
        return known and min(self._fit(None), most) <= self._largest * GROWTH

    def _fit(self, worker: int | None) -> int:
        cost = self._cost.get(worker) if worker is not None else min(self._cost.values(), default=None)
        if cost is None:
            cost = self._guess
        return FIRST_ROWS if cost is None else int(FRAME_S / max(cost, 1e-9))
