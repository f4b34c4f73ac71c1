"""Turns: which worker gets the next frame, by weight."""

from __future__ import annotations

from collections.abc import Mapping


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
        """Forget a worker; the others share its turns."""
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
