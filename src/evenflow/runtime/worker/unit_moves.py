"""Movements of units, as a worker does them: those of which it is the source, and those of which it is the target.

The source waits for the markers of all feeders, takes the units out and sends them; it keeps what it sent until the
target has it, so that a movement can be undone at any point.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from evenflow.errors import ProtocolError
from evenflow.model.messages import (
    AbandonMoves,
    DiscardUnits,
    FeederGone,
    FetchUnits,
    MovementOrder,
    MoveOutcome,
    MoveReport,
    RestoreUnits,
    SendUnits,
    UnitsMoved,
    WorkerTrouble,
)
from evenflow.runtime.worker.checkpointer import Checkpointer, Tell
from evenflow.runtime.worker.direct_transfer import DirectTransfer, Parcel, Refused, Undelivered
from evenflow.runtime.worker.move_label import Label, Part, remember
from evenflow.runtime.worker.regions import HostedRegions, Region
from evenflow.runtime.worker.store_transfer import Stored, StoreTransfer, Unfetched

States = dict[str, dict[int, Any]]
"""By evaluation and unit."""
Put = list[tuple[str, int]]
"""Evaluations and units whose state was installed."""


@dataclass(slots=True)
class Leaving:
    """A movement of which this worker is the source."""

    label: Label
    """Its evaluations are those whose state goes; whoever came later holds these units' rows back."""
    host: str
    port: int
    waiting: set[int]
    """Feeders whose markers are still to come."""
    by_store: bool = False
    """Whether they go by way of the store."""
    operator: str = ""
    kept: States = field(default_factory=dict)
    """What was sent, until the target has it."""
    sent: bool = False

    @property
    def region(self) -> str:
        """Whose units they are."""
        return self.label.region

    @property
    def units(self) -> list[int]:
        """Those that leave."""
        return self.label.units

    @property
    def evaluations(self) -> list[str]:
        """Those whose state goes with them."""
        return self.label.evaluations


class Moves:
    """All movements of one worker."""

    def __init__(
        self,
        tell: Tell,
        direct_transfer: DirectTransfer,
        regions: HostedRegions,
        checkpointer: Checkpointer | None,
        store_transfer: StoreTransfer | None,
    ) -> None:
        self._tell = tell
        self._direct = direct_transfer
        self._regions = regions
        self._checkpointer = checkpointer
        self._via_store = store_transfer
        self._leaving: dict[int, Leaving] = {}
        self._markers: dict[int, set[int]] = {}
        self._latest = 0
        """The latest movement the controller told us of as the source; they come in order."""
        self._arrived: dict[int, list[Part]] = {}
        self._installed: dict[int, tuple[str, list[int], Put]] = {}
        self._discarded: dict[int, None] = {}

    def obey(self, order: MovementOrder) -> None:
        """Do what the controller says about movements."""
        match order:
            case SendUnits(move=move):
                self._latest = move
                waiting = set(order.feeders) - self._markers.pop(move, set())
                self._leaving[move] = _leaving(order, waiting)
                self._send_if_quiet(move)
            case FeederGone():
                self._marked(order.move, order.feeder)
            case UnitsMoved():
                self._left(order.move)
            case RestoreUnits():
                self._restore(order.move, order.region)
            case FetchUnits() if self._via_store is not None and order.move not in self._discarded:
                self._via_store.get(order.region, order.move)
            case DiscardUnits():
                self._discard(order.move, order.region)
            case AbandonMoves():
                self._abandon(order.moves)

    def collect(self) -> None:
        """Take what the direct transfer and the store transfer have brought."""
        for inbox in (
            self._direct.inbox,
            *((self._via_store.inbox,) if self._via_store is not None else ()),
        ):
            while not inbox.empty():
                self._take(inbox.get())
        for move in list(self._arrived):
            self._install(move)

    def _take(self, news: Parcel | Stored | Undelivered | Unfetched | Refused) -> None:
        match news:
            case Parcel(move=move, parts=parts) if move not in self._discarded and move not in self._installed:
                self._arrived[move] = parts
            case Refused(reason=reason):
                self._tell(WorkerTrouble("a movement", reason))
            case Stored(move=move) if move in self._leaving:
                self._report(self._leaving[move].region, move, "stored")
            case Undelivered(move=move, reason=reason) if move in self._leaving:
                self._report(self._leaving[move].region, move, "undelivered", reason)
            case Unfetched(move=move, region=region, reason=reason):
                self._report(region, move, "undelivered", reason)

    def _abandon(self, moves: Iterable[int]) -> None:
        """All state these movements were about is gone: forget them, and do not take what comes of them yet."""
        for move in moves:
            self._left(move)
            for kept in (self._markers, self._arrived, self._installed):
                kept.pop(move, None)
            remember(self._discarded, move)

    def _report(self, region: str, move: int, outcome: MoveOutcome, reason: str = "", bytes: int = 0) -> None:
        self._tell(MoveReport(region, move, outcome, reason, bytes))

    def _put_in(self, name: str, region: Region, states: States, put: Put) -> None:
        """Install state, but for evaluations that are over; `put` has what was begun."""
        for evaluation, units in states.items():
            if (name, evaluation) not in self._regions.forgotten:
                for unit, state in units.items():
                    put.append((evaluation, unit))
                    self._regions.copy_of(region, evaluation).install(unit, state)

    # -- units that leave

    def marker(self, move: int, feeder: int) -> None:
        """A feeder's marker: all it had sent before is processed, but for rows that wait for state on disk."""
        if move in self._leaving:
            self._regions.settle(self._leaving[move].region, self._leaving[move].units)
            self._marked(move, feeder)
            return
        for name, region in self._regions.items():  # which units it is about is not known yet
            self._regions.settle(name, list(range(region.units)))
        if move > self._latest:  # it overtook the controller's message; others come too late to matter
            remember(self._markers, move, self._markers.get(move, set()) | {feeder})

    def _marked(self, move: int, feeder: int) -> None:
        leaving = self._leaving.get(move)
        if leaving is not None:
            leaving.waiting.discard(feeder)
            self._send_if_quiet(move)

    def _send_if_quiet(self, move: int) -> None:
        """Once every row in flight has been seen: take the units out and send them off."""
        leaving = self._leaving[move]
        if leaving.waiting or leaving.sent:
            return
        leaving.sent = True
        self._report(leaving.region, move, "quiet")
        region = self._regions.get(leaving.region)
        try:
            if region is not None:
                leaving.operator = region.operator
                self._extract(leaving, region)
        except BaseException as error:  # the user's code
            self._stays(leaving, move, f"extract failed: {type(error).__name__}: {error}")
            return
        buffers: list[pickle.PickleBuffer] = []
        try:
            body = pickle.dumps(leaving.kept, protocol=5, buffer_callback=buffers.append)
        except BaseException as error:  # whatever the user's state runs into when it is pickled
            self._stays(leaving, move, f"its state cannot be serialised: {error}")
            return
        if region is not None:
            for evaluation in leaving.evaluations:
                if (leaving.region, evaluation) not in self._regions.forgotten:
                    region.mark_away(evaluation, leaving.units)
        touched = (
            self._checkpointer.touched(leaving.region, leaving.evaluations, leaving.units) if self._checkpointer else {}
        )
        label = structs.replace(leaving.label, operator=leaving.operator, touched=touched).packed()
        parts: list[Part] = [label, body, *(memoryview(buffer.raw()) for buffer in buffers)]
        parcel = Parcel(move, parts, leaving.host, leaving.port)
        if not leaving.by_store:
            self._direct.send(parcel)
        elif self._via_store is not None:
            self._via_store.put(leaving.region, parcel)

    def _extract(self, leaving: Leaving, region: Region) -> None:
        """Take the units out."""
        self._regions.settle(leaving.region, leaving.units)
        for evaluation in leaving.evaluations:
            if evaluation in region.copies:
                taken = leaving.kept.setdefault(evaluation, {})
                for unit in leaving.units:
                    state = region.copies[evaluation].extract(unit)
                    if state is not None:
                        taken[unit] = state

    def _stays(self, leaving: Leaving, move: int, why: str) -> None:
        """The units cannot leave."""
        if self._put_back(leaving, move):
            self._report(leaving.region, move, "failed", why)

    def _put_back(self, leaving: Leaving, move: int) -> bool:
        """Install what was taken out; if even that fails, the state is lost, and the controller is told."""
        states, leaving.kept = leaving.kept, {}
        region = self._regions.get(leaving.region)
        if region is None and any(states.values()):
            region = self._regions.receiving(leaving.region, leaving.operator)
        if region is None:
            return True
        try:
            self._put_in(leaving.region, region, states, [])
        except BaseException as error:  # the user's code
            why = f"install failed where the state came from: {type(error).__name__}: {error}"
            self._report(leaving.region, move, "lost", why)
            return False
        region.mark_here(leaving.units)
        return True

    def _restore(self, move: int, region: str) -> None:
        leaving = self._left(move)
        if leaving is None or self._put_back(leaving, move):
            self._report(region, move, "restored")

    def _left(self, move: int) -> Leaving | None:
        """A movement of which this worker is the source is over, in whatever way."""
        leaving = self._leaving.pop(move, None)
        if leaving is not None and leaving.by_store and leaving.sent and self._via_store is not None:
            self._via_store.delete(leaving.region, move)
        return leaving

    # -- units that arrive

    def _install(self, move: int) -> None:
        """Put units in that have arrived, as soon as their operator is here; what was not announced is not read."""
        try:
            label = Label.read(self._arrived[move][0])
            label.check(self._direct.key, move)
        except ProtocolError as error:
            del self._arrived[move]
            self._take(Refused(f"{error}"))
            return
        name, operator, units = label.region, label.operator, label.units
        if operator and self._regions.code(operator) is None:
            return
        _, body, *buffers = self._arrived.pop(move)
        put: Put = []
        try:
            region = self._regions.receiving(name, operator) if operator else self._regions.get(name)
            states = pickle.loads(body, buffers=buffers)
            label.check_states(states)
            if region is not None:
                self._put_in(name, region, states, put)
        except BaseException as error:  # the user's code; the source has a copy of it all
            self._take_out(name, put)
            self._report(name, move, "failed", f"install failed: {type(error).__name__}: {error}")
            return
        if region is not None:
            region.mark_here(units)
            region.active[[unit for _, unit in put]] = True
            if self._checkpointer is not None:
                self._checkpointer.arrived(name, region.units, move, units, dict(label.touched))
        remember(self._installed, move, (name, units, put))
        size = len(body) + sum(memoryview(buffer).nbytes for buffer in buffers)
        self._report(name, move, "installed", bytes=size)

    def _discard(self, move: int, region: str) -> None:
        """The movement is called off: what came of it goes, what comes yet is not taken."""
        self._arrived.pop(move, None)
        remember(self._discarded, move)
        name, units, put = self._installed.pop(move, (region, [], []))
        self._take_out(name, put)
        if self._checkpointer is not None:
            self._checkpointer.gone(name, units)
        self._report(region, move, "discarded")

    def _take_out(self, name: str, put: Put) -> None:
        """Take out again what was installed, and throw it away."""
        region = self._regions.get(name)
        for evaluation, unit in put:
            if region is not None and evaluation in region.copies:
                with suppress(BaseException):  # the user's code; the source has a copy
                    region.copies[evaluation].extract(unit)
                region.mark_away(evaluation, unit)


def _leaving(order: SendUnits, waiting: set[int]) -> Leaving:
    """What the controller has announced."""
    about = (order.source, list(order.units), list(order.evaluations), order.ticket)
    return Leaving(Label(order.move, order.region, "", *about), order.host, order.port, waiting, order.store)
