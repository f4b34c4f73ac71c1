"""The kinds of sessions over which rows of graphs come: those of feeders, and those of other workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.graphs.flows import Flows
from evenflow.runtime.worker.graphs.lookup import FindGraph
from evenflow.runtime.worker.rows.keyed_kind import KeyedKind
from evenflow.runtime.worker.rows.session import ConnectionKind, Session

ROWS_ON_THEIR_WAY = frozenset({Kind.FLOW, Kind.FLUSH, Kind.MARKER, Kind.PROBE})


@dataclass(eq=False, kw_only=True)
class GraphKind(KeyedKind):
    """Feeders of graphs: their rows come as FLOW frames; all else is as with keyed regions."""

    told_units: ClassVar[bool] = True

    flows: Flows

    @property
    def full(self) -> bool:
        return self.flows.full

    def receive(self, session: Session, frame: Frame) -> None:
        if frame.kind is Kind.FLUSH and not frame.sequence and not frame.told:
            self.flows.await_beginning(session)
        elif frame.kind in ROWS_ON_THEIR_WAY:
            self.flows.receive(session.channel, frame)
        else:
            super().receive(session, frame)

    def leave(self, session: Session, waited_s: float) -> None:
        self.flows.leave(session)
        super().leave(session, waited_s)


@dataclass(eq=False, kw_only=True)
class KeyedOrGraphKind(KeyedKind):
    """Feeders that have opened a keyed region: if it is a graph, they begin with a FLUSH, when their operator is here.

    Their kind is `GraphKind` from then on.
    """

    graphs: GraphKind
    find_graph: FindGraph

    def receive(self, session: Session, frame: Frame) -> None:
        if frame.kind is not Kind.FLUSH:
            super().receive(session, frame)
        elif self.find_graph(session.operator) is not None:
            session.kind = self.graphs
            self.graphs.flows.enter(session)
            self.graphs.receive(session, frame)
        elif (failure := self.operators.failure(session.operator)) is not None:
            self.outbox.fail(session.channel, failure, frame.sequence, "the graph could not be loaded")
        else:
            super().receive(session, frame)


class PeerKind(ConnectionKind):
    """Other workers: rows of graphs come from them, and they are always read, or workers could wait in a circle."""

    always_read: ClassVar[bool] = True

    def __init__(self, flows: Flows) -> None:
        self._flows = flows

    def receive(self, session: Session, frame: Frame) -> None:
        if frame.kind in ROWS_ON_THEIR_WAY:
            self._flows.receive(session.channel, frame, session.worker)
        else:
            super().receive(session, frame)

    def leave(self, session: Session, waited_s: float) -> None:
        self._flows.leave(session)
