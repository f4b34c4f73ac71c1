"""Serves feeders: each connection is a session, in which rows of one operator come and results go.

One frame a feeder waits here until it is its region's turn, and that feeder is not read from before: regions share the
worker's time by weight (`ServiceOrder`). Rows of graphs, which come from other workers too, wait in `flows`, and take
their turn with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from evenflow.errors import EvenflowError, FunctionError, ProtocolError
from evenflow.model.messages import AbandonMoves, FlowOrder, Opening, OpenKeyed, OpenPeer, RowsDurable, WorkerReport
from evenflow.policy.keyed.fair_queue import ServiceOrder
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import MARKED, OPENING, packed
from evenflow.runtime.worker.graphs.peers import Peers
from evenflow.runtime.worker.rows.codec import error_body, parts_of, read_batch, read_schema
from evenflow.runtime.worker.rows.emulation import EmulatedSpeed
from evenflow.runtime.worker.rows.hosting import Hosting
from evenflow.runtime.worker.rows.operator_cache import Broken
from evenflow.runtime.worker.rows.session import Session

if TYPE_CHECKING:
    import pyarrow as pa

    from evenflow.runtime.worker.graphs.flows import Flows
    from evenflow.runtime.worker.rows.instances import Answer
    from evenflow.runtime.worker.rows.keyed import KeyedHost


class Sessions(dict[Channel, Session]):
    """All feeders of one worker, by their connections."""

    def __init__(
        self,
        worker: int,
        hosting: Hosting,
        qos: Mapping[str, float],
        pace: EmulatedSpeed | None,
        clock: Callable[[], float],
        peers: Peers,
        random_bits: Callable[[int], int],
        turn_s: float,
    ) -> None:
        super().__init__()
        self._peers = peers
        self._turn_s = turn_s
        self._random_bits = random_bits
        self._flows: Flows | None = None
        self._worker = worker
        self._hosting = hosting
        self._operators = hosting.operators
        self._order = ServiceOrder(qos)
        self._pace = pace
        self._clock = clock
        self.waiting: dict[Channel, Frame] = {}
        """Rows of ordered and keyed regions, one frame a feeder."""
        self._rows = self._frames = 0
        self._busy_s = 0.0

    @property
    def done(self) -> WorkerReport:
        """What was done since the worker started."""
        own, flows = (self._rows, self._frames, self._busy_s), self._flows
        if flows is None:
            return WorkerReport(*own)
        return WorkerReport(own[0] + flows.rows, own[1] + flows.frames, own[2] + flows.busy_s, flows.busy_with())

    @property
    def ready(self) -> bool:
        """Whether a frame waits."""
        return bool(self.waiting) or (self._flows is not None and bool(self._flows.waiting))

    @property
    def flows(self) -> Flows:
        """The graphs of this worker."""
        if self._flows is None:
            from evenflow.runtime.worker.graphs.flows import Flows

            about = self._worker, self.host, self._operators.fetch, self._peers
            self._flows = Flows(*about, self._pace, self._clock, self._random_bits, self.fail, self._turn_s)
            mover = self.host.mover
            mover.flush, mover.take_rows, mover.keep_rows = (
                self._flows.flush,
                self._flows.take_rows,
                self._flows.keep_rows,
            )
        return self._flows

    @property
    def host(self) -> KeyedHost:
        """The host of keyed operators."""
        return self._hosting.host or self._hosting.made(self._give, self._answer_end)

    @property
    def used(self) -> set[str]:
        """The operators that are used now."""
        hosted = self._hosting.host.operators if self._hosting.host is not None else set()
        return {session.operator for session in self.values()} | hosted

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Serve operators by these weights from now on."""
        self._order.set_weights(weights)

    def leave(self, channel: Channel, waited_s: float) -> bool:
        """A connection is gone; whether it was a feeder's."""
        session = self.pop(channel, None)
        self.waiting.pop(channel, None)
        if session is not None and session.graph:
            self.flows.leave(channel, session)
        if session is not None and session.region:
            self.host.leave(session.region, self._clock(), waited_s)
        return session is not None

    def choose_readers(self, outbox_bytes: int) -> None:
        """Read only from feeders that take their answers, have no frame waiting, and whose operator is here.

        From none of them while the store is too far behind.
        """
        behind = self._hosting.full
        full = self._flows is not None and self._flows.full
        for channel, session in self.items():
            held = channel in self.waiting or channel.unsent > outbox_bytes or (full and session.graph)
            here = not session.operator or session.operator in self._operators
            channel.reading = session.peer or (not held and not behind and here)

    # -- frames

    def serve(self, channel: Channel, frame: Frame, waited_s: float) -> None:
        """A feeder's frame has come; `waited_s` is how long the worker has had nothing to do so far."""
        session = self[channel]
        match frame.kind:
            case Kind.OPEN:
                self._open(session, OPENING.read(frame), waited_s)
            case Kind.SCHEMA:
                session.schema = read_schema(frame)
            case Kind.DATA:
                if not session.operator or session.schema is None:
                    raise ProtocolError(f"frame {frame.sequence} came before its operator and its schema")
                self.waiting[channel] = frame
            case Kind.FLOW | Kind.FLUSH | Kind.MARKER | Kind.PROBE if session.graph:
                self.flows.receive(channel, session, frame)
            case Kind.FLUSH if session.region and self.flows.is_graph(session.operator):
                session.graph = True
                self.flows.enter(channel, session)
                self.flows.receive(channel, session, frame)
            case Kind.FLUSH if isinstance(broken := self._operators.get(session.operator), Broken):
                self.fail(channel, frame.sequence, broken.error, "the graph could not be loaded")
            case Kind.MARKER if session.region:
                self.host.mark(frame.sequence, session.feeder, session.region, MARKED.read(frame).units)
                channel.send(Frame(Kind.MARKER, b"", frame.sequence))
            case Kind.DRAIN if session.region:
                self._drain(channel, session)
            case Kind.END if session.stamp is not None and self.host.checkpointer is not None:
                self.host.end(session.region, session.evaluation, session.stamp, channel)
            case _:
                raise ProtocolError(f"a feeder sent a {frame.kind.name} frame")

    def serve_waiting(self, turn_out: Callable[[Channel, Exception], None]) -> None:
        """Process one frame: of those that wait, one of the region whose turn it is."""
        flowing = ""
        if self._flows is not None:
            for fault in self._flows.faults():
                turn_out(fault.channel, fault.error)
            flowing = self._flows.waiting
        if not self.waiting and not flowing:
            return
        region = self._order.choose({*(self[channel].queue for channel in self.waiting), *filter(None, [flowing])})
        if region == flowing:
            self._serve_flow(region, turn_out)
            return
        channel = next(each for each in self.waiting if self[each].queue == region)
        frame = self.waiting.pop(channel)
        before = self._busy_s
        try:
            self._process(channel, self[channel], frame)
        except Exception as error:
            turn_out(channel, error)
        self._order.charge(region, self._busy_s - before)

    def _serve_flow(self, region: str, turn_out: Callable[[Channel, Exception], None]) -> None:
        from evenflow.runtime.worker.graphs.flows import FeederFault

        before = self.flows.busy_s
        try:
            self.flows.serve()
        except FeederFault as fault:
            turn_out(fault.channel, fault.error)
        self._order.charge(region, self.flows.busy_s - before)

    def serve_peer(self, channel: Channel, frame: Frame) -> None:
        """A worker has answered over a connection that was made here."""
        self.flows.receive(channel, None, frame)

    def peer_lost(self, channel: Channel) -> list[Channel]:
        """A connection to a worker that was made here is over; the feeders that cannot go on without it."""
        return self.flows.peer_lost(channel)

    def obey_flow(self, order: FlowOrder) -> None:
        """Do what the controller says about the ways of a graph's rows."""
        self.flows.obey(order)

    def abandon(self, order: AbandonMoves) -> None:
        """Forget movements, and the rows that wait for where their units are."""
        if self._flows is not None:
            self._flows.routings.abandon(order)
        self.host.obey(order)

    def tend_flows(self, now: float) -> None:
        """Do what is due for graphs: frames on emulated links, feeders that wait to begin, reports."""
        if self._flows is not None:
            self._peers.tend()
            if self._flows.active:
                self._peers.probe(now)
            self._flows.begin()
            self._flows.report(now)

    def rotate(self) -> None:
        """Bring back state from disk; what goes wrong then is told to the feeders of the region whose state it is."""
        self.host.rotate(self._fail_region)

    def _fail_region(self, region: str, error: BaseException) -> None:
        for channel, session in list(self.items()):
            if session.region == region:
                self.fail(channel, 0, error, "")

    def _open(self, session: Session, request: Opening, waited_s: float) -> None:
        if session.operator:
            raise ProtocolError("a feeder opens an operator on a connection that has one")
        if isinstance(request, OpenPeer):
            session.peer = session.graph = True
            session.worker = request.worker
            return
        if isinstance(request, OpenKeyed):
            about = request.region, request.operator, request.units
            self.host.open(*about, self._clock(), waited_s, request.report_s)
            session.region, session.evaluation, session.feeder = request.region, request.evaluation, request.feeder
            session.epoch = request.epoch
            session.stamp = (request.epoch, request.attempt) if request.attempt else None
            session.version, session.move = request.version, request.move
        session.operator, session.queue = request.operator, request.region
        self._operators.fetch(request.operator)

    # -- rows

    def _process(self, channel: Channel, session: Session, frame: Frame) -> None:
        assert session.schema is not None
        started = self._clock()
        batch = read_batch(frame, session.schema)
        try:
            answers = self._run_operator(channel, session, frame, batch)
            bodies = [parts_of(answer) for answer in answers]
        except ProtocolError:
            raise
        except BaseException as error:  # whatever the user's code throws is the user's to see
            self.fail(channel, frame.sequence, error, self._blame(session, batch, error))
            return
        service = self._clock() - started
        if self._pace is not None:
            service = self._pace.serve(batch.num_rows, service)
        self._rows += batch.num_rows
        self._frames += 1
        self._busy_s += service
        if session.region:
            self.host.served(session.region, service)
        for answer, parts in zip(answers, bodies, strict=True):
            self._send(answer, parts, int(service * 1e6))
        if not any(answer.last and answer.tag == (channel, frame.sequence) for answer in answers):
            channel.send(Frame(Kind.RESULT, b"", frame.sequence, more=True, taken=True))

    def _run_operator(self, channel: Channel, session: Session, frame: Frame, batch: pa.RecordBatch) -> list[Answer]:
        """The operator's answers: to this frame, and to earlier ones that waited."""
        from evenflow.runtime.worker.rows.instances import Answer

        operator = self._operators[session.operator]
        tag = channel, frame.sequence
        if not session.region or isinstance(operator, Broken):
            return [Answer(tag, operator.process(batch), None, True)]
        return self.host.process(session.region, session.evaluation, batch, tag, session.stamp, frame.body)

    def _drain(self, channel: Channel, session: Session) -> None:
        """Answer all that waits for state on disk."""
        try:
            for answers in self.host.drain(session.region, session.evaluation):
                self._give(answers)
        except ProtocolError:
            raise
        except BaseException as error:  # as above; which frame it comes from is not known
            self.fail(channel, 0, error, "")

    def _blame(self, session: Session, batch: pa.RecordBatch, error: BaseException) -> str:
        """Which row an operator's failure seems to come from; empty if that is not known."""
        keyed = session.region and not isinstance(self._operators[session.operator], Broken)
        ours = isinstance(error, EvenflowError) and not isinstance(error, FunctionError)
        return self.host.blame(session.region, batch) if keyed and not ours else ""

    # -- answers

    def _send(self, answer: Answer, parts: list[memoryview], micros: int = 0) -> None:
        """Send results to the feeder they are for, if it is still there: not always the one that is being served."""
        channel, sequence = answer.tag
        if channel not in self:
            return
        told, taken = answer.origin is not None, not answer.last
        with suppress(ConnectionError):  # it has just gone, and the poller will say so
            for place, part in enumerate(parts):
                more = place + 1 < len(parts) or not answer.last
                channel.send(Frame(Kind.RESULT, part, sequence, 0 if more else micros, 0, more, told, taken))

    def _give(self, answers: list[Answer]) -> None:
        for answer in answers:
            self._send(answer, parts_of(answer))

    def _answer_end(self, channel: Channel, answer: RowsDurable) -> None:
        """Tell a feeder, if it is still there, that its rows are durable or why not."""
        if channel in self:
            if not self[channel].graph:  # the feeder knows itself which units had rows
                answer = replace(answer, units=answer.units[:0])
            with suppress(ConnectionError):  # it has just gone, and the poller will say so
                channel.send(Frame(Kind.END, packed(answer)))

    def fail(self, channel: Channel, sequence: int, error: BaseException, where: str) -> None:
        """Tell a feeder why a frame of its could not be processed."""
        with suppress(ConnectionError):
            channel.send(Frame(Kind.ERROR, error_body(self._worker, error, where), sequence))
