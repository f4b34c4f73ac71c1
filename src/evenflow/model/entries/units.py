"""Entries about units of keyed regions and graphs: samples, owners, movements. The controller writes all of them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from evenflow.model.entries.base import EntryPart, EventEntry, Maybe, RegionEntry


class ConsumerPart(EntryPart, frozen=True, kw_only=True):
    """Counters of one worker in a keyed region since the worker or the region began, and its state in bytes."""

    worker: int
    units: int = 0
    rows: int
    bytes: int = 0
    busy_s: float
    idle_s: float = 0.0
    seconds: float = 0.0
    memory: int = 0
    """What it may keep of state; 0 if there is no limit."""
    resident: int = 0
    spilled: int = 0
    pending: int = 0
    """Bytes of rows that wait for state on disk."""


class KeyedSampleEntry(RegionEntry, frozen=True, kw_only=True, tag="keyed-sample"):
    """The statistics of a keyed region, once a second while workers report."""

    feeders: int = 0
    version: int = 0
    """Of the routing table."""
    moving: int = 0
    moved: int = 0
    """Units, so far."""
    bytes_moved: int = 0
    state_bytes: int = 0
    hottest: list[tuple[int, int]] = []
    """The ten units with the most rows so far, and their rows."""
    keys: Maybe[dict[int, str]] = UNSET
    """By unit among these, the value of its most frequent key; where the user asked for values of keys."""
    counts: dict[str, int] = {}
    """What operators count, by name."""
    consumers: list[ConsumerPart]


class UnitRowsEntry(RegionEntry, frozen=True, kw_only=True, tag="unit-rows"):
    """How rows fell on units since the last such entry, every ten seconds; by it a run is simulated."""

    seconds: float
    rows: int = 0
    units: list[int]
    """Those with the most rows, at most 256."""
    unit_rows: list[int]
    """The rows of each of them."""
    others: int = 0
    """How many other units had rows."""


class UnitOwnersEntry(RegionEntry, frozen=True, kw_only=True, tag="unit-owners"):
    """The routing table has changed: what is new since the last such entry; in the first one, all of it."""

    version: int = 0
    even: Maybe[list[int]] = UNSET
    """The workers, if these take units in turn."""
    units: Maybe[list[int]] = UNSET
    """The units that have another owner; left out if all units are told."""
    owners: Maybe[list[int]] = UNSET
    """The owner of each of them."""


class RebalanceEntry(RegionEntry, frozen=True, kw_only=True, tag="rebalance"):
    """The balance of a keyed region wants moves."""

    balance: str = ""
    why: str = ""
    moves: int = 0
    units: int = 0
    """How many units are to move."""
    unit_rows: list[int] = []
    """The rows of each of them so far."""
    detail: dict[str, Any] = {}
    """What the balance saw, in its own terms."""


class MoveRefusedEntry(RegionEntry, frozen=True, kw_only=True, tag="move-refused"):
    """A move that the balance or the user wants is not possible."""

    units: list[int] = []
    source: Maybe[int] = UNSET
    target: Maybe[int] = UNSET
    why: str = ""


class MovementEntry(RegionEntry, frozen=True, kw_only=True):
    """An entry about one movement of units."""

    move: int = 0
    """Its number, which no other movement of the cluster has."""
    units: list[int]
    source: int
    target: int


class MoveEntry(MovementEntry, frozen=True, kw_only=True, tag="move"):
    """A movement begins."""

    why: str = ""


class MovedEntry(MovementEntry, frozen=True, kw_only=True, tag="moved"):
    """A movement is done: the target has the units."""

    bytes: int = 0
    """Of state."""
    seconds: float = 0.0
    """From its beginning."""
    version: int = 0
    """Of the routing table from now on."""


class MoveUndoneEntry(MovementEntry, frozen=True, kw_only=True, tag="move-undone"):
    """A movement was taken back: the source has the units again, or they are lost."""

    why: str = ""


class MoveLateEntry(MovementEntry, frozen=True, kw_only=True, tag="move-late"):
    """A worker has not answered for long; told once for each question."""

    phase: str = ""
    worker: int = -1
    """The one that is waited for."""
    seconds: float = 0.0


KINDS: tuple[type[EventEntry], ...] = (
    KeyedSampleEntry,
    UnitRowsEntry,
    UnitOwnersEntry,
    RebalanceEntry,
    MoveRefusedEntry,
    MoveEntry,
    MovedEntry,
    MoveUndoneEntry,
    MoveLateEntry,
)
