"""What a row costs each worker, by which the next feeder sizes its first frames, and how long it waits there."""

from __future__ import annotations

from evenflow.model.latency import Latencies
from evenflow.model.messages import ConnectionCounts


class Costs:
    """Service time of a row on each worker, the fixed cost of a call, in rows, and how long rows take; as reported."""

    def __init__(self) -> None:
        self.rows: dict[int, float] = {}
        """By worker, in seconds."""
        self.overhead: float | None = None
        """In rows; None if it is not known."""
        self._took: dict[int, Latencies] = {}
        """By worker, from when rows were sent until they were answered, as one of the feeders last had it."""

    def add(self, worker: int, counts: ConnectionCounts) -> None:
        """Set a worker's cost from the counts that a feeder reports."""
        if counts.rows_done > 0:
            calls = counts.frames_done * (self.overhead or 0.0)
            self.rows[worker] = counts.busy_s / (counts.rows_done + calls)
        if counts.latencies:
            self._took[worker] = counts.latencies

    def wait_s(self, worker: int) -> float:
        """Seconds that half of the rows for a worker took at most, from being sent until they were answered."""
        took = self._took.get(worker, Latencies()).summary
        return 0.0 if took is None else took.p50 * 1e-3

    def learn(self, overhead: float | None) -> None:
        """Set the fixed cost of a call that a feeder reports; None changes nothing."""
        if overhead is not None:
            self.overhead = overhead

    def forget(self, worker: int) -> None:
        """Forget the cost on a worker that is gone: its next process may be faster or slower."""
        self.rows.pop(worker, None)
        self._took.pop(worker, None)
