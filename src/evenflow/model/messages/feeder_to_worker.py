"""What feeders and workers tell each other; workers of a graph open connections to each other, too."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from evenflow.model.messages.base import Message, Name, UnitNumbers, Units, Whole
from evenflow.model.routing import MOST_UNITS


class OpenOrdered(Message, frozen=True):
    """Feeder of an ordered region to worker, in an OPEN frame."""

    operator: Name
    region: Name


REPORT_S = 0.1
"""Seconds between two reports of a worker about a keyed region, unless its balance wants others."""
LEAST_REPORT_S = 0.01


class OpenKeyed(Message, frozen=True):
    """Feeder of a keyed operator to worker, in an OPEN frame."""

    operator: Name
    region: Name
    evaluation: str
    feeder: Whole
    """The number that the controller knows it by."""
    units: Annotated[int, Meta(ge=0, le=MOST_UNITS + 1)]
    epoch: Whole = 0
    attempt: Whole = 0
    """At its batch, if the state is stored; else 0."""
    version: Whole = 0
    """Of a graph's routing table: the worker must know it before rows come."""
    move: Whole = 0
    """The latest movement in a graph that was under way when the feeder was let in: the worker must have heard of it.
    """
    report_s: Annotated[float, Meta(ge=LEAST_REPORT_S, le=60)] = REPORT_S
    """Seconds between two reports of the worker about the region."""


class OpenPeer(Message, frozen=True):
    """Worker to worker, in an OPEN frame: rows of graphs come over this connection."""

    worker: Whole


Opening = OpenOrdered | OpenKeyed | OpenPeer


class MarkedUnits(Message, frozen=True):
    """Feeder of a keyed operator to worker, in a MARKER frame: the units of the movement, whose last rows went before.

    The worker may hear of the movement from the controller later than that.
    """

    units: UnitNumbers


class RowsDurable(Message, frozen=True):
    """Worker to feeder, in an END frame that answers its own: its rows are in the store, or `error` says why not."""

    writer: str
    segments: Whole
    """How many segments of this writer's log the rows are in."""
    units: Units
    """Units that had rows in this attempt, by the same log."""
    error: str = ""
    left: Whole | None = None
    """In an attempt that repeats another one: how many logged rows have not come again so far; None in others."""


class OperatorFailed(Message, frozen=True):
    """Worker to feeder, in an ERROR frame: why the DATA frame of this sequence could not be processed."""

    worker: Whole
    where: str
    """Which row it seems to come from; empty if that is not known."""
    error: str
    traceback: str
