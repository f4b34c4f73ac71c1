"""What happens to a worker's machines, and what they want done: values, so that tests compare lists.

`movements` and `loads` decide; `unit_mover` and `evaluations` carry out. The controller's orders (`model.messages`) are
events as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.model.messages import DropState, ForgetEvaluation, LoadState, MovementOrder, SendUnits, WorkerMessage

Unread = Any
"""What executors hand to each other by way of a machine, which passes it on unread: frames, state that was taken out,
the parts of a parcel, loaded state. The types are known where these are made and used; this module imports neither."""
UnitNumbers = Sequence[int]
PlacedUnits = Sequence[tuple[str, int]]
"""Evaluations and units whose state was installed."""

# -- what happens to movements


@dataclass(frozen=True, slots=True)
class MarkerReachedEvent:
    """A feeder's marker is here: all rows it had sent before are processed, or wait for state on disk."""

    move: int
    feeder: int
    region: str = ""
    """Empty if it is that of a graph, in which no rows wait for state on disk."""
    units: UnitNumbers = ()


@dataclass(frozen=True, slots=True)
class RowsAnsweredEvent:
    """The rows before a feeder's marker that waited for state on disk have been answered."""

    move: int
    feeder: int


@dataclass(frozen=True, slots=True)
class FlushedEvent:
    """Every receiver of a graph's rows has acknowledged the flush of a movement, or there was none."""

    move: int


@dataclass(frozen=True, slots=True)
class RowsTakenEvent:
    """Result of `TakeRowsInstruction`: frames."""

    move: int
    rows: Sequence[Unread]


@dataclass(frozen=True, slots=True)
class UnitsTakenOutEvent:
    """Result of `TakeOutUnitsInstruction`."""

    move: int
    kept: Unread
    """What was taken out, also if it failed half-way."""
    parts: Sequence[Unread] = ()
    """The label and the pickled state, as sent."""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class UnitsPutBackEvent:
    """Result of `PutBackUnitsInstruction`."""

    move: int
    region: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class UnitsStoredEvent:
    """The units of a movement are in the store."""

    move: int


@dataclass(frozen=True, slots=True)
class DeliveryFailedEvent:
    """The target of a movement could not be reached, or went away; or the store did not take the units."""

    move: int
    reason: str


@dataclass(frozen=True, slots=True)
class FetchFailedEvent:
    """The units of a movement could not be got from the store."""

    move: int
    region: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnitsArrivedEvent:
    """The units of a movement are here."""

    move: int
    parcel: Unread


@dataclass(frozen=True, slots=True)
class DeliveryRefusedEvent:
    """A peer brought units that nobody announced; nothing of them was read but their label."""

    reason: str


@dataclass(frozen=True, slots=True)
class LoopRoundEvent:
    """The worker's loop goes on: the code of an operator may have come."""


@dataclass(frozen=True, slots=True)
class UnitsInstalledEvent:
    """Result of `InstallUnitsInstruction`; not sent while code is missing."""

    move: int
    region: str
    units: UnitNumbers
    placed: PlacedUnits
    """What was put in, also if it failed half-way."""
    bytes: int = 0
    failure: str = ""


MovementEvent = (
    MovementOrder
    | MarkerReachedEvent
    | RowsAnsweredEvent
    | RowsTakenEvent
    | FlushedEvent
    | UnitsTakenOutEvent
    | UnitsPutBackEvent
    | UnitsStoredEvent
    | DeliveryFailedEvent
    | FetchFailedEvent
    | UnitsArrivedEvent
    | DeliveryRefusedEvent
    | LoopRoundEvent
    | UnitsInstalledEvent
)

# -- what is to be done about movements


@dataclass(frozen=True, slots=True)
class TellInstruction:
    """Tell the controller."""

    message: WorkerMessage


@dataclass(frozen=True, slots=True)
class AnswerRowsInstruction:
    """Answer the rows that wait for these units, if they are on disk, then say `RowsAnsweredEvent`."""

    move: int
    feeder: int
    region: str
    units: UnitNumbers


@dataclass(frozen=True, slots=True)
class TakeRowsInstruction:
    """Take the rows of a graph that wait for units out of the queue, then say `RowsTakenEvent`."""

    move: int
    region: str
    units: UnitNumbers


@dataclass(frozen=True, slots=True)
class FlushInstruction:
    """Ask every receiver of a graph's rows to acknowledge them all. `FlushedEvent` answers it."""

    move: int
    region: str


@dataclass(frozen=True, slots=True)
class TakeOutUnitsInstruction:
    """Take units out of the state, pack them with their rows, and refuse further rows of theirs.

    `UnitsTakenOutEvent` answers it.
    """

    order: SendUnits
    rows: Sequence[Unread] = ()


@dataclass(frozen=True, slots=True)
class PutBackUnitsInstruction:
    """Put units back into the state that they were taken out of, and their rows into the queue.

    `UnitsPutBackEvent` answers it.
    """

    move: int
    region: str
    units: UnitNumbers
    kept: Unread
    rows: Sequence[Unread] = ()


@dataclass(frozen=True, slots=True)
class SendUnitsInstruction:
    """Send units to their target."""

    move: int
    host: str
    port: int
    parts: Sequence[Unread]


@dataclass(frozen=True, slots=True)
class StoreUnitsInstruction:
    """Put units into the store."""

    move: int
    region: str
    parts: Sequence[Unread]


@dataclass(frozen=True, slots=True)
class FetchUnitsInstruction:
    """Get units from the store."""

    move: int
    region: str


@dataclass(frozen=True, slots=True)
class DeleteUnitsInstruction:
    """Delete what was put into the store for a movement that is over."""

    move: int
    region: str


@dataclass(frozen=True, slots=True)
class InstallUnitsInstruction:
    """Put units that have arrived into the state.

    `UnitsInstalledEvent` answers it; nothing does while the operator's code is not on this worker.
    """

    move: int
    parcel: Unread


@dataclass(frozen=True, slots=True)
class DiscardUnitsInstruction:
    """Take out what was installed, and forget it: the source has a copy. Refuse its rows from now on."""

    region: str
    placed: PlacedUnits


@dataclass(frozen=True, slots=True)
class DisownUnitsInstruction:
    """Do not save these units from here any more, not even those without state: they are the source's again."""

    region: str
    units: UnitNumbers


MovementInstruction = (
    TellInstruction
    | AnswerRowsInstruction
    | TakeRowsInstruction
    | FlushInstruction
    | TakeOutUnitsInstruction
    | PutBackUnitsInstruction
    | SendUnitsInstruction
    | StoreUnitsInstruction
    | FetchUnitsInstruction
    | DeleteUnitsInstruction
    | InstallUnitsInstruction
    | DiscardUnitsInstruction
    | DisownUnitsInstruction
)

# -- what happens to the state of evaluations


@dataclass(frozen=True, slots=True)
class LoadBegunEvent:
    """Result of `StartLoadInstruction`; not sent while code is missing."""

    order: LoadState
    failure: str = ""


@dataclass(frozen=True, slots=True)
class LoadEndedEvent:
    """State has been loaded, or `error` says why not."""

    order: LoadState
    loaded: Unread
    error: str = ""
    bytes: int = 0
    rows: int = 0
    seconds: float = 0.0


LoadEvent = ForgetEvaluation | DropState | LoadState | LoopRoundEvent | LoadBegunEvent | LoadEndedEvent

# -- what is to be done about it


@dataclass(frozen=True, slots=True)
class ClearStateInstruction:
    """Let go of the state of an evaluation."""

    region: str
    evaluation: str


@dataclass(frozen=True, slots=True)
class ForgetLogInstruction:
    """Forget the query log of an evaluation that is over."""

    region: str
    evaluation: str


@dataclass(frozen=True, slots=True)
class StartLoadInstruction:
    """Begin to load, then say `LoadBegunEvent`; nothing if the operator's code is not here."""

    order: LoadState


@dataclass(frozen=True, slots=True)
class UseLoadedInstruction:
    """Go on with state that has been loaded."""

    order: LoadState
    loaded: Unread


@dataclass(frozen=True, slots=True)
class DropLoadedInstruction:
    """Throw away state that has been loaded for an order that does not count any more."""

    loaded: Unread


LoadInstruction = (
    TellInstruction
    | ClearStateInstruction
    | ForgetLogInstruction
    | StartLoadInstruction
    | UseLoadedInstruction
    | DropLoadedInstruction
)
