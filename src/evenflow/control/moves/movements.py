"""Moving units from worker to worker while rows flow (flux §5.2), as a pure state machine.

A movement takes some units of one region from a source to a target:

    PauseUnits  to every feeder: it holds back the units' rows from now on, and sends a marker to the source
    SendUnits   to the source, with a ticket for the target (`tickets`): when the markers of all these feeders are
                there, so are all rows in flight; the source says so (`quiet`), extracts the units, sends them to the
                target and keeps a copy
    installed   from the target: the routing table changes; feeders release the rows; the source drops its copy

With `transfer="store"` (cep §3.3) the source puts the units into the store instead, and says so (`stored`); the target
is told to fetch them (FetchUnits). Then the two workers need no connection to each other.

In a graph workers are senders, too. The rows that wait at the source for the units go with them, so that nobody waits
for the queue of a slow worker. Before that, a flush makes sure that all results of the units have reached their
receivers.

A movement whose source is not quiet in time is recalled (RecallUnits): if the units are still in place, the source lets
go of the movement, and nobody waits for the target. If they have left meanwhile, the movement goes on.

A movement whose units have left, and that cannot be finished because the target is lost, a worker fails or time is up,
is taken back: first DiscardUnits to the target; when it has answered, or is gone, RestoreUnits to the source, which
puts its copy back. Then feeders release the rows to the source. Every message has the movement's id; replies to
movements that are over, or that do not fit their phase, are ignored. If the source is lost, its units are lost, and the
region deals with that.

A worker in one long call of the user's function answers nothing meanwhile, and is not lost. So a movement waits for its
workers as long as everybody does, `stall_timeout`; a late worker is written into the event log (`move-late`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf

import numpy as np

from evenflow.control.events import Instruction, Peer, SendInstruction, Transfer
from evenflow.control.moves.move_queue import MoveQueue
from evenflow.control.moves.movement import Movement, plain
from evenflow.control.moves.patience import PATIENCE_S, least_s, markers_s
from evenflow.control.moves.pauses import Pauses
from evenflow.control.workers import WorkerLife
from evenflow.model import MoveUnits, RoutingTable
from evenflow.model.entries import MovedEntry, MoveEntry, MoveLateEntry, MoveRefusedEntry, MoveUndoneEntry
from evenflow.model.messages import (
    AbandonMoves,
    DiscardUnits,
    FeederGone,
    FetchUnits,
    MoveReport,
    PausedUnits,
    PauseUnits,
    RecallUnits,
    ReleaseUnits,
    RestoreUnits,
    SendUnits,
    UnitsMoved,
)
from evenflow.model.tickets import ticket


@dataclass
class Movements:
    """All movements of one region, and its routing table."""

    region: str
    table: RoutingTable
    evaluations: Callable[[], list[str]] = list
    """Gives the names of the evaluations that have state now."""
    transfer: Transfer = "direct"
    """Whether units go from worker to worker, or by way of the store."""
    stall_s: float = inf
    """How many seconds a movement waits for a worker that answers nothing: at least PATIENCE_S."""
    wait_s: Callable[[int], float] = lambda worker: 0.0
    """By worker, the median of the seconds that rows take from being sent until they are answered, as last reported."""
    workers: dict[int, WorkerLife] = field(default_factory=dict)
    under_way: dict[int, Movement] = field(default_factory=dict)
    latest: int = 0
    """The latest movement that has begun."""
    moved: int = 0
    undone: int = 0
    ended: float = 0.0
    """When the last movement was done, taken back or forgotten; 0 if there was none."""
    bytes_moved: int = 0
    pause_s: float = 0.0
    pauses: Pauses = field(default_factory=Pauses)
    held: bool = False
    """Whether no movement may begin now, because state is being loaded."""
    blocked_by: str = ""
    """Why units of this region can no longer be moved; empty if they can."""
    queue: MoveQueue = field(default_factory=MoveQueue)
    """Moves that have not begun."""
    spread: Callable[[int, Sequence[int]], RoutingTable] = RoutingTable.even
    """Gives a number of units to the live workers, when there is no state."""
    dealt: bool = False
    """Whether owners of units have changed in another way than by movements, and workers do not know it yet."""
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    """The ids of movements: rising, and unique in the cluster, since workers identify movements by them."""

    def deal(self, anew: bool) -> None:
        """Give units without a live owner to the live workers; with `anew`, when there is no state, give all anew."""
        if not self.workers:
            return
        live = list(self.workers)
        if anew and not self.moving:
            even = self.spread(self.table.units, live)
            if not np.array_equal(even.owners, self.table.owners):
                self.table = RoutingTable(self.table.version + 1, even.owners)
                self.dealt = True
            return
        orphans = np.flatnonzero(~np.isin(self.table.owners, live))
        for place, worker in enumerate(live):
            mine = orphans[orphans % len(live) == place]
            if len(mine):
                self.table = self.table.moved(mine.tolist(), worker)
                self.dealt = True

    @property
    def graph(self) -> bool:
        """Whether the units are those of a graph.

        Then workers send rows, too, and hold and mark them as feeders do; before units leave, their results are
        flushed; and a movement has units of one node.
        """
        return self.queue.nodes is not None

    @property
    def moving(self) -> int:
        """The number of units under way or queued."""
        return len(self.queue.units) + sum(len(movement.units) for movement in self.under_way.values())

    def paused(self) -> tuple[PausedUnits, ...]:
        """The movements for a feeder that joins now: it holds back the rows of their units and sends no marker."""
        return tuple(PausedUnits(movement.id, movement.units) for movement in self.under_way.values())

    def ask(
        self, time: float, move: MoveUnits, sizes: Mapping[int, int], feeders: Iterable[Peer]
    ) -> Iterator[Instruction]:
        """A balance or the user wants a move: begin it, or record why not."""
        why = self._problem(move)
        if why:
            yield MoveRefusedEntry(
                time=time,
                region=self.region,
                units=[plain(unit) for unit in move.units],
                source=plain(move.source),
                target=plain(move.target),
                why=why,
            )
            return
        self.queue.add(move, sizes)
        yield from self._begin(time, feeders)

    def hear(self, time: float, worker: int, report: MoveReport, feeders: Iterable[Peer]) -> Iterator[Instruction]:
        """Take in a worker's report of a movement."""
        number = report.move
        match report.outcome:
            case "quiet":
                self.quiet(time, number, worker)
            case "stored":
                yield from self.stored(time, number, worker)
            case "installed":
                yield from self.installed(time, number, worker, report.bytes, feeders)
            case "failed" | "undelivered":
                yield from self.failed(time, number, worker, report.reason, report.outcome == "failed")
            case "discarded":
                yield from self.discarded(time, number, worker)
            case "restored":
                yield from self.restored(time, number, worker, feeders)

    def resume(self, time: float, feeders: Iterable[Peer]) -> Iterator[Instruction]:
        """Let movements begin again."""
        self.held = False
        yield from self._begin(time, feeders)

    def quiet(self, time: float, number: int, worker: int) -> None:
        """The source has the markers of all feeders and begins to send; if it was recalled, that came too late."""
        movement = self.under_way.get(number)
        if movement is not None and movement.phase in ("moving", "recalling") and worker == movement.source:
            movement.quiet, movement.reason = time, ""
            self._await(time, movement, "moving", movement.source if self.transfer == "store" else movement.target)

    def stored(self, time: float, number: int, worker: int) -> Iterator[Instruction]:
        """The source has put the units into the store."""
        movement = self.under_way.get(number)
        if movement is not None and movement.phase == "moving" and worker == movement.source:
            self._await(time, movement, "moving", movement.target)
            yield SendInstruction(self.workers[movement.target].peer, FetchUnits(number, self.region))

    def installed(
        self, time: float, number: int, worker: int, size: int, feeders: Iterable[Peer]
    ) -> Iterator[Instruction]:
        """The target has the units: the movement is done."""
        movement = self.under_way.get(number)
        if movement is None or movement.phase not in ("moving", "recalling") or worker != movement.target:
            return
        feeders = list(feeders)
        del self.under_way[number]
        self.table = self.table.moved(movement.units, movement.target)
        self.moved += len(movement.units)
        self.ended = time
        self.bytes_moved += size
        took = time - movement.began
        self.pause_s += took * len(movement.units)
        self._note_pause(time, movement)
        yield from self._release(movement, movement.target, feeders)
        source = self.workers.get(movement.source)
        if source is not None:
            yield SendInstruction(source.peer, UnitsMoved(number))
        fields = movement.fields(self.region)
        yield MovedEntry(time=time, **fields, bytes=size, seconds=round(took, 6), version=self.table.version)
        yield from self._begin(time, feeders)

    def failed(self, time: float, number: int, worker: int, reason: str, final: bool) -> Iterator[Instruction]:
        """The source or the target has failed; `final`: units of this operator cannot be moved at all."""
        movement = self.under_way.get(number)
        if movement is None or movement.phase not in ("moving", "recalling"):
            return
        if worker not in (movement.source, movement.target):
            return
        if final:
            self.blocked_by = reason
        yield from self._take_back(time, movement, reason)

    def discarded(self, time: float, number: int, worker: int) -> Iterator[Instruction]:
        """The target does not have the units, and will not accept them any more."""
        movement = self.under_way.get(number)
        if movement is not None and movement.phase == "discarding" and worker == movement.target:
            yield from self._restore(time, movement)

    def restored(self, time: float, number: int, worker: int, feeders: Iterable[Peer]) -> Iterator[Instruction]:
        """The source has the units again: the movement is taken back."""
        movement = self.under_way.get(number)
        if movement is None or movement.phase not in ("recalling", "restoring") or worker != movement.source:
            return
        feeders = list(feeders)
        del self.under_way[number]
        self.undone += len(movement.units)
        self.ended = time
        self._note_pause(time, movement)
        yield from self._release(movement, movement.source, feeders)
        yield MoveUndoneEntry(time=time, **movement.fields(self.region), why=movement.reason)
        yield from self._begin(time, feeders)

    def feeder_left(self, peer: Peer) -> Iterator[Instruction]:
        """A feeder is gone: its rows in flight no longer count, and sources must not wait for its marker."""
        for movement in self.under_way.values():
            source = self.workers.get(movement.source)
            if peer in movement.feeders and source is not None:
                movement.feeders -= {peer}
                yield SendInstruction(source.peer, FeederGone(movement.id, peer))

    def worker_lost(self, time: float, worker: int) -> Iterator[Instruction]:
        """A worker without units is gone: units that were to go there stay where they are."""
        self.workers.pop(worker, None)
        self.queue.worker_lost(worker)
        for movement in list(self.under_way.values()):
            if movement.target == worker and movement.phase != "restoring":
                movement.reason = movement.reason or f"worker {worker} was lost"
                yield from self._restore(time, movement)

    def abandon(self, time: float, why: str) -> Iterator[Instruction]:
        """State is lost: forget all movements, and tell workers to forget them."""
        for movement in self.under_way.values():
            yield MoveUndoneEntry(time=time, **movement.fields(self.region), why=why)
        if self.under_way:
            self.ended = time
            for life in self.workers.values():
                yield SendInstruction(life.peer, AbandonMoves(self.region, tuple(self.under_way)))
            if self.graph:  # workers hold rows for these movements: nobody may send them any before they know better
                self.table, self.dealt = RoutingTable(self.table.version + 1, self.table.owners), True
        self.under_way.clear()
        self.queue.clear()

    def tick(self, time: float) -> Iterator[Instruction]:
        """Take back movements that take too long, and record whose workers are late."""
        for movement in list(self.under_way.values()):
            if movement.phase == "moving" and time >= movement.deadline:
                if movement.quiet is not None:
                    yield from self._take_back(time, movement, f"not done within {time - movement.heard:.0f} s")
                elif time >= movement.began + (patience := markers_s(self.graph, self.wait_s(movement.source))):
                    late = f"some of feeders {sorted(movement.feeders)} did not answer within {patience:.3g} s"
                    yield from self._recall(time, movement, late)
            elif movement.awaited >= 0 and not movement.late and time >= movement.heard + PATIENCE_S:
                movement.late = True
                yield MoveLateEntry(
                    time=time,
                    **movement.fields(self.region),
                    phase=movement.phase,
                    worker=movement.awaited,
                    seconds=round(time - movement.heard, 3),
                )

    def overdue(self, time: float) -> Movement | None:
        """A movement that could not be taken back in time, because a worker does not answer; None if there is none."""
        late = (m for m in self.under_way.values() if m.phase != "moving" and time >= m.deadline)
        return next(late, None)

    def _await(self, time: float, movement: Movement, phase: str, worker: int) -> None:
        """From now on the movement waits for an answer of this worker."""
        if phase == "moving" or worker != movement.awaited:  # else it has not answered the question before either
            movement.heard, movement.late = time, False
        movement.phase, movement.awaited = phase, worker
        movement.deadline = max(movement.heard + self.stall_s, time + PATIENCE_S)

    def _begin(self, time: float, feeders: Iterable[Peer]) -> Iterator[Instruction]:
        """Begin queued moves that need not wait for movements under way."""
        told = frozenset(feeders)
        if self.held:
            return
        for move, size in self.queue.ready(self.under_way):
            number = self.latest = next(self.numbers)
            movement = self.under_way[number] = Movement(
                id=number,
                units=move.units,
                source=move.source,
                target=move.target,
                began=time,
                feeders=told,
                deadline=time + least_s(self.graph),
                heard=time,
                size=size,
            )
            yield MoveEntry(time=time, **movement.fields(self.region), why=move.reason)
            for peer in sorted(told):
                yield SendInstruction(peer, PauseUnits(number, self.region, move.units, move.source))
            yield SendInstruction(self.workers[move.source].peer, self._order(movement))

    def _order(self, movement: Movement) -> SendUnits:
        """The message to the source of a movement."""
        target, evaluations = self.workers[movement.target], tuple(self.evaluations())
        about = (movement.id, self.region, movement.source, movement.units, evaluations)
        return SendUnits(
            move=movement.id,
            region=self.region,
            units=movement.units,
            source=movement.source,
            target=movement.target,
            host=target.host,
            port=target.transfer_port,
            feeders=tuple(sorted(movement.feeders)),
            evaluations=evaluations,
            ticket=ticket(target.key, *about),
            store=self.transfer == "store",
            flush=self.graph,
        )

    def _recall(self, time: float, movement: Movement, reason: str) -> Iterator[Instruction]:
        movement.reason = reason
        self._await(time, movement, "recalling", movement.source)
        yield SendInstruction(self.workers[movement.source].peer, RecallUnits(movement.id, self.region))

    def _take_back(self, time: float, movement: Movement, reason: str) -> Iterator[Instruction]:
        movement.reason = reason
        target = self.workers.get(movement.target)
        if target is None:
            yield from self._restore(time, movement)
        else:
            self._await(time, movement, "discarding", movement.target)
            yield SendInstruction(target.peer, DiscardUnits(movement.id, self.region))

    def _restore(self, time: float, movement: Movement) -> Iterator[Instruction]:
        self._await(time, movement, "restoring", movement.source)
        source = self.workers.get(movement.source)
        if source is not None:
            yield SendInstruction(source.peer, RestoreUnits(movement.id, self.region))

    def _note_pause(self, time: float, movement: Movement) -> None:
        """A movement is over; units that have not left were waited for until now."""
        self.pauses.add(time, (time if movement.quiet is None else movement.quiet) - movement.began)

    def _release(self, movement: Movement, worker: int, feeders: Iterable[Peer]) -> Iterator[Instruction]:
        """Have all feeders release the rows to a worker, also feeders that joined after the pause."""
        message = ReleaseUnits(movement.id, self.region, worker, self.table.version)
        for peer in sorted(feeders):
            yield SendInstruction(peer, message)

    def _problem(self, move: MoveUnits) -> str:
        """Why a move is not possible; empty if it is."""
        if self.blocked_by:
            return f"units of this region cannot be moved: {self.blocked_by}"
        if move.source == move.target:
            return f"worker {move.source} is source and target"
        if move.source not in self.workers or move.target not in self.workers:
            return f"workers {move.source} and {move.target} are not both live"
        if not move.units or len(set(move.units)) < len(move.units):
            return "it names no unit, or one twice"
        if any(not 0 <= unit < self.table.units for unit in move.units):
            return f"units go from 0 to {self.table.units - 1}"
        strays = [unit for unit in move.units if self.table.owners[unit] != move.source]
        if strays:
            return f"worker {move.source} does not own unit {strays[0]}"
        busy = self.queue.units.union(*(movement.units for movement in self.under_way.values())) & set(move.units)
        return f"unit {min(busy)} is under way already" if busy else ""
