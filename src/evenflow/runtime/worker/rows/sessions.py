"""Serves feeders: each connection is a session, in which rows of one operator come and results go.

One frame of each feeder waits here for the turn of its region; the feeder is not read from before. Regions share the
worker's time by weight (`ServiceOrder`). Rows of graphs, which also come from other workers, wait in `Flows`, and take
turns with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from evenflow.errors import EvenflowError, FunctionError, ProtocolError
from evenflow.model.messages import Opening, OpenKeyed, OpenOrdered, OpenPeer, WorkerReport
from evenflow.policy.keyed.fair_queue import ServiceOrder
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import OPENING
from evenflow.runtime.worker.rows.codec import parts_of, read_batch, read_schema
from evenflow.runtime.worker.rows.ordered_kind import OrderedKind
from evenflow.runtime.worker.rows.session import ConnectionFault, Session

if TYPE_CHECKING:
    from evenflow.runtime.worker.assembly import Assembly


class Sessions:
    """Takes the frames of all sessions of one worker, and serves those that wait."""

    def __init__(self, assembly: Assembly, qos: Mapping[str, float], clock: Callable[[], float]) -> None:
        self._assembly = assembly
        self._open = assembly.sessions
        self._outbox = assembly.outbox
        self._operators = assembly.operators
        self._ordered = OrderedKind(assembly.operators)
        self._order = ServiceOrder(qos)
        self._pace = assembly.pace
        self._clock = clock
        self.waiting: dict[Channel, Frame] = {}
        """Rows of ordered and keyed regions, one frame a feeder."""
        self._rows = self._frames = 0
        self._busy_s = 0.0

    @property
    def done(self) -> WorkerReport:
        """Counters since the worker started."""
        rows, frames, busy_s = self._rows, self._frames, self._busy_s
        if self._assembly.keyed is None:
            return WorkerReport(rows=rows, frames=frames, busy_s=busy_s)
        flows = self._assembly.keyed.flows
        return WorkerReport(
            rows=rows + flows.rows,
            frames=frames + flows.frames,
            busy_s=busy_s + flows.busy_s,
            graphs=flows.busy_with(),
        )

    @property
    def ready(self) -> bool:
        """Whether a frame waits."""
        keyed = self._assembly.keyed
        return bool(self.waiting) or (keyed is not None and bool(keyed.flows.waiting))

    @property
    def used(self) -> set[str]:
        """The operators that sessions and regions use now."""
        keyed = self._assembly.keyed
        return {session.operator for session in self._open.values()} | (keyed.server.operators if keyed else set())

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Serve operators by these weights from now on."""
        self._order.set_weights(weights)

    def enter(self, channel: Channel) -> None:
        """A peer has connected, and has opened nothing yet."""
        self._open[channel] = Session(channel)

    def leave(self, channel: Channel, waited_s: float) -> bool:
        """A connection is gone; returns whether a session was over it."""
        session = self._open.pop(channel, None)
        self.waiting.pop(channel, None)
        if session is not None:
            session.kind.leave(session, waited_s)
        return session is not None

    def choose_readers(self, outbox_bytes: int) -> None:
        """Read only from feeders that take their answers, have no waiting frame, and whose operator is here.

        While the store is too far behind, read from no feeder.
        """
        behind = self._assembly.behind
        for channel, session in self._open.items():
            held = channel in self.waiting or channel.unsent > outbox_bytes or session.kind.full
            here = not session.operator or session.operator in self._operators
            channel.reading = session.kind.always_read or (not held and not behind and here)

    # -- frames

    def receive(self, channel: Channel, frame: Frame, waited_s: float) -> None:
        """A peer's frame has come; `waited_s` is how long the worker has had nothing to do so far."""
        session = self._open[channel]
        match frame.kind:
            case Kind.OPEN:
                self._open_session(session, OPENING.read(frame), waited_s)
            case Kind.SCHEMA:
                session.schema = read_schema(frame)
            case Kind.DATA:
                if not session.operator or session.schema is None:
                    raise ProtocolError(f"frame {frame.sequence} came before its operator and its schema")
                self.waiting[channel] = frame
            case _:
                session.kind.receive(session, frame)

    def _open_session(self, session: Session, request: Opening, waited_s: float) -> None:
        if session.operator:
            raise ProtocolError("a feeder opens an operator on a connection that has one")
        match request:
            case OpenPeer(worker):
                session.kind, session.worker = self._assembly.keyed_parts().peer_kind, worker
                return
            case OpenKeyed():
                self._assembly.keyed_parts().kind.open(session, request, waited_s)
            case OpenOrdered():
                session.kind = self._ordered
        session.operator, session.queue = request.operator, request.region
        self._operators.fetch(request.operator)

    def serve_waiting(self) -> Iterator[ConnectionFault]:
        """Process a frame of the region whose turn it is; yields the connections at fault.

        The caller gives up a connection before it asks for the next.
        """
        flows = self._assembly.keyed.flows if self._assembly.keyed is not None else None
        flowing = ""
        if flows is not None:
            yield from flows.faults()
            flowing = flows.waiting
        if not self.waiting and not flowing:
            return
        region = self._order.choose({*(self._open[each].queue for each in self.waiting), *filter(None, [flowing])})
        if flows is not None and region == flowing:
            before = flows.busy_s
            yield from flows.serve()
            self._order.charge(region, flows.busy_s - before)
            return
        session = next(self._open[each] for each in self.waiting if self._open[each].queue == region)
        frame = self.waiting.pop(session.channel)
        before = self._busy_s
        try:
            self._process(session, frame)
        except Exception as error:
            yield session.channel, error
        self._order.charge(region, self._busy_s - before)

    # -- rows

    def _process(self, session: Session, frame: Frame) -> None:
        assert session.schema is not None
        started = self._clock()
        batch = read_batch(frame, session.schema)
        try:
            answers = session.kind.process(session, frame, batch)
            bodies = [parts_of(answer) for answer in answers]
        except ProtocolError:
            raise
        except BaseException as error:  # whatever the user's code throws is the user's to see
            ours = isinstance(error, EvenflowError) and not isinstance(error, FunctionError)
            where = "" if ours else session.kind.blame(session, batch)
            self._outbox.fail(session.channel, error, frame.sequence, where)
            return
        service = self._clock() - started
        if self._pace is not None:
            service = self._pace.serve(batch.num_rows, service)
        self._rows += batch.num_rows
        self._frames += 1
        self._busy_s += service
        session.kind.served(session, service)
        for answer, parts in zip(answers, bodies, strict=True):
            self._outbox.send(answer, parts, int(service * 1e6))
        if not any(answer.last and answer.tag == (session.channel, frame.sequence) for answer in answers):
            self._outbox.put_off(session.channel, frame.sequence)

    def fail_region(self, region: str, error: BaseException) -> None:
        """Tell the feeders of a keyed region that its state could not be brought back from disk."""
        for channel, session in list(self._open.items()):
            if session.region == region:
                self._outbox.fail(channel, error)
