"""The routing of graphs as one worker knows it, and the rows that it holds for units that are being moved.

A worker sends rows of graphs as feeders do, and does what they do about a movement: it holds rows, marks the end of
those that it has sent, and releases them. Rows that have come with units, or that were put back with them, are kept
until it is known that the units stay; those that are held here for the units follow them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenflow.graph.hosted import HostedGraph
from evenflow.graph.routing import Ways
from evenflow.model.messages import FlowOrder, GraphRouting, PauseUnits, ReleaseUnits
from evenflow.runtime.wire.flows import MARK
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.peers import Peers


@dataclass(slots=True)
class HeldRows:
    """A frame of rows for units that are being moved; its feeder knows of it already."""

    frame: Frame
    rows: int


@dataclass(slots=True)
class HostedWays:
    """The routing of one graph, as this worker knows it."""

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
    brought: dict[int, Sequence[Frame]] = field(default_factory=dict)
    """By movement, rows that have come with its units."""

    def reached(self, version: int, move: int) -> bool:
        """Whether this version is known, and this movement: rows of who knows them may come.

        Rows of a feeder that was let in during a movement must not get to its units before they are held here: nobody
        would take out what they leave there, since that evaluation was not known when the movement began.
        """
        return self.version >= version and self.move >= move

    def hold(self, move: int, frame: Frame, rows: int) -> None:
        """Keep a frame until it is known where the units of a movement are."""
        self.held.setdefault(move, []).append(HeldRows(frame, rows))


class Routings(dict[str, HostedWays]):
    """The routing of all graphs, by region."""

    def __init__(
        self,
        worker: int,
        graph: Callable[[str], Any],
        peers: Peers,
        mark: Callable[[Frame], None],
        take: Callable[[Iterable[Frame], tuple[str, int]], None],
        unsent: Callable[[Frame], None],
    ) -> None:
        super().__init__()
        self._worker = worker
        self._graph = graph
        """Gives the operator of a name, if it is here; asks for it otherwise."""
        self._peers = peers
        self._mark = mark
        """Takes a marker, as one from another worker."""
        self._take = take
        """Puts rows for an operator before all that waits here: what waits may give rows that are to be behind them."""
        self._unsent = unsent
        """Is told of rows that cannot be sent."""

    def obey(self, order: FlowOrder) -> None:
        """Do what the controller says about the ways of rows."""
        if isinstance(order, GraphRouting):
            self._route(order)
            return
        known = self.get(order.region)
        if known is None:
            return  # of a graph that this worker has not heard of: there are no rows
        if isinstance(order, PauseUnits):
            self._pause(known, order)
        else:
            self._release(known, order)

    def bring(self, region: str, move: int, rows: Sequence[Frame]) -> bool:
        """Keep rows that came with the units of a movement until it is known that these stay; whether that will be."""
        known = self.get(region)
        if known is not None:
            known.brought[move] = rows
        return known is not None

    def decided(self, region: str, move: int) -> bool:
        """Whether it is known where the units of a movement are, whose rows came with them."""
        known = self.get(region)
        return known is None or move not in known.brought

    def known(self, region: str) -> HostedWays | None:
        """The routing of a graph; None while it, or the graph itself, is not here."""
        known = self.get(region)
        if known is None or known.ways is not None:
            return known
        graph = self._graph(known.order.operator)
        if not isinstance(graph, HostedGraph):
            return None
        paused = {each.move: each.units for each in known.order.paused}
        known.ways = Ways(graph.plan, known.order.owners, paused)
        for order in known.early:
            if isinstance(order, PauseUnits):
                known.ways.pause(order.move, order.units)
            else:
                known.ways.release(order.move, order.worker)
        known.early = []
        return known

    def _route(self, order: GraphRouting) -> None:
        """Begin with these owners. Rows held for movements that are not among those paused belong to what is over."""
        before = self.pop(order.region, None)  # what was told last is the last that is let go
        known = self[order.region] = HostedWays(order, order.version, order.move)
        if before is not None:
            moves = {each.move for each in order.paused}
            known.held = {move: rows for move, rows in before.held.items() if move in moves}
            known.brought = {move: rows for move, rows in before.brought.items() if move in moves}
        self.known(order.region)

    def _pause(self, known: HostedWays, order: PauseUnits) -> None:
        if known.ways is None:  # no rows have been sent yet, so the marker need not wait
            known.early.append(order)
        else:
            known.ways.pause(order.move, order.units)
        known.move = order.move
        marker = Frame(Kind.MARKER, MARK.pack(known.order.you), order.move)
        if order.source == self._worker:
            self._mark(marker)
        else:
            self._peers.send(order.source, marker)

    def _release(self, known: HostedWays, order: ReleaseUnits) -> None:
        node = 0
        if known.ways is None:
            known.early.append(order)
        else:
            node = known.ways.node_of(order.move)
            known.ways.release(order.move, order.worker)
        known.version = order.version
        held, brought = known.held.pop(order.move, []), known.brought.pop(order.move, [])
        if order.worker == self._worker:
            self._take([*brought, *(each.frame for each in held)], (order.region, node))
            return
        for each in held:
            if not self._peers.send(order.worker, each.frame, each.rows):
                self._unsent(each.frame)
