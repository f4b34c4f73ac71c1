"""Events and instructions of a worker's two state machines, as values, so that tests compare lists.

`movements` and `loads` decide: they turn events into instructions. `unit_mover` and `evaluations` carry these out. An
order of the controller (`model.messages`) is an event as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.model.messages import DropState, ForgetEvaluation, LoadState, MovementOrder, SendUnits, WorkerMessage

Unread = Any
"""A value that a machine passes on unread from one executor to another: frames, state that was taken out, the parts of
a parcel, loaded state. Only the executors know its type, and a machine imports no executor."""
UnitNumbers = Sequence[int]
PlacedUnits = Sequence[tuple[str, int]]
"""Pairs of an evaluation and a unit whose state was installed."""

# -- what happens to movements


@dataclass(frozen=True, slots=True)
class MarkerReachedEvent:
    """A feeder's marker has come: the rows sent before it are processed, or wait for state on disk."""

    move: int
    feeder: int
    region: str = ""
    """Empty for a graph: its rows do not wait for state on disk."""
    units: UnitNumbers = ()


@dataclass(frozen=True, slots=True)
class RowsAnsweredEvent:
    """Rows that came before a feeder's marker, and waited for state on disk, have been answered."""

    move: int
    feeder: int


@dataclass(frozen=True, slots=True)
class FlushedEvent:
    """Every receiver of a graph's rows has acknowledged the flush of a movement, or there was none."""

    move: int


@dataclass(frozen=True, slots=True)
class RowsTakenEvent:
    """The worker has taken rows of moving units out of its queue: answers `TakeRowsInstruction`."""

    move: int
    rows: Sequence[Unread]


@dataclass(frozen=True, slots=True)
class UnitsTakenOutEvent:
    """The worker has taken units out of its state, or has failed to: answers `TakeOutUnitsInstruction`."""

    move: int
    kept: Unread
    """The state that was taken out; if that failed half-way, the part of it that was."""
    parts: Sequence[Unread] = ()
    """The label and the pickled state, as they are sent."""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class UnitsPutBackEvent:
    """The worker has put units back into its state, or has failed to: answers `PutBackUnitsInstruction`."""

    move: int
    region: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class UnitsStoredEvent:
    """The units of a movement are in the store."""

    move: int


@dataclass(frozen=True, slots=True)
class DeliveryFailedEvent:
    """A movement's target could not be reached, or went away, or the store did not take the units."""

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
    """The units of a movement have arrived on this worker."""

    move: int
    parcel: Unread


@dataclass(frozen=True, slots=True)
class DeliveryRefusedEvent:
    """A peer sent units that the controller had not announced; only their label was read."""

    reason: str


@dataclass(frozen=True, slots=True)
class LoopRoundEvent:
    """The worker's loop begins another round: the code of an operator may have come."""


@dataclass(frozen=True, slots=True)
class UnitsInstalledEvent:
    """Result of `InstallUnitsInstruction`; it does not happen while the operator's code is missing."""

    move: int
    region: str
    units: UnitNumbers
    placed: PlacedUnits
    """The state that was installed; if that failed half-way, the part of it that was."""
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
    """Send the controller a message."""

    message: WorkerMessage


@dataclass(frozen=True, slots=True)
class AnswerRowsInstruction:
    """Answer the rows that wait for those of these units that are on disk. `RowsAnsweredEvent` answers it."""

    move: int
    feeder: int
    region: str
    units: UnitNumbers


@dataclass(frozen=True, slots=True)
class TakeRowsInstruction:
    """Take the rows of a graph that wait for these units out of the queue. `RowsTakenEvent` answers it."""

    move: int
    region: str
    units: UnitNumbers


@dataclass(frozen=True, slots=True)
class FlushInstruction:
    """Ask every receiver of a graph's rows to acknowledge them. `FlushedEvent` answers it."""

    move: int
    region: str


@dataclass(frozen=True, slots=True)
class TakeOutUnitsInstruction:
    """Take units out of the state, pack them with the rows that wait for them, and refuse later rows for them.

    `UnitsTakenOutEvent` answers it.
    """

    order: SendUnits
    rows: Sequence[Unread] = ()


@dataclass(frozen=True, slots=True)
class PutBackUnitsInstruction:
    """Put units back into the state, and the rows that waited for them into the queue.

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
    """Delete the units that a movement, which is over, has put into the store."""

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
    """Take installed state out again and forget it: the source has a copy. Refuse rows for its units from now on."""

    region: str
    placed: PlacedUnits


@dataclass(frozen=True, slots=True)
class DisownUnitsInstruction:
    """Stop saving these units on this worker, also units without state: they belong to the source again."""

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
    """Result of `StartLoadInstruction`; it does not happen while the operator's code is missing."""

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
    """Drop the state of an evaluation."""

    region: str
    evaluation: str


@dataclass(frozen=True, slots=True)
class ForgetLogInstruction:
    """Forget the query log of an evaluation that is over."""

    region: str
    evaluation: str


@dataclass(frozen=True, slots=True)
class StartLoadInstruction:
    """Begin to load. `LoadBegunEvent` answers it; nothing does while the operator's code is not on this worker."""

    order: LoadState


@dataclass(frozen=True, slots=True)
class UseLoadedInstruction:
    """Go on with state that has been loaded."""

    order: LoadState
    loaded: Unread


@dataclass(frozen=True, slots=True)
class DropLoadedInstruction:
    """Throw away state that was loaded for an order which a later one has replaced."""

    loaded: Unread


LoadInstruction = (
    TellInstruction
    | ClearStateInstruction
    | ForgetLogInstruction
    | StartLoadInstruction
    | UseLoadedInstruction
    | DropLoadedInstruction
)
