"""Decides what a worker does as the source or the target of movements: events in, instructions out.

The source waits for the markers of all feeders, has the units taken out and sends them. It keeps a copy until the
controller says that the target has them, so that a movement can be undone at any point. The target has units installed
as soon as they and their operator's code have arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from evenflow.model.messages import (
    AbandonMoves,
    DiscardUnits,
    FeederGone,
    FetchUnits,
    MoveOutcome,
    MoveReport,
    RecallUnits,
    RestoreUnits,
    SendUnits,
    UnitsMoved,
    WorkerTrouble,
)
from evenflow.runtime.worker.events import (
    AnswerRowsInstruction,
    DeleteUnitsInstruction,
    DeliveryFailedEvent,
    DeliveryRefusedEvent,
    DiscardUnitsInstruction,
    DisownUnitsInstruction,
    FetchFailedEvent,
    FetchUnitsInstruction,
    FlushedEvent,
    FlushInstruction,
    InstallUnitsInstruction,
    LoopRoundEvent,
    MarkerReachedEvent,
    MovementEvent,
    MovementInstruction,
    PlacedUnits,
    PutBackUnitsInstruction,
    RowsAnsweredEvent,
    RowsTakenEvent,
    SendUnitsInstruction,
    StoreUnitsInstruction,
    TakeOutUnitsInstruction,
    TakeRowsInstruction,
    TellInstruction,
    UnitNumbers,
    UnitsArrivedEvent,
    UnitsInstalledEvent,
    UnitsPutBackEvent,
    UnitsStoredEvent,
    UnitsTakenOutEvent,
    Unread,
)

REMEMBERED = 1000
"""So many ended evaluations and movements are remembered, so that rows and units that arrive late are refused."""

T = TypeVar("T")
V = TypeVar("V")


@dataclass(slots=True)
class Leaving:
    """A movement of which this worker is the source."""

    order: SendUnits
    waiting: set[int]
    """Feeders whose markers have not come yet."""
    quiet: bool = False
    """Whether all markers have come: then the units may be taken out, in a graph after a flush."""
    out: bool = False
    """Whether the units are taken out, and the controller knows that no rows are on their way to them."""
    rows: Sequence[Unread] = ()
    """Rows of a graph that waited for the units."""
    kept: Unread = None
    """A copy of the units that were sent, until the target has them."""


@dataclass(slots=True)
class LocalMovements:
    """All movements of one worker."""

    leaving: dict[int, Leaving] = field(default_factory=dict)
    markers: dict[int, set[int]] = field(default_factory=dict)
    """Per movement: feeders whose markers came before the controller's announcement."""
    arrived: dict[int, Unread] = field(default_factory=dict)
    """Parcels of units that wait for their operator's code."""
    _latest: int = 0
    """The number of the latest movement that was announced."""
    _returning: dict[int, TellInstruction] = field(default_factory=dict)
    """Per movement whose units are being put back: what the controller is told when they are in place."""
    _installed: dict[int, tuple[str, UnitNumbers, PlacedUnits]] = field(default_factory=dict)
    _discarded: dict[int, None] = field(default_factory=dict)

    def handle(self, event: MovementEvent) -> list[MovementInstruction]:
        """Handle one event; return the instructions."""
        match event:
            case LoopRoundEvent():
                return [InstallUnitsInstruction(move, parcel) for move, parcel in self.arrived.items()]
            case MarkerReachedEvent() | RowsAnsweredEvent() | FeederGone() | SendUnits():
                return self._wait(event)
            case RowsTakenEvent(move, rows):
                order = self.leaving[move].order
                self.leaving[move].rows = rows
                return [FlushInstruction(move, order.region)]
            case FlushedEvent(move):
                leaving = self.leaving.get(move)
                return _quiet(leaving) if leaving is not None else []
            case UnitsTakenOutEvent() | UnitsStoredEvent() | DeliveryFailedEvent():
                return self._go_on(event)
            case UnitsPutBackEvent(move, region, failure):
                return self._back_in_place(move, region, failure)
            case UnitsMoved(move):
                return self._left(move)[1]
            case RecallUnits(move, region):
                leaving = self.leaving.get(move)
                return self._restore(move, region) if leaving is not None and not leaving.out else []
            case RestoreUnits(move, region):
                return self._restore(move, region)
            case UnitsArrivedEvent(move, parcel):
                return self._arrive(move, parcel)
            case UnitsInstalledEvent():
                return self._put_in(event)
            case FetchUnits(move, region):
                return [FetchUnitsInstruction(move, region)] if move not in self._discarded else []
            case FetchFailedEvent(move, region, reason):
                return [_report(region, move, "undelivered", reason)]
            case DeliveryRefusedEvent(reason):
                return [TellInstruction(WorkerTrouble("a movement", reason))]
            case DiscardUnits(move, region):
                return self._discard(move, region)
            case AbandonMoves(moves=moves):
                return [instruction for move in moves for instruction in self._abandon(move)]

    # -- units that leave

    def _wait(
        self, event: SendUnits | MarkerReachedEvent | RowsAnsweredEvent | FeederGone
    ) -> list[MovementInstruction]:
        """Count markers; when all have come, no row is on its way, and the units are taken out."""
        move = event.move
        leaving = self.leaving.get(move)
        match event:
            case SendUnits(feeders=feeders):
                self._latest = move
                leaving = Leaving(event, set(feeders) - self.markers.pop(move, set()))
                self.leaving[move] = leaving
            case MarkerReachedEvent(feeder=feeder, region=region, units=units):
                return [AnswerRowsInstruction(move, feeder, region, units)]
            case RowsAnsweredEvent(feeder=feeder) | FeederGone(feeder=feeder) if leaving is not None:
                leaving.waiting.discard(feeder)
            case RowsAnsweredEvent(feeder=feeder) if move > self._latest:  # others come too late to matter
                remember(self.markers, move, self.markers.get(move, set()) | {feeder})
        if leaving is None or leaving.waiting or leaving.quiet:
            return []
        leaving.quiet = True
        order = leaving.order
        return [TakeRowsInstruction(move, order.region, order.units)] if order.flush else _quiet(leaving)

    def _go_on(self, event: UnitsTakenOutEvent | UnitsStoredEvent | DeliveryFailedEvent) -> list[MovementInstruction]:
        move = event.move
        leaving = self.leaving.get(move)
        if leaving is None:
            return []
        about = leaving.order
        match event:
            case UnitsTakenOutEvent(kept=kept, failure="", parts=parts):
                leaving.kept = kept
                if about.store:
                    return [StoreUnitsInstruction(move, about.region, parts)]
                return [SendUnitsInstruction(move, about.host, about.port, parts)]
            case UnitsTakenOutEvent(kept=kept, failure=why):
                return self._put_back(leaving, kept, _report(about.region, move, "failed", why))
            case UnitsStoredEvent():
                return [_report(about.region, move, "stored")]
            case DeliveryFailedEvent(reason=reason):
                return [_report(about.region, move, "undelivered", reason)]

    def _restore(self, move: int, region: str) -> list[MovementInstruction]:
        leaving, done = self._left(move)
        if leaving is None:
            return [_report(region, move, "restored")]
        return done + self._put_back(leaving, leaving.kept, _report(region, move, "restored"))

    def _put_back(self, leaving: Leaving, kept: Unread, then: TellInstruction) -> list[MovementInstruction]:
        about, rows = leaving.order, leaving.rows
        leaving.rows = ()
        self._returning[about.move] = then
        return [PutBackUnitsInstruction(about.move, about.region, about.units, kept, rows)]

    def _back_in_place(self, move: int, region: str, failure: str) -> list[MovementInstruction]:
        """The units were put back; if that failed, their state is lost."""
        then = self._returning.pop(move)
        return [_report(region, move, "lost", failure) if failure else then]

    def _left(self, move: int) -> tuple[Leaving | None, list[MovementInstruction]]:
        """Forget a movement of which this worker is the source, however it ended."""
        leaving = self.leaving.pop(move, None)
        if leaving is None or not leaving.out or not leaving.order.store:
            return leaving, []
        return leaving, [DeleteUnitsInstruction(move, leaving.order.region)]

    # -- units that arrive

    def _arrive(self, move: int, parcel: Unread) -> list[MovementInstruction]:
        if move not in self._discarded and move not in self._installed:
            self.arrived[move] = parcel
        return []

    def _put_in(self, event: UnitsInstalledEvent) -> list[MovementInstruction]:
        move, region = event.move, event.region
        del self.arrived[move]
        if event.failure:
            return [DiscardUnitsInstruction(region, event.placed), _report(region, move, "failed", event.failure)]
        remember(self._installed, move, (region, event.units, event.placed))
        return [_report(region, move, "installed", bytes=event.bytes)]

    def _discard(self, move: int, region: str) -> list[MovementInstruction]:
        self.arrived.pop(move, None)
        remember(self._discarded, move, None)
        installed = self._installed.pop(move, None)
        done: list[MovementInstruction] = []
        if installed is not None:
            name, units, placed = installed
            done = [DiscardUnitsInstruction(name, placed), DisownUnitsInstruction(name, units)]
        return [*done, _report(region, move, "discarded")]

    def _abandon(self, move: int) -> list[MovementInstruction]:
        """Forget a movement, and refuse its units if they still come."""
        for kept in (self.markers, self.arrived, self._installed):
            kept.pop(move, None)
        remember(self._discarded, move, None)
        return self._left(move)[1]


def remember(kept: dict[T, V], key: T, value: V) -> None:
    """Insert an entry, and drop the oldest beyond REMEMBERED."""
    kept[key] = value
    while len(kept) > REMEMBERED:
        del kept[next(iter(kept))]


def _quiet(leaving: Leaving) -> list[MovementInstruction]:
    """Have the units taken out: no rows are on their way to them, nor from them."""
    order, leaving.out = leaving.order, True
    return [_report(order.region, order.move, "quiet"), TakeOutUnitsInstruction(order, leaving.rows)]


def _report(region: str, move: int, outcome: MoveOutcome, reason: str = "", bytes: int = 0) -> TellInstruction:
    """Tell the controller how far a movement is."""
    return TellInstruction(MoveReport(region, move, outcome, reason, bytes))
