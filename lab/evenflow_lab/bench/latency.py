"""How long rows took in a run that is over, for the figures and tables of benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from evenflow.model import KeyedSnapshot, Performance, Snapshot

LATENCY = "latency mean/p50/p99"
"""The heading of `shown`."""
PATIENCE_S = 2.0
"""How long the last reports of feeders may take."""


def performance_of(snapshot: Callable[[], Snapshot | KeyedSnapshot]) -> Performance:
    """What a region's feeders have told in all, once the last of them has left."""
    deadline = time.monotonic() + PATIENCE_S
    while (seen := snapshot()).feeders and time.monotonic() < deadline:
        time.sleep(0.01)
    return seen.performance


def shown(latency_ms: Mapping[str, float]) -> str:
    """Mean, p50 and p99 for a table."""
    if not latency_ms:
        return "-"
    return " / ".join(f"{latency_ms[name]:,.0f}" for name in ("mean", "p50", "p99")) + " ms"
