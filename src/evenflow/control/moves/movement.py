"""One movement of units under way: its phase, whose answer it waits for, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenflow.control.events import Peer


@dataclass(slots=True)
class Movement:
    """One movement under way."""

    id: int
    units: tuple[int, ...]
    source: int
    target: int
    began: float
    feeders: frozenset[Peer]
    """The feeders and workers whose markers the source waits for."""
    deadline: float
    """When it is taken back at the earliest, see `Movements.tick`; once that has begun, when it is given up."""
    heard: float
    """When the wait for its next answer began."""
    phase: str = "moving"
    """`moving`, `recalling`, `discarding` or `restoring`."""
    quiet: float | None = None
    """When all rows in flight had come to the source; None while that is not so."""
    awaited: int = -1
    """The worker whose answer is waited for; -1 while markers are on their way."""
    late: bool = False
    """Whether it is recorded that this worker is late."""
    reason: str = ""
    """Why it is recalled or taken back."""
    size: int = 0
    """Bytes of state, as last measured."""

    def fields(self, region: str) -> dict[str, Any]:
        """The fields that all entries about it have; Any, since they are keywords of several classes."""
        return {
            "region": region,
            "move": self.id,
            "units": list(self.units),
            "source": plain(self.source),
            "target": plain(self.target),
        }


def plain(number: int | np.integer[Any]) -> int:
    """A number of a move as readers of the event log take it; a user's balance may have made it with numpy."""
    return int(number) if isinstance(number, np.integer) else number
