"""Carries out what `movements` decides: takes units out of the state and installs them, packs, sends and fetches them.

A movement calls the user's code (extract, install, pickle) only from here. An error of that code costs the movement,
never the worker.
"""

from __future__ import annotations

import pickle
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, assert_never

from evenflow.errors import ProtocolError
from evenflow.model.messages import SendUnits
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker import events
from evenflow.runtime.worker.machine import drive
from evenflow.runtime.worker.moves.direct_transfer import DirectTransfer, Parcel
from evenflow.runtime.worker.moves.label import Label, Part
from evenflow.runtime.worker.moves.movements import LocalMovements
from evenflow.runtime.worker.moves.store_transfer import StoreTransfer
from evenflow.runtime.worker.rows.regions import LocalRegion, LocalRegions
from evenflow.runtime.worker.saving.checkpointer import Checkpointer, SendMessage

ExtractedStates = dict[str, dict[int, Any]]
"""The user's state, by evaluation and unit."""
NO_STORE = "this worker has no store"


@dataclass(slots=True)
class Taken:
    """State that was taken out of a region for a movement."""

    operator: str = ""
    """Empty if this worker has no state of the region."""
    states: ExtractedStates = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Brought:
    """A movement's units that have arrived, and whose label has been checked."""

    label: Label
    parts: list[Part]


class GraphRows(Protocol):
    """The rows of graphs on this worker, as movements of their units see them."""

    def flush(self, move: int, region: str) -> bool:
        """Start a flush of a graph's rows; `FlushedEvent` answers it. False if there is no receiver to wait for."""

    def take_rows(self, region: str, units: Sequence[int]) -> list[Frame]:
        """Take the rows that wait for units of a graph out of the queue."""

    def keep_rows(self, region: str, move: int, units: Sequence[int], rows: Sequence[Frame]) -> bool:
        """Give units of a graph that have arrived, and their rows, a place in the queue; False if it is not known."""


class UnitMover:
    """Gives events to `LocalMovements`, and carries out its instructions."""

    def __init__(
        self,
        *,
        tell: SendMessage,
        direct_transfer: DirectTransfer,
        regions: LocalRegions,
        over: Container[tuple[str, str]],
        graph_rows: GraphRows,
        checkpointer: Checkpointer | None,
        store_transfer: StoreTransfer | None,
    ) -> None:
        self.movements = LocalMovements()
        self._tell = tell
        self._direct = direct_transfer
        self._regions = regions
        self._over = over
        """Regions and evaluations that have ended: their state is not installed any more."""
        self._checkpointer = checkpointer
        self._via_store = store_transfer
        self._graph_rows = graph_rows

    def handle(self, event: events.MovementEvent) -> None:
        """Let the machine decide about an event, and carry out its instructions."""
        drive(self.movements.handle, self._carry_out, event)

    def collect(self) -> None:
        """Handle the news of the direct transfer and the store transfer."""
        for transfer in (self._direct, self._via_store):
            while transfer is not None and not transfer.inbox.empty():
                news = transfer.inbox.get()
                self.handle(self._checked(news) if isinstance(news, Parcel) else news)
        if self.movements.arrived:
            self.handle(events.LoopRoundEvent())

    def _checked(self, parcel: Parcel) -> events.UnitsArrivedEvent | events.DeliveryRefusedEvent:
        """Refuse units that the controller has not announced to this worker; only their label is read before."""
        try:
            label = Label.read(parcel.parts[0])
            label.check(self._direct.key, parcel.move)
        except ProtocolError as error:
            return events.DeliveryRefusedEvent(f"{error}")
        return events.UnitsArrivedEvent(parcel.move, Brought(label, parcel.parts))

    def _carry_out(self, instruction: events.MovementInstruction) -> events.MovementEvent | None:
        match instruction:
            case events.TellInstruction(message):
                self._tell(message)
            case events.AnswerRowsInstruction(move, feeder, region, units):
                self._regions.settle(region, list(units))
                return events.RowsAnsweredEvent(move, feeder)
            case events.TakeRowsInstruction(move, region, units):
                return events.RowsTakenEvent(move, self._graph_rows.take_rows(region, units))
            case events.FlushInstruction(move, region):
                return None if self._graph_rows.flush(move, region) else events.FlushedEvent(move)
            case events.TakeOutUnitsInstruction(order, rows):
                return self._take_out(order, rows)
            case events.PutBackUnitsInstruction():
                return self._put_back(instruction)
            case events.SendUnitsInstruction(move, host, port, parts):
                self._direct.send(Parcel(move, list(parts), host, port))
            case events.InstallUnitsInstruction(move, brought):
                return self._install(move, brought)
            case events.DiscardUnitsInstruction(region, placed):
                self._throw_away(region, placed)
            case events.DisownUnitsInstruction(region, units):
                if self._checkpointer is not None:
                    self._checkpointer.gone(region, list(units))
            case events.StoreUnitsInstruction(move, region, parts):
                if self._via_store is None:
                    return events.DeliveryFailedEvent(move, NO_STORE)
                self._via_store.put(region, Parcel(move, list(parts)))
            case events.FetchUnitsInstruction(move, region):
                if self._via_store is None:
                    return events.FetchFailedEvent(move, region, NO_STORE)
                self._via_store.get(region, move)
            case events.DeleteUnitsInstruction(move, region):
                if self._via_store is not None:
                    self._via_store.delete(region, move)
            case _:
                assert_never(instruction)
        return None

    # -- units that leave

    def _take_out(self, about: SendUnits, rows: Sequence[Frame]) -> events.UnitsTakenOutEvent:
        region = self._regions.get(about.region)
        taken = Taken(region.operator if region is not None else "")
        try:
            if region is not None:
                self._extract(about, region, taken.states)
        except BaseException as error:  # the user's code
            return events.UnitsTakenOutEvent(
                about.move, taken, failure=f"extract failed: {type(error).__name__}: {error}"
            )
        buffers: list[pickle.PickleBuffer] = []
        try:
            frames = [(frame.sequence, frame.part, pickle.PickleBuffer(frame.body)) for frame in rows]
            body = pickle.dumps((taken.states, frames), protocol=5, buffer_callback=buffers.append)
        except BaseException as error:  # whatever the user's state runs into when it is pickled
            return events.UnitsTakenOutEvent(about.move, taken, failure=f"its state cannot be serialised: {error}")
        if region is not None:
            for evaluation in about.evaluations:
                if (about.region, evaluation) not in self._over:
                    region.mark_away(evaluation, list(about.units))
        label = self._label(about, taken.operator)
        return events.UnitsTakenOutEvent(
            about.move, taken, [label, body, *(memoryview(buffer.raw()) for buffer in buffers)]
        )

    def _extract(self, about: SendUnits, region: LocalRegion, states: ExtractedStates) -> None:
        self._regions.settle(about.region, list(about.units))
        for evaluation in about.evaluations:
            if evaluation in region.instances:
                taken = states.setdefault(evaluation, {})
                for unit in about.units:
                    state = region.instances[evaluation].extract(unit)
                    if state is not None:
                        taken[unit] = state

    def _label(self, about: SendUnits, operator: str) -> bytes:
        units, evaluations = list(about.units), list(about.evaluations)
        touched = self._checkpointer.touched(about.region, evaluations, units) if self._checkpointer else {}
        label = Label(
            move=about.move,
            region=about.region,
            operator=operator,
            source=about.source,
            units=units,
            evaluations=evaluations,
            ticket=about.ticket,
            touched=touched,
        )
        return label.packed()

    def _put_back(self, order: events.PutBackUnitsInstruction) -> events.UnitsPutBackEvent:
        taken: Taken = order.kept or Taken()
        if order.rows:  # if the graph is not known any more, nobody waits for them
            self._graph_rows.keep_rows(order.region, order.move, order.units, order.rows)
        region = self._regions.get(order.region)
        if region is None and any(taken.states.values()):
            region = self._regions.receiving(order.region, taken.operator)
        if region is None:
            return events.UnitsPutBackEvent(order.move, order.region)
        try:
            self._put_in(order.region, region, taken.states, [])
        except BaseException as error:  # the user's code
            why = f"install failed where the state came from: {type(error).__name__}: {error}"
            return events.UnitsPutBackEvent(order.move, order.region, why)
        region.mark_here(list(order.units))
        return events.UnitsPutBackEvent(order.move, order.region)

    # -- units that arrive

    def _install(self, move: int, brought: Brought) -> events.UnitsInstalledEvent | None:
        label = brought.label
        if label.operator and self._regions.code(label.operator) is None:
            return None
        _, body, *buffers = brought.parts
        placed: list[tuple[str, int]] = []
        try:
            if label.operator:
                region: LocalRegion | None = self._regions.receiving(label.region, label.operator)
            else:
                region = self._regions.get(label.region)
            states, frames = pickle.loads(body, buffers=buffers)
            label.check_states(states)
            rows = [Frame(Kind.FLOW, memoryview(part), number, part=root) for number, root, part in frames]
            if region is not None:
                self._put_in(label.region, region, states, placed)
            if not self._graph_rows.keep_rows(label.region, move, label.units, rows) and rows:
                raise ProtocolError(f"rows came with units of region {label.region!r:.100}, which is not known here")
        except BaseException as error:  # the user's code; the source has a copy of it all
            why = f"install failed: {type(error).__name__}: {error}"
            return events.UnitsInstalledEvent(move, label.region, label.units, placed, failure=why)
        if region is not None:
            region.mark_here(label.units)
            region.mark_active([unit for _, unit in placed])
            if self._checkpointer is not None:
                self._checkpointer.arrived(label.region, region.units, move, label.units, dict(label.touched))
        size = len(body) + sum(memoryview(buffer).nbytes for buffer in buffers)
        return events.UnitsInstalledEvent(move, label.region, label.units, placed, size)

    def _put_in(self, name: str, region: LocalRegion, states: ExtractedStates, placed: list[tuple[str, int]]) -> None:
        """Install state, except of evaluations that are over; `placed` names each unit before it is installed."""
        for evaluation, units in states.items():
            if (name, evaluation) not in self._over:
                for unit, state in units.items():
                    placed.append((evaluation, unit))
                    self._regions.instance_of(region, evaluation).install(unit, state)

    def _throw_away(self, name: str, placed: events.PlacedUnits) -> None:
        region = self._regions.get(name)
        for evaluation, unit in placed:
            if region is not None and evaluation in region.instances:
                with suppress(BaseException):  # the user's code; the source has a copy
                    region.instances[evaluation].extract(unit)
                region.mark_away(evaluation, unit)
