"""How long rows took in a run that is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from evenflow.model import KeyedSnapshot, Performance, Snapshot

PATIENCE_S = 2.0
"""How long the last reports of feeders may take."""


def performance_of(snapshot: Callable[[], Snapshot | KeyedSnapshot]) -> Performance:
    """What a region's feeders have told in all, once the last of them has left."""
    deadline = time.monotonic() + PATIENCE_S
    while (seen := snapshot()).feeders and time.monotonic() < deadline:
        time.sleep(0.01)
    return seen.performance
