"""What rows cost on each worker, as feeders last reported: the next feeder sizes its first frames by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Costs:
    """Service time a row on each worker, and what a call costs beside its rows, in rows."""

    def __init__(self) -> None:
        self._rows: dict[int, float] = {}
        self._overhead: float | None = None

    def add(self, worker: int, counts: Mapping[str, float]) -> None:
        """What a feeder reports of a worker."""
        if counts.get("rows_done", 0) > 0:
            calls = counts.get("frames_done", 0) * (self._overhead or 0.0)
            self._rows[worker] = counts.get("busy_s", 0.0) / (counts["rows_done"] + calls)

    def learn(self, overhead: float | None) -> None:
        """What a feeder reports of calls; None if it does not know."""
        if overhead is not None:
            self._overhead = overhead

    def forget(self, worker: int) -> None:
        """A worker is gone: another process may be faster or slower."""
        self._rows.pop(worker, None)

    def told(self) -> dict[str, Any]:
        """As a feeder is told."""
        return {"costs": {str(worker): cost for worker, cost in self._rows.items()}, "overhead": self._overhead}
