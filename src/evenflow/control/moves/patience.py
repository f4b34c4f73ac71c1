"""How long a movement waits for the markers of feeders, and for the answers of workers."""

from __future__ import annotations

MARKERS_S = 2.0
"""How long to wait for the markers of feeders, at least. A feeder that waits for Spark sends none, and others' rows
wait."""
MOST_MARKERS_S = 10.0
"""The same, at most, however long rows take to get through what waits at the source."""
MARKERS_WAITS = 2.0
"""In between, so many times what a row takes at the source, in the median: markers come behind such rows."""
FLUSH_S = 10.0
"""As MARKERS_S, for units of a graph: before they leave, what they gave has to be where it goes."""
PATIENCE_S = 30.0
"""A worker that is waited for longer is late, which is recorded. No worker is given up sooner."""


def least_s(graph: bool) -> float:
    """How long markers are waited for at least."""
    return FLUSH_S if graph else MARKERS_S


def markers_s(graph: bool, wait_s: float) -> float:
    """How long markers are waited for, while rows wait `wait_s` at the source, in the median."""
    return max(least_s(graph), min(MOST_MARKERS_S, MARKERS_WAITS * wait_s))
