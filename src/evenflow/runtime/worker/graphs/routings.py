"""The routing of graphs as one worker knows it, and the rows that it holds for units that move.

A worker sends rows of graphs as feeders do. So in a movement it does the same: it holds rows for the units, sends a
marker behind its last rows for them, and releases the held rows when it hears where the units are. Units that have
arrived, or were put back, have a gate in this worker's queue; rows that operators here give for them wait at it.

Nothing is sent here: `obey` returns the frames that are to be sent.
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
    """A frame of rows for units that move; its feeder knows its id already."""

    frame: Frame
    rows: int


@dataclass(slots=True)
class LocalRouting:
    """The routing of one graph, as this worker knows it, with the rows that it holds for units that move."""

    order: GraphRouting
    version: int
    """Of the routing table."""
    move: int
    """The latest movement that this worker was told of."""
    ways: Ways | None = None
    """None until the graph itself is here."""
    early: list[PauseUnits | ReleaseUnits] = field(default_factory=list)
    """Orders that came before the graph."""
    held: dict[int, list[HeldRows]] = field(default_factory=dict)
    """Per movement: rows that wait until it is known where its units are."""
    gates: dict[int, Gate] = field(default_factory=dict)
    """Per movement: the gate of its units, if they have arrived here and the queue has not reached it."""

    def uses(self, worker: int) -> bool:
        """Whether rows go to a worker, or may have gone there before a movement that is not over."""
        over = {move for move, gate in self.gates.items() if gate.stays}
        return self.ways is None or self.ways.uses(worker, over)

    def reached(self, version: int, move: int) -> bool:
        """Whether this worker knows a feeder's version and movement, so that it may accept the feeder's rows.

        A feeder that was let in during a movement may belong to an evaluation that began after the movement. If its
        rows reached the units before rows are held for them, their state would stay behind.
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
        """Carry out an order about routing; returns the frames that are to be sent."""
        if isinstance(order, GraphRouting):
            self._route(order)
            return []
        known = self.get(order.region)
        if known is None:
            return []  # of a graph that this worker has not heard of: there are no rows
        return self._pause(known, order) if isinstance(order, PauseUnits) else self._release(known, order)

    @property
    def first(self) -> Frame | None:
        """The frame whose turn it is; None if none waits, or it is behind a gate that is not decided yet.

        Decided gates in front of it are opened.
        """
        while isinstance(first := self._queue.first, Gate):
            if not self._is_decided(first):
                return None
            self._queue.open(first)
            if first.stays:
                self._opened(first)
        return first

    def bring(self, region: str, move: int, units: Sequence[int], rows: Iterable[Frame]) -> bool:
        """Make a gate for units that have arrived, and for the rows with them; False if the graph is not known."""
        known = self.get(region)
        if known is not None:
            self._place(known, Gate(region, move, units, list(rows)))
        return known is not None

    def abandon(self, order: AbandonMoves) -> None:
        """Forget movements, with the rows held for them and the gates of their units."""
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
        """A gate of units that stay is reached: from now on rows that operators here give for them go by calls."""
        known = self.get(gate.region)
        if known is not None and known.gates.get(gate.move) is gate:
            del known.gates[gate.move]
            if known.ways is not None:
                known.ways.release(gate.move, self._worker)

    def hold(self, known: LocalRouting, move: int, frame: Frame, rows: int) -> None:
        """Keep a frame until it is known where the movement's units are, or at their gate if they stay here."""
        gate = known.gates.get(move)
        if gate is not None and gate.stays:
            self._queue.wait_at(gate, [frame])
        else:
            known.held.setdefault(move, []).append(HeldRows(frame, rows))

    def known(self, region: str) -> LocalRouting | None:
        """The routing of a graph; None as long as the routing or the graph's code is not on this worker."""
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
        """Begin anew with these owners; rows held for movements that are over are dropped."""
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
