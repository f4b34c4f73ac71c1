"""Moves: what a balance asks for. The controller carries them out, or refuses them and logs why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MEASURED = "shares of the rows done"
"""The reason of weights that nobody decided: rows went where there was room, and these are their shares."""


@dataclass(frozen=True, slots=True)
class SetWeights:
    """Give each worker of an ordered region its share of the frames: weights by worker id that sum to RESOLUTION."""

    region: str
    weights: Mapping[int, int]
    reason: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What the balance saw, as JSON values for the event log."""


@dataclass(frozen=True, slots=True)
class MoveUnits:
    """Move units of a keyed operator, with their state, from one worker to another."""

    region: str
    units: tuple[int, ...]
    source: int
    target: int
    reason: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What the balance saw, as JSON values for the event log; the same for all moves of one decision."""
