"""What the controller tells workers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from evenflow.model.messages.base import (
    Batch,
    Message,
    MessagePart,
    Port,
    Real,
    Several,
    Table,
    UnitNumbers,
    Units,
    Whole,
)
from evenflow.model.messages.controller_to_feeder import PausedUnits, PauseUnits, ReleaseUnits, WorkerAddress
from evenflow.model.routing import MOST_UNITS


class Shutdown(Message, frozen=True):
    """Controller to worker: end."""

    reason: str


class Prepare(Message, frozen=True):
    """Controller to worker, when regions are opened: load these operators, so that no row waits for that."""

    operators: Several[str]


class NoCode(Message, frozen=True):
    """Controller to worker, in answer to `CodeWanted`: no region uses this operator any more."""

    operator: str


class SetClock(Message, frozen=True):
    """Controller to worker, when the first feeder has come: emulated changes of capacity count from then."""

    elapsed: Real
    """Seconds since then."""


class SetMemory(Message, frozen=True):
    """Controller to worker: the state of operators may take so many bytes of its memory from now on."""

    memory: Annotated[int, Meta(ge=1, le=2**63 - 1)]


class SendReport(Message, frozen=True):
    """Controller to worker: somebody asks what it has done, so send a `WorkerReport` now."""

    number: Whole


class ServiceWeights(Message, frozen=True):
    """Controller to all workers, when an operator misses its target of latency or has room again: serve by these."""

    weights: Table[str, Real]
    """By region; the others have what `qos` gives them."""


class SendUnits(Message, frozen=True):
    """Controller to the source of a movement: once the markers of all `feeders` are here, send the units."""

    move: Whole
    region: str
    units: UnitNumbers
    source: Whole
    target: Whole
    host: str
    port: Port
    """Where the target takes units."""
    feeders: Several[Whole]
    evaluations: Several[str]
    """Evaluations whose state is sent."""
    ticket: str
    """What lets the units in at the target (`model.tickets`)."""
    store: bool = False
    """Whether they go by way of the store."""
    flush: bool = False
    """Whether, before they leave, all that they gave must be where it goes: units of a graph."""


class FeederGone(Message, frozen=True):
    """Controller to the source of a movement: the marker of this feeder will not come."""

    move: Whole
    feeder: Whole


class UnitsMoved(Message, frozen=True):
    """Controller to the source of a movement: the target has the units, drop the copy."""

    move: Whole


class FetchUnits(Message, frozen=True):
    """Controller to the target of a movement: the units are in the store, take them from there."""

    move: Whole
    region: str


class DiscardUnits(Message, frozen=True):
    """Controller to the target of a movement: it is called off; throw away what came of it, and what still comes."""

    move: Whole
    region: str


class RecallUnits(Message, frozen=True):
    """Controller to the source of a movement: it is called off, unless its units have been taken out already."""

    move: Whole
    region: str


class RestoreUnits(Message, frozen=True):
    """Controller to the source of a movement: it is called off; put the copy back."""

    move: Whole
    region: str


class AbandonMoves(Message, frozen=True):
    """Controller to all workers: the state that these movements were about is gone; forget them."""

    region: str
    moves: Several[Whole]


class ForgetEvaluation(Message, frozen=True):
    """Controller to all workers: an evaluation is over; drop its state, and refuse rows that still come for it."""

    region: str
    evaluation: str


class DropState(Message, frozen=True):
    """Controller to all workers: drop the state of an evaluation; it is loaded before more rows come."""

    region: str
    evaluation: str


class SnapshotEntry(MessagePart, frozen=True):
    """A unit snapshot in the store."""

    name: str
    epoch: Batch


class LogEntry(MessagePart, frozen=True):
    """The rows of one batch in the store."""

    epoch: Batch
    attempt: Whole
    segments: Table[str, Whole]
    """By writer."""


class LoadState(Message, frozen=True):
    """Controller to each worker: load the state of your units that an attempt starts from."""

    region: str
    evaluation: str
    operator: str
    count: Whole
    """All units of the region."""
    load: Whole
    """The number of this order: answers to earlier ones do not count."""
    epoch: Whole
    attempt: Whole
    """The batch and attempt that start from this state."""
    snapshots: Annotated[tuple[SnapshotEntry, ...], Meta(max_length=MOST_UNITS)]
    logs: Several[LogEntry]
    units: Units
    """Units of the worker that gets this message."""
    repeated: LogEntry | None = None
    """The log of the whole attempt at this batch that the attempt repeats; None if it repeats none."""


class SaveAgain(Message, frozen=True):
    """Controller to worker, in answer to a `UnitsSaved` that came too late: save these units again."""

    region: str
    evaluation: str
    epoch: Batch
    units: Units


class GraphRouting(Message, frozen=True):
    """Controller to all workers: who owns which unit of a graph, when that changes in another way than by movements.

    Rows held for movements that are not among `paused` are thrown away: what they belonged to is over.
    """

    region: str
    operator: str
    you: Whole
    """The number that the controller knows the worker by, for markers."""
    workers: Several[WorkerAddress]
    owners: Units
    """The worker that owns each unit."""
    version: Whole
    """Of the routing table."""
    paused: Several[PausedUnits]
    move: Whole = 0
    """The latest movement that has begun."""


MovementOrder = (
    SendUnits | FeederGone | UnitsMoved | FetchUnits | DiscardUnits | RecallUnits | RestoreUnits | AbandonMoves
)
"""About movements of units."""
EvaluationOrder = ForgetEvaluation | DropState | LoadState | SaveAgain
"""About the state of an evaluation."""
FlowOrder = GraphRouting | PauseUnits | ReleaseUnits
"""About the ways of a graph's rows."""
ToWorker = (
    Shutdown
    | Prepare
    | NoCode
    | SetClock
    | SetMemory
    | SendReport
    | ServiceWeights
    | MovementOrder
    | EvaluationOrder
    | FlowOrder
)
