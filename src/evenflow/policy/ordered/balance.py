"""The base class of balances of ordered regions: a pure decision, and what a splitter does at a full connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from evenflow.model import RESOLUTION, SetWeights, Snapshot
from evenflow.model.routing import Splitting


class Balance(ABC):
    """Decides how the frames of one region are shared among its workers; derive from it for a balance of your own.

    `decide` is called with every sample of the region, and whenever a worker joins or leaves. A balance may take in
    several samples before it decides (`every`, ordered-regions §5). It reads no clock and does no I/O; what it learns
    it keeps in its own fields, so that the simulator runs the same code.
    """

    name: ClassVar[str] = "own"
    """Its name in the event log and on the live page."""
    splitting: ClassVar[Splitting] = "block"
    """What the splitter does when the connection whose turn it is can take no more."""

    @abstractmethod
    def decide(self, snapshot: Snapshot) -> list[SetWeights]:
        """Weights to set now; an empty list leaves things as they are."""

    def check_workers(self, workers: int) -> None:  # noqa: B027 - to take any number is a fine default
        """Raise InvalidArgument if it cannot be used with this number of workers."""


class EvenSplit(Balance):
    """w_j = R/N for all j, set again only when the workers have changed."""

    def decide(self, snapshot: Snapshot) -> list[SetWeights]:
        """An even split, if it is not in force already."""
        present = {connection.worker: connection.weight for connection in snapshot.connections}
        even = even_weights(list(present)) if present else {}
        return [] if even == present else [SetWeights(snapshot.region, even, reason="even split")]


def even_weights(workers: list[int]) -> dict[int, int]:
    """RESOLUTION divided evenly among workers; the first workers get one more each if it does not divide."""
    share, rest = divmod(RESOLUTION, len(workers))
    return {worker: share + (place < rest) for place, worker in enumerate(workers)}
