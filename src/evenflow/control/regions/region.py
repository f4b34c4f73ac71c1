"""The base class of all regions: what the controller can ask of each, with answers for regions without state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from evenflow.control.events import (
    CheckpointTakenEvent,
    FeederJoinedEvent,
    Instruction,
    Peer,
    PeerLeftEvent,
    RegionOpenedEvent,
    ResultUnpersistedEvent,
    SaveEndedEvent,
)
from evenflow.control.regions.performance import PerformanceLog
from evenflow.control.regions.service_times import ServiceTimes
from evenflow.control.workers import WorkerLife
from evenflow.model import KeyedSnapshot, MoveUnits, Snapshot
from evenflow.model.entries import RegionOpenedEntry
from evenflow.model.messages import FeederMessage, WorkerRegionMessage, WorkerReport


class Region(ABC):
    """One region. It outlives its feeders, which last for one micro-batch.

    Methods whose answer is a default here concern regions whose workers keep state.
    """

    def __init__(self, name: str, operator: str, units: int = 0) -> None:
        self.name, self.operator = name, operator
        self.units = units
        """0 if workers keep no state for it."""
        self.feeders: set[Peer] = set()
        """The feeders whose rows go to workers."""
        self.service = ServiceTimes()
        self.performance = PerformanceLog(name)
        self.shed = 0.0
        """The share of rows that feeders drop."""

    @property
    @abstractmethod
    def in_use(self) -> bool:
        """Whether it has feeders, or a query that may have feeders again."""

    @abstractmethod
    def opened(self, time: float) -> RegionOpenedEntry:
        """The entry for the event log."""

    @abstractmethod
    def close(self, time: float) -> Iterable[Instruction]:
        """Close a region that has had no feeders for long."""

    @abstractmethod
    def set_workers(
        self, time: float, workers: Mapping[int, WorkerLife], reasons: Mapping[int, str] | None = None
    ) -> Iterable[Instruction]:
        """Set the live workers; `reasons` says why others were lost, as far as that is known."""

    @abstractmethod
    def join(self, feeder: FeederJoinedEvent) -> Iterable[Instruction]:
        """A task has joined that was not refused."""

    @abstractmethod
    def hear(self, time: float, feeder: FeederJoinedEvent, message: FeederMessage) -> Iterable[Instruction]:
        """Handle a message of one of its feeders."""

    @abstractmethod
    def leave(self, feeder: FeederJoinedEvent, event: PeerLeftEvent, ended: bool) -> Iterable[Instruction]:
        """A task is over; `ended`: it was through with its rows."""

    @abstractmethod
    def tick(self, time: float) -> Iterable[Instruction]:
        """Do everything that is due at this time."""

    @abstractmethod
    def note_rest(self, time: float) -> Iterable[Instruction]:
        """The entries of the rows that came and left since the last entries; no others follow."""

    @abstractmethod
    def snapshot(self, time: float) -> Snapshot | KeyedSnapshot:
        """The figures of the region now."""

    # -- state

    @property
    def kept(self) -> set[int]:
        """The persisted RDDs whose evaluations have state in it."""
        return set()

    def reopen(self, event: RegionOpenedEvent) -> Iterable[Instruction]:
        """A query is restarted and finds its state by name; if the operator's code has changed, it is loaded again."""
        return ()

    def knows(self, feeder: FeederJoinedEvent) -> bool:
        """Whether the evaluation of a task is known, live or ended."""
        return True

    def register(self, feeder: FeederJoinedEvent) -> str:
        """Register a task that has started; returns why it is refused, or an empty text."""
        return ""

    def check(self, message: WorkerRegionMessage | FeederMessage) -> None:
        """Refuse a message about units that the operator does not have, before any part of it is applied."""
        return

    def hear_worker(self, time: float, worker: int, message: WorkerRegionMessage) -> Iterable[Instruction]:
        """Handle a message of a live worker."""
        return ()

    def worker_busy(self, time: float, worker: int, told: WorkerReport) -> Iterable[Instruction]:
        """A worker reports for how long it was busy; only graphs make use of it."""
        return ()

    def carry_out(self, time: float, moves: Iterable[MoveUnits]) -> Iterable[Instruction]:
        """Begin moves of units, or record why not."""
        return ()

    def save_ended(self, event: SaveEndedEvent) -> Iterable[Instruction]:
        """A note or a manifest is in the store, or cannot be put there."""
        return ()

    def give_up_stored(self, event: CheckpointTakenEvent) -> Iterable[Instruction]:
        """End all queries whose state is stored: another cluster has taken the checkpoint."""
        return ()

    def unpersisted(self, event: ResultUnpersistedEvent) -> Iterable[Instruction]:
        """Drop the state of evaluations whose RDDs are no longer persisted."""
        return ()

    def note_waits(self, waited_for: dict[int, float]) -> Iterable[Instruction]:
        """Note since when tasks have waited for workers that load state, if that is longer than noted already."""
        return ()
