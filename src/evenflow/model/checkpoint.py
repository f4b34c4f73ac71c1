"""What a checkpoint holds of one query and operator: values that the controller decides on and the store keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Segments = dict[str, int]
"""The number of log segments of each writer, "W.I": worker W, with the number I that its incarnation has drawn."""
AttemptKey = tuple[int, int]
"""A batch and an attempt at it, which identify a state."""
NOTHING: AttemptKey = (-1, 0)
"""The state before the first batch."""


@dataclass(frozen=True, slots=True)
class BatchLog:
    """The rows that were applied in one batch by the attempt that counts: the segments of its log."""

    epoch: int
    attempt: int
    segments: Mapping[str, int]
    """The number of segments of each writer."""
    partitions: tuple[int, ...] = ()
    """The partitions that had rows."""


@dataclass(frozen=True, slots=True, eq=False)
class SavedUnits:
    """A snapshot of some units at the end of a batch."""

    name: str
    """The name of its blob."""
    epoch: int
    units: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Base:
    """The state at the end of a batch: the snapshots and logs to read, from old to new."""

    epoch: int = -1
    attempt: int = 0
    snapshots: tuple[SavedUnits, ...] = ()
    logs: tuple[BatchLog, ...] = ()

    @property
    def key(self) -> AttemptKey:
        """The batch and the attempt after which this is the state."""
        return self.epoch, self.attempt


@dataclass(frozen=True, slots=True)
class Begun:
    """The note that an attempt has begun. It is in the store before any task of the attempt ends."""

    epoch: int = -1
    attempt: int = 0
    before: AttemptKey = NOTHING
    """The batch and attempt whose state it started from."""
    run: str = ""
    """The start of the query that it belongs to."""
    repeats: int = 0
    """The whole attempt at the batch that it repeats; 0 if it repeats none."""

    @property
    def key(self) -> AttemptKey:
        """The batch and the attempt."""
        return self.epoch, self.attempt


@dataclass(frozen=True, slots=True)
class WholeAttempt:
    """The note that all partitions of an attempt are durable. It is in the store before its last task ends."""

    epoch: int
    attempt: int
    segments: Mapping[str, int]
    """The number of segments of each writer."""
    partitions: tuple[int, ...]
    """The partitions that had rows."""
    expected: int
    """The number of partitions, with rows or without."""
    before: AttemptKey = NOTHING
    """The batch and attempt whose state it started from."""
    run: str = ""
    """The start of the query that it belongs to."""
    repeatable: bool = False
    """Whether later attempts can repeat it from its log. Notes of earlier versions do not say so."""

    @property
    def key(self) -> AttemptKey:
        """The batch and the attempt."""
        return self.epoch, self.attempt


@dataclass(frozen=True, slots=True)
class Voided:
    """A whole attempt that does not count any more: its note is to be deleted."""

    epoch: int
    attempt: int
    begun: Begun
    """The note of the attempt that was to repeat it, which is not to name it any more."""

    @property
    def key(self) -> AttemptKey:
        """The batch and the attempt."""
        return self.epoch, self.attempt


@dataclass(frozen=True, slots=True)
class Saved:
    """What the store has of a query: the state at the end of some batch, whole attempts since, and the last begun."""

    base: Base
    wholes: tuple[WholeAttempt, ...] = ()
    begun: Begun = field(default_factory=Begun)
