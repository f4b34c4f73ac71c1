"""What the controller tells feeders, and what workers of graphs hear with them."""

from __future__ import annotations

from evenflow.model.messages.base import (
    Message,
    MessagePart,
    Port,
    Real,
    Several,
    Share,
    Table,
    UnitNumbers,
    Units,
    Whole,
)


class WorkerAddress(MessagePart, frozen=True):
    """Where a feeder finds a worker."""

    id: Whole
    incarnation: Whole
    host: str
    pid: Whole
    port: Port


class PausedUnits(MessagePart, frozen=True):
    """A movement that a feeder must know of when it begins: it holds the units' rows and sends no marker."""

    move: Whole
    units: UnitNumbers


class PauseUnits(Message, frozen=True):
    """Controller to feeders, and to workers of a graph, as a movement begins: hold rows, mark their end."""

    move: Whole
    region: str
    units: UnitNumbers
    source: Whole


class ReleaseUnits(Message, frozen=True):
    """Controller to feeders, and to workers of a graph, as a movement ends: the units are with this worker."""

    move: Whole
    region: str
    worker: Whole
    version: Whole
    """Of the routing table."""


class Directory(Message, frozen=True):
    """Controller to feeders of an ordered region, when they join and when workers come or go."""

    workers: Several[WorkerAddress]
    weights: Table[Whole, Whole]
    """By worker, in thousandths."""
    costs: Table[Whole, Real] = {}
    """By worker, seconds a row, as far as known."""
    overhead: Real | None = None
    """What a call costs beside its rows, in rows; None if not known."""
    shed: Share = 0.0
    """As in `ShedRows`."""


class Weights(Message, frozen=True):
    """Controller to feeders of an ordered region: the balance has decided."""

    weights: Table[Whole, Whole]
    """By worker, in thousandths."""


class KeyedDirectory(Message, frozen=True):
    """Controller to a feeder of a keyed operator that may apply its rows, and again when workers come."""

    evaluation: str
    workers: Several[WorkerAddress]
    you: Whole
    """The feeder's own number, for markers."""
    owners: Units
    """The worker that owns each unit."""
    version: Whole
    """Of the routing table."""
    paused: Several[PausedUnits]
    attempt: Whole = 0
    """At its batch, if the state is stored; else 0."""
    costs: Table[Whole, Real] = {}
    overhead: Real | None = None
    shed: Share = 0.0
    """As in `Directory`."""


class ShedRows(Message, frozen=True):
    """Controller to feeders whose `qos` allows it: drop this share of the rows that come, from the lowest value on."""

    share: Share


class Loading(Message, frozen=True):
    """Controller to feeders that wait for state, once a period: it is being loaded, wait on."""


class Committed(Message, frozen=True):
    """Controller to feeder, in answer to `FeederEnded` where state is stored: all is noted, the task may end."""


class EvaluationLost(Message, frozen=True):
    """Controller to feeder: its evaluation is over, or its attempt cannot count."""

    reason: str


class FeederRefused(Message, frozen=True):
    """Controller to feeder: the cluster does not serve it (any more)."""

    reason: str


ToFeeder = (
    Directory
    | Weights
    | KeyedDirectory
    | ShedRows
    | PauseUnits
    | ReleaseUnits
    | Loading
    | Committed
    | EvaluationLost
    | FeederRefused
)
