"""Rows of units that move, in graphs: takes them out of the queue, puts them in, and flushes before units leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.flows import done_frame, flow_head
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.graphs.leaving_rows import divided
from evenflow.runtime.worker.graphs.lookup import FindGraph
from evenflow.runtime.worker.graphs.peers import Peers
from evenflow.runtime.worker.graphs.queue import RowQueue
from evenflow.runtime.worker.graphs.routings import Routings
from evenflow.runtime.worker.rows.session import Session


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WaitingGraphRows:
    """What movements do to the rows of graphs on one worker; the `GraphRows` of its unit mover."""

    feeders: dict[int, Session]
    """The feeders of graphs, by their numbers."""
    queue: RowQueue
    routings: Routings
    find_graph: FindGraph
    peers: Peers
    new_id: Callable[[], int]
    """Draws the id of a frame."""
    flushing: dict[int, set[Channel]] = field(default_factory=dict)
    """Per movement: connections that have not acknowledged the flush."""

    def take_rows(self, region: str, units: Sequence[int]) -> list[Frame]:
        """Take the rows that wait for some units of a graph out of the queue, in their order."""
        known = self.routings.get(region)
        graph = self.find_graph(known.order.operator) if known is not None else None
        if graph is None:
            return []
        leaving = np.zeros(graph.units, np.bool_)
        leaving[list(units)] = True

        def divide(frame: Frame) -> tuple[list[Frame], Frame | None]:
            head = flow_head(frame)
            session = self.feeders.get(head.feeder)
            if session is None or session.region != region:
                return [], frame
            try:
                found = divided(frame, head, graph, leaving, self.new_id)
            except Exception:  # it fails when it is served
                return [], frame
            if found.new:
                with suppress(ConnectionError):
                    session.channel.send(done_frame(frame.part, found.new, 0))
            return found.leaving, found.staying

        return self.queue.take_parts(divide)

    def keep_rows(self, region: str, move: int, units: Sequence[int], rows: Sequence[Frame]) -> bool:
        """Give units that have arrived a gate, with the rows that came with them; False if the graph is not known."""
        for frame in rows:
            flow_head(frame)
        return self.routings.bring(region, move, units, rows)

    def flush(self, move: int, region: str) -> bool:
        """Ask every receiver of a graph's rows to acknowledge them; False if there is none.

        So rows that the next owner of the units sends cannot overtake rows that were sent from here.
        """
        flush = Frame(Kind.FLUSH, b"", move)
        asked: set[Channel] = set(self.peers.flush(move)) if region in self.routings else set()
        for session in self.feeders.values():
            if session.region == region:
                with suppress(ConnectionError):
                    session.channel.send(flush)
                    asked.add(session.channel)
        if asked:
            self.flushing[move] = asked
        return bool(asked)

    def acknowledge(self, channel: Channel, move: int | None = None) -> list[int]:
        """A connection has acknowledged a movement's flush, or all of them because it is over.

        Returns the movements that every receiver has acknowledged now.
        """
        through = []
        for number, asked in self.flushing.items():
            if move in (None, number):
                asked.discard(channel)
                if not asked:
                    through.append(number)
        for number in through:
            del self.flushing[number]
        return through
