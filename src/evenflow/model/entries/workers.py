"""Entries about workers and their memory. The controller writes all of them."""

from __future__ import annotations

from evenflow.model.entries.base import EventEntry


class WorkerEntry(EventEntry, frozen=True, kw_only=True):
    """An entry about one worker."""

    worker: int


class WorkerJoinedEntry(WorkerEntry, frozen=True, kw_only=True, tag="worker-joined"):
    """A worker has registered, in its first life or again."""

    incarnation: int
    host: str = ""
    pid: int = 0


class WorkerRefusedEntry(WorkerEntry, frozen=True, kw_only=True, tag="worker-refused"):
    """A worker that registered is not wanted."""

    reason: str = ""


class WorkerLostEntry(WorkerEntry, frozen=True, kw_only=True, tag="worker-lost"):
    """A worker's connection has ended, or it was given up because it did not answer."""

    incarnation: int = 0
    pid: int = 0
    reason: str = ""


class WorkerStoppedEntry(WorkerEntry, frozen=True, kw_only=True, tag="worker-stopped"):
    """A worker has ended because the cluster stops."""

    incarnation: int = 0
    pid: int = 0
    reason: str = ""


class WorkerTroubleEntry(WorkerEntry, frozen=True, kw_only=True, tag="worker-trouble"):
    """A worker told of a problem; only so many are written in a minute."""

    what: str = ""
    """The part of the worker that has the problem."""
    reason: str = ""
    ends: bool = False
    """Whether the worker ends because of it."""


class TaskEndedEntry(WorkerEntry, frozen=True, kw_only=True, tag="task-ended"):
    """The Spark job of a worker is over; it is submitted again unless the cluster stops."""

    reason: str = ""


class MemoryAskedEntry(WorkerEntry, frozen=True, kw_only=True, tag="memory-asked"):
    """The user wants another budget for a worker's state."""

    memory: int
    """Bytes."""


class MemorySetEntry(WorkerEntry, frozen=True, kw_only=True, tag="memory-set"):
    """A worker keeps to another budget from now on; figures are in bytes."""

    memory: int
    resident: int = 0
    spilled: int = 0
    seconds: float = 0.0
    """How long it took."""


class MemoryRefusedEntry(WorkerEntry, frozen=True, kw_only=True, tag="memory-refused"):
    """A worker does not change its budget; figures are in bytes."""

    memory: int = 0
    """The budget that it keeps."""
    resident: int = 0
    spilled: int = 0
    asked: int = 0
    reason: str = ""


KINDS: tuple[type[EventEntry], ...] = (
    WorkerJoinedEntry,
    WorkerRefusedEntry,
    WorkerLostEntry,
    WorkerStoppedEntry,
    WorkerTroubleEntry,
    TaskEndedEntry,
    MemoryAskedEntry,
    MemorySetEntry,
    MemoryRefusedEntry,
)
