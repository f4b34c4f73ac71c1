"""The service time of a row on each worker, as last reported: the next feeder sizes its first frames by it."""

from __future__ import annotations

from evenflow.model.messages import ConnectionCounts


class ServiceTimes:
    """The service time of a row on each worker, and the overhead of a call, in rows."""

    def __init__(self) -> None:
        self.row_s: dict[int, float] = {}
        """By worker, in seconds."""
        self.overhead: float | None = None
        """In rows; None if it is not known."""

    def add(self, worker: int, counts: ConnectionCounts) -> None:
        """Set a worker's service time from the counts that a feeder reports."""
        if counts.rows_done > 0:
            calls = counts.frames_done * (self.overhead or 0.0)
            self.row_s[worker] = counts.busy_s / (counts.rows_done + calls)

    def learn(self, overhead: float | None) -> None:
        """Set the overhead of a call that a feeder reports; None changes nothing."""
        if overhead is not None:
            self.overhead = overhead

    def forget(self, worker: int) -> None:
        """Forget a worker that is gone: its next process may be faster or slower."""
        self.row_s.pop(worker, None)
