"""Moves: what a policy asks for. The controller carries them out, or refuses and logs why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SetWeights:
    """Give each worker of a region its share of the frames: worker id -> weight, summing to RESOLUTION."""

    region: str
    weights: Mapping[int, int]
    reason: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What the policy saw, as JSON values; it goes to the event log."""


@dataclass(frozen=True, slots=True)
class MoveUnits:
    """Take units of a keyed operator, with their state, from one worker to another."""

    region: str
    units: tuple[int, ...]
    source: int
    target: int
    reason: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What the policy saw, as JSON values; all moves of one decision have the same, and it goes to the event log."""
