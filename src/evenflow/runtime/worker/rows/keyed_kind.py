"""The kind of feeders of keyed regions: their rows are applied to state, and answered when that is in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.model.messages import OpenKeyed
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import MARKED
from evenflow.runtime.worker.rows.instances import Answer
from evenflow.runtime.worker.rows.keyed import KeyedServer
from evenflow.runtime.worker.rows.operator_cache import OperatorCache
from evenflow.runtime.worker.rows.outbox import Outbox
from evenflow.runtime.worker.rows.session import ConnectionKind, Session


@dataclass(eq=False, kw_only=True)
class KeyedKind(ConnectionKind):
    """Hands frames of keyed regions to the keyed server."""

    server: KeyedServer
    operators: OperatorCache
    outbox: Outbox
    clock: Callable[[], float]

    def open(self, session: Session, request: OpenKeyed, waited_s: float) -> None:
        """A feeder has opened a keyed region, or a graph: which of them shows when the operator is here."""
        self.server.open(
            request.region, request.operator, request.units, self.clock(), waited_s, report_s=request.report_s
        )
        session.kind = self
        session.region, session.evaluation, session.feeder = request.region, request.evaluation, request.feeder
        session.epoch = request.epoch
        session.stamp = (request.epoch, request.attempt) if request.attempt else None
        session.version, session.move = request.version, request.move

    def receive(self, session: Session, frame: Frame) -> None:
        match frame.kind:
            case Kind.MARKER:
                self.server.mark(frame.sequence, session.feeder, session.region, MARKED.read(frame).units)
                session.channel.send(Frame(Kind.MARKER, b"", frame.sequence))
            case Kind.DRAIN:
                self._drain(session)
            case Kind.END if session.stamp is not None and self.server.checkpointer is not None:
                self.server.end(session.region, session.evaluation, session.stamp, session.channel)
            case _:
                super().receive(session, frame)

    def process(self, session: Session, frame: Frame, batch: pa.RecordBatch) -> list[Answer]:
        failure = self.operators.failure(session.operator)
        if failure is not None:
            raise failure
        tag = session.channel, frame.sequence
        return self.server.process(session.region, session.evaluation, batch, tag, session.stamp, frame.body)

    def served(self, session: Session, seconds: float) -> None:
        self.server.served(session.region, seconds)

    def blame(self, session: Session, batch: pa.RecordBatch) -> str:
        loaded = self.operators.failure(session.operator) is None
        return self.server.blame(session.region, batch) if loaded else ""

    def leave(self, session: Session, waited_s: float) -> None:
        self.server.leave(session.region, self.clock(), waited_s)

    def _drain(self, session: Session) -> None:
        """Answer all rows that wait for state on disk."""
        try:
            for answers in self.server.drain(session.region, session.evaluation):
                self.outbox.give(answers)
        except ProtocolError:
            raise
        except BaseException as error:  # the user's code; which frame it comes from is not known
            self.outbox.fail(session.channel, error)
