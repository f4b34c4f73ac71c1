"""How much a worker keeps, and how long it waits: one value, given from outside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Sizes and times; tests use small ones."""

    outbox_bytes: int = 1 << 20
    """A feeder with more than this unsent is not served until it has read."""
    keyed_poll_s: float = 0.05
    """How long to wait at most while a keyed operator's statistics are to be sent."""
    turn_s: float = 0.02
    """A frame of a graph that takes longer goes back to the queue between two operators: others are heard meanwhile."""
    part_bytes: int = 64 << 20
    """Units that go to another worker are cut into frames of this size; a unit may be larger than any frame."""
    unsaved_bytes: int = 64 << 20
    """With more than this waiting to be put into the store, no rows are taken."""
    segment_bytes: tuple[int, ...] = (1 << 20, 2 << 20, 4 << 20, 8 << 20)
    """How large the segments of an attempt get, the last size for all that follow.

    Small at first, so that little is left to be put when a batch ends.
    """
    cycle: int = 64
    """After at most this many batches every unit that changed has been saved."""
    slice_bytes: int = 32 << 20
    """Saved at the beginning of one batch, at most: rows wait meanwhile."""
    replayed_bytes: int = 64 << 20
    """Rows of logs that are held at a time while state is loaded."""


LIMITS = WorkerLimits()
