"""What `epochs` reasons about: attempts at a batch, and what of them and of state is in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evenflow.control.events import Peer

Segments = dict[str, int]
"""By writer (one life of one worker), how many segments of its log there are."""


@dataclass(frozen=True, slots=True)
class Log:
    """What was applied in the attempt that counts of one batch."""

    epoch: int
    attempt: int
    segments: Mapping[str, int]
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class SavedUnits:
    """A snapshot of some units as they were at the end of a batch."""

    name: str
    epoch: int
    units: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Base:
    """The state at the end of a batch: what to read, snapshots and logs from old to new."""

    epoch: int = -1
    attempt: int = 0
    snapshots: tuple[SavedUnits, ...] = ()
    logs: tuple[Log, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskThrough:
    """One task of one attempt, as the store has it."""

    epoch: int
    attempt: int
    partition: int
    segments: Mapping[str, int]
    broken: bool = False
    """Whether its attempt cannot count, as it broke off or another of its tasks did."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What the store has of a query: the state at the end of some batch, and tasks since."""

    base: Base
    tasks: tuple[TaskThrough, ...] = ()


@dataclass(slots=True)
class Attempt:
    """One evaluation of one batch."""

    number: int
    stage: str
    run: str = ""
    feeders: set[Peer] = field(default_factory=set)
    feeding: set[Peer] = field(default_factory=set)
    """Those of them that have rows in state, and are not noted as through."""
    begun: set[int] = field(default_factory=set)
    """Partitions whose rows went into state."""
    through: dict[int, Segments] = field(default_factory=dict)
    """Partitions whose rows are durable, and where."""
    poisoned: str = ""
    """Why it cannot count any more."""
    closed: str = ""
    """Why no more rows may go into it: what it built on is gone. It may still count, if no more were to come."""

    @property
    def whole(self) -> bool:
        """Whether all it began is durable."""
        return not self.poisoned and self.begun <= self.through.keys()

    @property
    def segments(self) -> Segments:
        """All segments of its log."""
        most: Segments = {}
        for segments in self.through.values():
            for writer, count in segments.items():
                most[writer] = max(count, most.get(writer, 0))
        return most
