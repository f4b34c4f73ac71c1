"""Entries about evaluations, their batches, and state in a store. The controller writes all of them."""

from __future__ import annotations

from msgspec import UNSET

from evenflow.model.entries.base import EventEntry, Maybe, RegionEntry


class EvaluationEntry(RegionEntry, frozen=True, kw_only=True):
    """An entry about one evaluation; that of a streaming query is called "query " and its id."""

    evaluation: str = ""


class EvaluationOverEntry(EvaluationEntry, frozen=True, kw_only=True):
    """The state of an evaluation is dropped."""

    why: str = ""


class EvaluationEndedEntry(EvaluationOverEntry, frozen=True, kw_only=True, tag="evaluation-ended"):
    """The state of an evaluation is dropped: something went wrong."""


class EvaluationStoppedEntry(EvaluationOverEntry, frozen=True, kw_only=True, tag="evaluation-stopped"):
    """The state of an evaluation is dropped: its query was stopped by the user."""


class EvaluationDroppedEntry(EvaluationOverEntry, frozen=True, kw_only=True, tag="evaluation-dropped"):
    """The state of an evaluation is dropped: nobody needs it any more."""


class AttemptEntry(EvaluationEntry, frozen=True, kw_only=True):
    """An attempt at a batch of a stored query cannot count."""

    epoch: int = 0
    why: str = ""


class AttemptPoisonedEntry(AttemptEntry, frozen=True, kw_only=True, tag="attempt-poisoned"):
    """Something went wrong in an attempt at a batch: Spark runs the batch again."""


class AttemptStoppedEntry(AttemptEntry, frozen=True, kw_only=True, tag="attempt-stopped"):
    """A query was stopped by the user in the middle of a batch."""


class RepeatLeftEntry(AttemptEntry, frozen=True, kw_only=True, tag="repeat-left"):
    """A batch was given again in part, and nobody has gone on with it."""


class StoreFailedEntry(RegionEntry, frozen=True, kw_only=True, tag="store-failed"):
    """A note or a manifest could not be put into the store."""

    query: str = ""
    what: str = ""
    """Which one: `begun`, `whole`, `epoch` or `void`."""
    error: str = ""


class TaskDurableEntry(RegionEntry, frozen=True, kw_only=True, tag="task-durable"):
    """The rows of a task are durable; how many seconds it waited for that."""

    query: str = ""
    log_s: float
    """For the query logs of workers."""
    note_s: float
    """For the note of the attempt; 0 if another partition's task waits for it."""


class LoadingEntry(EvaluationEntry, frozen=True, kw_only=True, tag="loading"):
    """Workers are told to load the state of a query."""

    epoch: int = 0
    """The batch at whose end the state is taken up."""
    snapshots: int = 0
    """Blobs of unit snapshots."""
    repeats: Maybe[int] = UNSET
    """The attempt whose rows are repeated, if one is."""


class LoadedEntry(EvaluationEntry, frozen=True, kw_only=True, tag="loaded"):
    """A worker has loaded its part of the state, or cannot."""

    worker: int = 0
    error: str = ""
    bytes: int = 0
    rows: int = 0
    """Those of query logs that were applied again."""
    seconds: float = 0.0


class SnapshotTooLateEntry(EvaluationEntry, frozen=True, kw_only=True, tag="snapshot-too-late"):
    """A worker told of a unit snapshot too late to be used, and is to save the units again."""

    epoch: int = 0
    units: int = 0
    """How many."""


KINDS: tuple[type[EventEntry], ...] = (
    EvaluationDroppedEntry,
    EvaluationEndedEntry,
    EvaluationStoppedEntry,
    AttemptPoisonedEntry,
    AttemptStoppedEntry,
    RepeatLeftEntry,
    StoreFailedEntry,
    TaskDurableEntry,
    LoadingEntry,
    LoadedEntry,
    SnapshotTooLateEntry,
)
