"""The routing of graphs as one worker knows it, and the rows that it holds for units that are being moved.

A worker sends rows of graphs as feeders do, and does what they do about a movement: it holds rows, marks the end of
those that it has sent, and releases them. Units that have come, or were put back, have a gate in the queue of this
worker. Rows that are given for them here go to that gate until it is reached.

Nothing is sent here: what is to be sent to whom is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from evenflow.graph.routing import Ways
from evenflow.model.messages import AbandonMoves, FlowOrder, GraphRouting, PauseUnits, ReleaseUnits
from evenflow.runtime.wire.flows import MARK
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.graphs.lookup import FindGraph
from evenflow.runtime.worker.graphs.queue import Gate, RowQueue


class Outgoing(NamedTuple):
    """A frame that is to be sent to a worker."""

    worker: int
    frame: Frame
    rows: int = 0


@dataclass(slots=True)
class HeldRows:
    """A frame of rows for units that are being moved; its feeder knows of it already."""

    frame: Frame
    rows: int


@dataclass(slots=True)
class LocalRouting:
    """The routing of one graph, as this worker knows it, with the rows that it holds for units that move."""

    order: GraphRouting
    version: int
    """Of the routing table."""
    move: int
    """The latest movement that was heard of."""
    ways: Ways | None = None
    """None until the graph itself is here."""
    early: list[PauseUnits | ReleaseUnits] = field(default_factory=list)
    """What was told meanwhile."""
    held: dict[int, list[HeldRows]] = field(default_factory=dict)
    """By movement."""
    gates: dict[int, Gate] = field(default_factory=dict)
    """By movement, the place of its units in the queue here, if they have come and it is not reached yet."""

    def uses(self, worker: int) -> bool:
        """Whether rows go to a worker, or may have gone there before a movement that is not over."""
        over = {move for move, gate in self.gates.items() if gate.stays}
        return self.ways is None or self.ways.uses(worker, over)

    def reached(self, version: int, move: int) -> bool:
        """Whether this version is known, and this movement: rows of who knows them may come.

        Rows of a feeder that was let in during a movement must not get to its units before they are held here: nobody
        would take out what they leave there, since that evaluation was not known when the movement began.
        """
        return self.version >= version and self.move >= move


class Routings(dict[str, LocalRouting]):
    """The routing of all graphs, by region."""

    def __init__(self, worker: int, find_graph: FindGraph, queue: RowQueue) -> None:
        super().__init__()
        self._worker = worker
        self._find_graph = find_graph
        self._queue = queue

    def obey(self, order: FlowOrder) -> list[Outgoing]:
        """Do what the controller says about the ways of rows; the frames that are to be sent."""
        if isinstance(order, GraphRouting):
            self._route(order)
            return []
        known = self.get(order.region)
        if known is None:
            return []  # of a graph that this worker has not heard of: there are no rows
        return self._pause(known, order) if isinstance(order, PauseUnits) else self._release(known, order)

    @property
    def first(self) -> Frame | None:
        """The frame whose turn it is in the queue; None if there is none, or if it has to wait at a gate.

        Gates before it are opened.
        """
        while isinstance(first := self._queue.first, Gate):
            if not self._is_decided(first):
                return None
            self._queue.open(first)
            if first.stays:
                self._opened(first)
        return first

    def bring(self, region: str, move: int, units: Sequence[int], rows: Iterable[Frame]) -> bool:
        """Units have come, with the rows that waited for them: they get their place; False if the graph is not known.

        The rows are served when it is reached, if it is known by then that the units stay.
        """
        known = self.get(region)
        if known is not None:
            self._place(known, Gate(region, move, units, list(rows)))
        return known is not None

    def abandon(self, order: AbandonMoves) -> None:
        """Forget movements: nobody waits for their rows any more, nor for where their units are."""
        known = self.get(order.region)
        if known is None:
            return
        for move in order.moves:
            known.held.pop(move, None)
            if move in known.gates and not known.gates[move].stays:
                del known.gates[move]

    def _is_decided(self, gate: Gate) -> bool:
        """Whether it is known where the units of a gate are."""
        known = self.get(gate.region)
        return gate.stays or known is None or known.gates.get(gate.move) is not gate

    def _opened(self, gate: Gate) -> None:
        """The gate of units that stay here is reached: what is given for them here now goes to them by calls."""
        known = self.get(gate.region)
        if known is not None and known.gates.get(gate.move) is gate:
            del known.gates[gate.move]
            if known.ways is not None:
                known.ways.release(gate.move, self._worker)

    def hold(self, known: LocalRouting, move: int, frame: Frame, rows: int) -> None:
        """Keep a frame until it is known where the units of a movement are; or if they are here, for their turn."""
        gate = known.gates.get(move)
        if gate is not None and gate.stays:
            self._queue.wait_at(gate, [frame])
        else:
            known.held.setdefault(move, []).append(HeldRows(frame, rows))

    def known(self, region: str) -> LocalRouting | None:
        """The routing of a graph; None while it, or the graph itself, is not here."""
        known = self.get(region)
        if known is None or known.ways is not None:
            return known
        graph = self._find_graph(known.order.operator)
        if graph is None:
            return None
        paused = {each.move: each.units for each in known.order.paused}
        known.ways = Ways(graph.plan, known.order.owners, paused)
        for order in known.early:
            if isinstance(order, PauseUnits):
                known.ways.pause(order.move, order.units)
            else:
                known.ways.release(order.move, order.worker)
        known.early = []
        for gate in reversed(known.gates.values()):  # the latest gate of a unit is where it waits
            if gate.stays:
                known.ways.pause(gate.move, known.ways.at(self._worker, gate.units))
        return known

    def _place(self, known: LocalRouting, gate: Gate) -> None:
        known.gates[gate.move] = gate
        self._queue.append(gate)

    def _route(self, order: GraphRouting) -> None:
        """Begin with these owners. Rows held for movements that are not among those paused belong to what is over."""
        before = self.pop(order.region, None)  # what was told last is the last that is let go
        known = self[order.region] = LocalRouting(order, order.version, order.move)
        if before is not None:
            moves = {each.move for each in order.paused}
            known.held = {move: rows for move, rows in before.held.items() if move in moves}
            known.gates = {move: gate for move, gate in before.gates.items() if gate.stays or move in moves}
        self.known(order.region)

    def _pause(self, known: LocalRouting, order: PauseUnits) -> list[Outgoing]:
        if known.ways is None:  # no rows have been sent yet, so the marker need not wait
            known.early.append(order)
        else:
            known.ways.pause(order.move, order.units)
        known.move = order.move
        return [Outgoing(order.source, Frame(Kind.MARKER, MARK.pack(known.order.you), order.move))]

    def _release(self, known: LocalRouting, order: ReleaseUnits) -> list[Outgoing]:
        here = order.worker == self._worker
        held, gate = known.held.pop(order.move, []), known.gates.get(order.move)
        known.version = order.version
        if here and gate is None and held and known.ways is not None:  # nothing was taken out of the queue
            gate = Gate(order.region, order.move, known.ways.units_of(order.move))
            self._place(known, gate)
        if known.ways is None:
            known.early.append(order)
        elif gate is None or not here:
            known.ways.release(order.move, order.worker)
        if here and gate is not None:
            gate.stays = True
            self._queue.wait_at(gate, [each.frame for each in held])
            return []
        known.gates.pop(order.move, None)
        return [Outgoing(order.worker, each.frame, each.rows) for each in held]
