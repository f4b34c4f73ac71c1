"""How long a movement waits for the markers of feeders, and for the answers of workers."""

from __future__ import annotations

MARKERS_S = 2.0
"""How long to wait for the markers of feeders, at least. A feeder that waits for Spark sends none, while rows of other
feeders are held back."""
MOST_MARKERS_S = 10.0
"""How long to wait for markers, at most, however many rows wait at the source."""
MARKERS_WAITS = 2.0
"""Between the two, markers are waited for this many times as long as rows wait at the source, in the median: markers
come behind such rows."""
FLUSH_S = 10.0
"""As MARKERS_S, for units of a graph: before they leave, their results have to be at their receivers."""
PATIENCE_S = 30.0
"""A worker whose answer takes longer is late, which is recorded. No worker is given up sooner."""


def least_s(graph: bool) -> float:
    """How long markers are waited for at least."""
    return FLUSH_S if graph else MARKERS_S


def markers_s(graph: bool, wait_s: float) -> float:
    """How long markers are waited for, while rows wait `wait_s` at the source, in the median."""
    return max(least_s(graph), min(MOST_MARKERS_S, MARKERS_WAITS * wait_s))
