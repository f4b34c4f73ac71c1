"""How long rows take at each worker, as the feeders that are there last reported: markers come behind such rows."""

from __future__ import annotations

from evenflow.control.events import Peer
from evenflow.model.latency import Latencies


class Waits:
    """By worker, how long rows took from when they were sent until they were answered.

    Of each feeder only its last report that had rows counts, and none once it has left: what waited in one micro-batch
    says nothing of the next.
    """

    def __init__(self) -> None:
        self._took: dict[int, dict[Peer, Latencies]] = {}

    def add(self, feeder: Peer, worker: int, took: Latencies) -> None:
        """Take in a feeder's report; without rows it is no news."""
        if took:
            self._took.setdefault(worker, {})[feeder] = took

    def median_s(self, worker: int) -> float:
        """The median over the rows of all feeders, in seconds; 0 if nothing is known."""
        found = sum(self._took.get(worker, {}).values(), Latencies()).summary
        return 0.0 if found is None else found.p50 * 1e-3

    def feeder_left(self, feeder: Peer) -> None:
        """Forget what a feeder had reported."""
        for took in self._took.values():
            took.pop(feeder, None)

    def worker_left(self, worker: int) -> None:
        """Forget a worker that is gone: nothing waits at its next process."""
        self._took.pop(worker, None)
