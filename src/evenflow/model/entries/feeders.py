"""Entries about feeders, the tasks that bring rows to a region. The controller writes all of them."""

from __future__ import annotations

from msgspec import UNSET

from evenflow.model.entries.base import EventEntry, Maybe, RegionEntry


class FeederEntry(RegionEntry, frozen=True, kw_only=True):
    """An entry about one feeder."""

    partition: int = 0
    """Of its rows, once it has a first one; before, that of its task."""
    attempt: int = 0
    """Spark's number of the try at this task."""


class FeederJoinedEntry(FeederEntry, frozen=True, kw_only=True, tag="feeder-joined"):
    """A task begins to feed a region."""

    query: str = ""
    """The id of the streaming query; empty in a batch job."""
    epoch: int = 0
    """The number of the query's batch."""


class FeederFailedEntry(FeederEntry, frozen=True, kw_only=True, tag="feeder-failed"):
    """A task fails; only so many are written in a minute."""

    worker: Maybe[int] = UNSET
    """The worker on which the user's function raised the error; left out if it is no error of a function."""
    error: str = ""


class FeederLeftEntry(FeederEntry, frozen=True, kw_only=True, tag="feeder-left"):
    """The connection of a task has ended."""


class FeederDrainingEntry(RegionEntry, frozen=True, kw_only=True, tag="feeder-draining"):
    """A task of a keyed region has all of its rows, and waits for results."""

    partition: int = 0


class FeederUnreadEntry(RegionEntry, frozen=True, kw_only=True, tag="feeder-unread"):
    """A task of a keyed region ends before its results were read to their end."""

    partition: int = 0


class FeederRefusedEntry(RegionEntry, frozen=True, kw_only=True, tag="feeder-refused"):
    """A task may not feed a region."""

    reason: str = ""


KINDS: tuple[type[EventEntry], ...] = (
    FeederJoinedEntry,
    FeederFailedEntry,
    FeederLeftEntry,
    FeederDrainingEntry,
    FeederUnreadEntry,
    FeederRefusedEntry,
)
