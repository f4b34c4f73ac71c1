"""The splitter's arithmetic: whose turn it is, and how many rows a frame has."""

from __future__ import annotations

from collections.abc import Mapping

FRAME_S = 0.005
"""A frame is at least this much work: long against its overhead, short against anything a person waits for."""
FRAMES_PER_S = 1000
"""Many workers get longer frames, so that one feeder does not handle more frames a second than this."""
FIRST_ROWS = 16
"""Rows in a frame while the cost of a row is unknown: it may be a second."""
GROWTH = 4
"""How much larger the next frame may be than the largest that was answered."""
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
    """How many rows make a frame's worth of work, from the service times that workers report with each result.

    A frame aims at `aim_s(N)` = max(FRAME_S, N / FRAMES_PER_S) seconds of work. A worker's cost per row falls to a
    lower report at once and rises half the way to a higher one: a slow report may be a first call that imported
    something. `rows()` goes by the fastest worker, so that a slow one does not chop everybody's frames; `rows(worker)`
    goes by that worker alone, so that a frame takes the same time on each, however different they are.
    """

    def __init__(self, costs: Mapping[int, float] | None = None) -> None:
        self._cost: dict[int, float] = dict(costs or {})
        self._largest = dict.fromkeys(self._cost, FRAME_BYTES)

    def learn(self, worker: int, rows: int, seconds: float) -> None:
        """A worker answered a frame of `rows` rows after `seconds` of work."""
        if rows == 0:
            return
        cost = seconds / rows
        old = self._cost.get(worker, cost)
        self._cost[worker] = min(cost, (old + cost) / 2)
        self._largest[worker] = max(self._largest.get(worker, 0), rows)

    def forget(self, worker: int) -> None:
        """The worker is gone."""
        self._cost.pop(worker, None)
        self._largest.pop(worker, None)

    def knows(self, worker: int) -> bool:
        """Whether the worker has ever answered."""
        return worker in self._cost

    def rows(self, workers: int, worker: int | None = None) -> int:
        """Rows for the next frame in a region of `workers` workers."""
        if worker is None:
            worker = min(self._cost, key=self._cost.__getitem__, default=None)
        if worker is None or worker not in self._cost:
            return FIRST_ROWS
        return max(1, min(self._fit(workers, worker), self._largest[worker] * GROWTH))

    def settled(self, workers: int, most: int) -> bool:
        """Whether frames have grown to their size, or to `most` rows; until then few should be under way."""
        fastest = min(self._cost, key=self._cost.__getitem__, default=None)
        return fastest is not None and min(self._fit(workers, fastest), most) <= self._largest[fastest] * GROWTH

    def _fit(self, workers: int, worker: int) -> int:
        return int(aim_s(workers) / max(self._cost[worker], 1e-9))


def aim_s(workers: int) -> float:
    """Seconds of work a frame should be in a region of `workers` workers."""
    return max(FRAME_S, workers / FRAMES_PER_S)
