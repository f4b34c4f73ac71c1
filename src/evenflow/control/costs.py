"""What rows cost on each worker, as feeders last reported: the next feeder sizes its first frames by it."""

from __future__ import annotations

from evenflow.model.messages import ConnectionCounts


class Costs:
    """Service time a row on each worker, and what a call costs beside its rows, in rows."""

    def __init__(self) -> None:
        self.rows: dict[int, float] = {}
        """By worker, in seconds."""
        self.overhead: float | None = None
        """In rows; None if it is not known."""

    def add(self, worker: int, counts: ConnectionCounts) -> None:
        """What a feeder reports of a worker."""
        if counts.rows_done > 0:
            calls = counts.frames_done * (self.overhead or 0.0)
            self.rows[worker] = counts.busy_s / (counts.rows_done + calls)

    def learn(self, overhead: float | None) -> None:
        """What a feeder reports of calls; None if it does not know."""
        if overhead is not None:
            self.overhead = overhead

    def forget(self, worker: int) -> None:
        """A worker is gone: another process may be faster or slower."""
        self.rows.pop(worker, None)
