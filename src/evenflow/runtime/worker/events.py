"""What happens to a worker's machines, and what they want done: values, so that tests compare lists.

`movements` and `loads` decide; `unit_mover` and `evaluations` carry out. The controller's orders (`model.messages`) are
events as they are. What the executors hand over (state that was taken out, the parts of a parcel, loaded state) is
`Any` here: the machines pass it on unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.model.messages import DropState, ForgetEvaluation, LoadState, MovementOrder, SendUnits, WorkerMessage

UnitNumbers = Sequence[int]
PlacedUnits = Sequence[tuple[str, int]]
"""Evaluations and units whose state was installed."""

# -- what happens to movements


@dataclass(frozen=True, slots=True)
class Marked:
    """A feeder's marker is here: all rows it had sent before are processed, or wait for state on disk."""

    move: int
    feeder: int
    region: str = ""
    """Empty if it is that of a graph, in which no rows wait for state on disk."""
    units: UnitNumbers = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """The rows before a feeder's marker that waited for state on disk have been answered."""

    move: int
    feeder: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """All that this worker has sent of a movement's graph is where it goes; or nobody waits for it."""

    move: int


@dataclass(frozen=True, slots=True)
class RowsTaken:
    """Result of `TakeRows`: frames."""

    move: int
    rows: Sequence[Any]


@dataclass(frozen=True, slots=True)
class TakenOut:
    """Result of `TakeOut`."""

    move: int
    kept: Any
    """What was taken out, also if it failed half-way."""
    parts: Sequence[Any] = ()
    """The label and the pickled state, as sent."""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class BackInPlace:
    """Result of `PutBack`."""

    move: int
    region: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class UnitsStored:
    """The units of a movement are in the store."""

    move: int


@dataclass(frozen=True, slots=True)
class Undelivered:
    """The target of a movement could not be reached, or went away; or the store did not take the units."""

    move: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unfetched:
    """The units of a movement could not be got from the store."""

    move: int
    region: str
    reason: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """The units of a movement are here."""

    move: int
    parcel: Any


@dataclass(frozen=True, slots=True)
class DeliveryRefused:
    """A peer brought units that nobody announced; nothing of them was read but their label."""

    reason: str


@dataclass(frozen=True, slots=True)
class Round:
    """The worker's loop goes on: the code of an operator may have come."""


@dataclass(frozen=True, slots=True)
class Installed:
    """Result of `Install`; not sent while code is missing."""

    move: int
    region: str
    units: UnitNumbers
    placed: PlacedUnits
    """What was put in, also if it failed half-way."""
    bytes: int = 0
    failure: str = ""


MovementEvent = (
    MovementOrder
    | Marked
    | Settled
    | RowsTaken
    | Flushed
    | TakenOut
    | BackInPlace
    | UnitsStored
    | Undelivered
    | Unfetched
    | Arrived
    | DeliveryRefused
    | Round
    | Installed
)

# -- what is to be done about movements


@dataclass(frozen=True, slots=True)
class TellController:
    """Tell the controller."""

    message: WorkerMessage


@dataclass(frozen=True, slots=True)
class Settle:
    """Answer the rows that wait for these units, if they are on disk, then say `Settled`."""

    move: int
    feeder: int
    region: str
    units: UnitNumbers


@dataclass(frozen=True, slots=True)
class TakeRows:
    """Take the rows of a graph that wait for units out of the queue, then say `RowsTaken`."""

    move: int
    region: str
    units: UnitNumbers


@dataclass(frozen=True, slots=True)
class Flush:
    """Have those who get rows of a graph from here say when they have all of them, then say `Flushed`."""

    move: int
    region: str


@dataclass(frozen=True, slots=True)
class TakeOut:
    """Take units out of the state, pack them with their rows and refuse more of these; then say `TakenOut`."""

    order: SendUnits
    rows: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class PutBack:
    """Put units back into the state that they were taken out of, and rows to be served; then say `BackInPlace`."""

    move: int
    region: str
    units: UnitNumbers
    kept: Any
    rows: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Send:
    """Send units to their target."""

    move: int
    host: str
    port: int
    parts: Sequence[Any]


@dataclass(frozen=True, slots=True)
class PutInStore:
    """Put units into the store."""

    move: int
    region: str
    parts: Sequence[Any]


@dataclass(frozen=True, slots=True)
class FetchFromStore:
    """Get units from the store."""

    move: int
    region: str


@dataclass(frozen=True, slots=True)
class DeleteFromStore:
    """Delete what was put into the store for a movement that is over."""

    move: int
    region: str


@dataclass(frozen=True, slots=True)
class Install:
    """Put units that have arrived into the state, then say `Installed`; nothing if the operator's code is not here."""

    move: int
    parcel: Any


@dataclass(frozen=True, slots=True)
class ThrowAway:
    """Take out what was installed, and forget it: the source has a copy. Refuse its rows from now on."""

    region: str
    placed: PlacedUnits


@dataclass(frozen=True, slots=True)
class Disown:
    """Do not save these units from here any more, not even those without state: they are the source's again."""

    region: str
    units: UnitNumbers


MovementInstruction = (
    TellController
    | Settle
    | TakeRows
    | Flush
    | TakeOut
    | PutBack
    | Send
    | PutInStore
    | FetchFromStore
    | DeleteFromStore
    | Install
    | ThrowAway
    | Disown
)

# -- what happens to the state of evaluations


@dataclass(frozen=True, slots=True)
class LoadBegun:
    """Result of `StartLoad`; not sent while code is missing."""

    order: LoadState
    failure: str = ""


@dataclass(frozen=True, slots=True)
class LoadEnded:
    """State has been loaded, or `error` says why not."""

    order: LoadState
    loaded: Any
    error: str = ""
    bytes: int = 0
    rows: int = 0
    seconds: float = 0.0


LoadEvent = ForgetEvaluation | DropState | LoadState | Round | LoadBegun | LoadEnded

# -- what is to be done about it


@dataclass(frozen=True, slots=True)
class ClearState:
    """Let go of the state of an evaluation."""

    region: str
    evaluation: str


@dataclass(frozen=True, slots=True)
class ForgetLog:
    """Forget the query log of an evaluation that is over."""

    region: str
    evaluation: str


@dataclass(frozen=True, slots=True)
class StartLoad:
    """Begin to load, then say `LoadBegun`; nothing if the operator's code is not here."""

    order: LoadState


@dataclass(frozen=True, slots=True)
class UseLoaded:
    """Go on with state that has been loaded."""

    order: LoadState
    loaded: Any


@dataclass(frozen=True, slots=True)
class LetGo:
    """Throw away state that has been loaded for an order that does not count any more."""

    loaded: Any


LoadInstruction = TellController | ClearState | ForgetLog | StartLoad | UseLoaded | LetGo
