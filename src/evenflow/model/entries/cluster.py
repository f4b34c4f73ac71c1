"""Entries about the cluster as a whole, and about the log itself."""

from __future__ import annotations

from typing import Any

from evenflow.model.entries.base import EventEntry


class ClusterStartedEntry(EventEntry, frozen=True, kw_only=True, tag="cluster-started"):
    """The cluster, first of all: which one it is."""

    cluster: str = ""
    workers: int = 0
    version: str = ""


class ClusterStoppingEntry(EventEntry, frozen=True, kw_only=True, tag="cluster-stopping"):
    """The controller, when the cluster is stopped: what is lost from now on is lost on purpose."""


class ExecutorsEntry(EventEntry, frozen=True, kw_only=True, tag="executors"):
    """The cluster, when Spark says which executors have the workers, and again if one has started anew."""

    workers: dict[int, str]
    """By worker, its executor, as far as it is known."""


class CheckpointTakenEntry(EventEntry, frozen=True, kw_only=True, tag="checkpoint-taken"):
    """The controller, when another cluster has taken the checkpoint: queries with state in it end."""

    why: str = ""


class ControllerErrorEntry(EventEntry, frozen=True, kw_only=True, tag="controller-error"):
    """The controller, or its thread, when something went wrong that ends neither."""

    on: str = ""
    """What could not be done."""
    error: str = ""


class ControllerFailedEntry(EventEntry, frozen=True, kw_only=True, tag="controller-failed"):
    """The controller's thread, when it ends before its time."""

    error: str = ""


class PeerRefusedEntry(EventEntry, frozen=True, kw_only=True, tag="peer-refused"):
    """The controller's thread, when it hangs up on a worker or a feeder that broke the protocol."""

    reason: str = ""


class StrangerRefusedEntry(EventEntry, frozen=True, kw_only=True, tag="stranger-refused"):
    """The controller's thread, when somebody connected who is neither a worker nor a feeder."""

    reason: str = ""


class EntriesLeftOutEntry(EventEntry, frozen=True, kw_only=True, tag="entries-left-out"):
    """The controller's thread, once a minute, if there were too many entries of a kind."""

    kind: str
    count: int
    """Entries of this kind that were not written."""


class EventLogLostEntry(EventEntry, frozen=True, kw_only=True, tag="event-log-lost"):
    """The event log, when its file cannot be written any more; it is in memory only."""

    reason: str = ""


class LogContinuedEntry(EventEntry, frozen=True, kw_only=True, tag="log-continued"):
    """The event log, first in each new file: what still holds of the files before."""

    standing: list[Any] = []
    """The entries that still hold, as they were written, oldest first."""


class WarningEntry(EventEntry, frozen=True, kw_only=True, tag="warning"):
    """A simulation, where the controller warns the user; a live cluster logs the warning instead."""

    text: str = ""


KINDS: tuple[type[EventEntry], ...] = (
    ClusterStartedEntry,
    ClusterStoppingEntry,
    ExecutorsEntry,
    CheckpointTakenEntry,
    ControllerErrorEntry,
    ControllerFailedEntry,
    PeerRefusedEntry,
    StrangerRefusedEntry,
    EntriesLeftOutEntry,
    EventLogLostEntry,
    LogContinuedEntry,
    WarningEntry,
)
