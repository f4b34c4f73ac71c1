"""The worker: a long-lived Spark task with one event loop. Hosts operators, serves any number of feeders.

One frame at a time: read it, process it, queue the answer. A feeder that does not take its answers is not read from
until it does, so a worker holds at most one frame in and OUTBOX_BYTES out per feeder. Nothing heavy is imported before
the first operator arrives.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.errors import EvenflowError, FunctionError, ProtocolError, described
from evenflow.model.messages import (
    CodeWanted,
    EvaluationOrder,
    MovementOrder,
    NoCode,
    Opening,
    OpenKeyed,
    Prepare,
    RowsDurable,
    SetClock,
    Shutdown,
    WorkerHello,
    WorkerMessage,
    WorkerReport,
    WorkerTrouble,
)
from evenflow.policy.keyed.fair_queue import ServiceOrder
from evenflow.runtime.wire.channel import DEEP_BUFFER, Channel
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import OPENING, TO_WORKER, control, packed
from evenflow.runtime.wire.poller import Lost, Opened, Poller, Received
from evenflow.runtime.wire.settings import Settings
from evenflow.runtime.worker.codec import error_body, parts_of, read_batch, read_schema
from evenflow.runtime.worker.direct_transfer import DirectTransfer
from evenflow.runtime.worker.emulation import Pace
from evenflow.runtime.worker.operator_cache import SPARE, Broken, OperatorCache

if TYPE_CHECKING:
    import pyarrow as pa

    from evenflow.runtime.worker.checkpointer import Checkpointer
    from evenflow.runtime.worker.instances import Answer
    from evenflow.runtime.worker.keyed import KeyedHost
    from evenflow.runtime.worker.store_transfer import StoreTransfer

OUTBOX_BYTES = 1024 * 1024
"""A feeder with more than this unsent is not served until it has read."""
REASON = 2000
"""Characters of a reason, at most."""
KEYED_POLL_S = 0.05
"""How long to wait at most while a keyed operator's statistics are to be sent."""


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """What Spark runs: `mapPartitions(WorkerTask(...))` on one partition is one worker."""

    settings: Settings
    worker: int

    def __call__(self, _rows: Iterable[Any]) -> Iterator[str]:
        """Serve until told to stop; yields the reason."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = (context.stageId(), context.taskAttemptId()) if context else (0, 0)
        worker = Worker(self.settings, self.worker, task)
        try:
            yield worker.run()
        finally:
            worker.close()


@dataclass(slots=True)
class _Session:
    """One feeder's use of one operator."""

    operator: str = ""
    schema: pa.Schema | None = None
    region: str = ""
    """Of a keyed operator; empty otherwise."""
    evaluation: str = ""
    feeder: int = 0
    stamp: tuple[int, int] | None = None
    """Of a query whose state is stored: the batch, and which attempt at it this is."""


class Worker:
    """The event loop."""

    def __init__(self, settings: Settings, worker: int, task: tuple[int, int]) -> None:
        self._settings = settings
        self._id = worker
        self._task = task
        self._poller = Poller(settings.secret)
        self._controller = self._poller.connect(settings.host, settings.port, "the controller")
        self._sessions: dict[Channel, _Session] = {}
        self._operators = OperatorCache(self._tell)
        self._direct = DirectTransfer(settings.secret, self._poller.wake)
        self._host: KeyedHost | None = None
        self._checkpointer: Checkpointer | None = None
        self._via_store: StoreTransfer | None = None
        self._waiting: dict[Channel, Frame] = {}
        """Rows of keyed operators that are here, one frame a feeder; its next is not read before."""
        self._order = ServiceOrder(settings.qos)
        self._pace = Pace(settings.emulate, worker) if settings.emulate else None
        self._rows = self._frames = 0
        self._busy_s = 0.0
        self._reported = time.perf_counter()
        self._stopped = ""

    def run(self) -> str:
        """Serve until the controller says stop or is gone; why it ended.

        What the loop itself runs into ends the worker, and the controller is told before.
        """
        try:
            return self._serve_all()
        except Exception as error:
            self._trouble(f"worker {self._id}", described(error), ends=True)
            raise

    def _serve_all(self) -> str:
        while not self._stopped:
            for happening in self._poller.poll(0.0 if self._waiting else self._patience(), most=1):
                match happening:
                    case Opened(channel=channel):
                        self._opened(channel)
                    case Received(channel=channel, frame=frame):
                        self._received(channel, frame)
                    case Lost(channel=channel, reason=reason):
                        self._lost(channel, reason)
            self._check_threads()
            self._serve_waiting()
            if self._host is not None or not self._direct.inbox.empty():
                self._keyed().collect()
                if self._settings.memory:
                    self._rotate()
            behind = self._checkpointer is not None and self._checkpointer.full
            for channel in self._sessions:
                held = channel in self._waiting or channel.unsent > OUTBOX_BYTES
                channel.reading = not held and not behind and self._ready(channel)
            self._report()
        return self._stopped

    def _check_threads(self) -> None:
        """A worker whose direct transfer or blob writer has ended cannot keep its word: it ends, and says why."""
        for name, part in (
            ("direct transfer", self._direct),
            ("blob writer", self._checkpointer),
            ("store transfer", self._via_store),
        ):
            if part is not None and part.failure:
                raise EvenflowError(f"the {name}'s thread has failed: {part.failure}")

    def _patience(self) -> float:
        keyed = self._host is not None and self._host.active
        return min(self._settings.period, KEYED_POLL_S) if keyed else self._settings.period

    def close(self) -> None:
        """Close every connection and forget every operator."""
        with ExitStack() as stack:  # from the last to the first, whatever becomes of the others
            stack.callback(self._operators.clear)
            for part in (self._poller, self._host, self._checkpointer, self._via_store, self._direct):
                if part is not None:
                    stack.callback(part.close)

    def _opened(self, channel: Channel) -> None:
        if channel is not self._controller:
            self._sessions[channel] = _Session()
            return
        port, deep = self._poller.listen(channel.address), self._poller.listen(channel.address, DEEP_BUFFER)
        self._direct.start(channel.address)
        where = (channel.address, port, os.getpid(), self._task, self._direct.port, deep, self._direct.key)
        self._tell(WorkerHello(self._id, *where))

    def _lost(self, channel: Channel, reason: str) -> None:
        session = self._sessions.pop(channel, None)
        self._waiting.pop(channel, None)
        if session is not None and session.region:
            self._keyed().leave(session.region, time.perf_counter(), self._poller.waited_s)
        if channel is self._controller:
            self._stopped = reason

    def _received(self, channel: Channel, frame: Frame) -> None:
        try:
            if channel is self._controller:
                self._obey(frame)
            else:
                self._serve(channel, frame)
        except Exception as error:
            self._turn_out(channel, error)

    def _turn_out(self, channel: Channel, error: Exception) -> None:
        """Whatever a peer's frame runs into costs that peer its connection, and nobody else anything."""
        ours = isinstance(error, ProtocolError | ConnectionError)
        if channel is self._controller and not ours:
            raise error
        if not ours:
            self._fail(channel, 0, error, "")
        reason = f"{error}" if ours else described(error)
        known = channel in self._sessions
        self._poller.drop(channel)
        self._lost(channel, reason)
        if known and not isinstance(error, ConnectionError):
            self._trouble(f"a frame of {channel.peer}", reason)

    def _obey(self, frame: Frame) -> None:
        if frame.kind is Kind.CODE:
            name, _, code = bytes(frame.body).partition(b"\n")
            used = {session.operator for session in self._sessions.values()}
            used |= self._host.operators if self._host is not None else set()
            self._operators.keep(name.decode(), code, used)
            return
        message = TO_WORKER.read(frame)
        if isinstance(message, MovementOrder):
            self._keyed().moves.obey(message)
        elif isinstance(message, EvaluationOrder):
            self._keyed().obey(message)
        elif isinstance(message, Shutdown):
            self._stopped = message.reason
        elif isinstance(message, Prepare):
            for operator in message.operators[-SPARE:]:
                self._operators.fetch(operator)
        elif isinstance(message, NoCode):
            self._operators.unknown(message.operator)
        elif isinstance(message, SetClock) and self._pace is not None:
            self._pace.set_clock(message.elapsed)

    def _serve(self, channel: Channel, frame: Frame) -> None:
        session = self._sessions[channel]
        match frame.kind:
            case Kind.OPEN:
                self._open(session, OPENING.read(frame))
            case Kind.SCHEMA:
                session.schema = read_schema(frame)
            case Kind.DATA if session.region:
                self._waiting[channel] = frame
            case Kind.DATA:
                self._process(channel, session, frame)
            case Kind.MARKER if session.region:
                self._keyed().moves.marker(frame.sequence, session.feeder)
                channel.send(Frame(Kind.MARKER, b"", frame.sequence))
            case Kind.DRAIN if session.region:
                self._drain(channel, session)
            case Kind.END if session.stamp is not None and self._keyed().checkpointer is not None:
                self._keyed().end(session.region, session.evaluation, session.stamp, channel)
            case _:
                raise ProtocolError(f"a feeder sent a {frame.kind.name} frame")

    def _serve_waiting(self) -> None:
        """Process one frame of a keyed operator: of those that wait, one of the operator whose turn it is."""
        if not self._waiting:
            return
        region = self._order.choose({self._sessions[channel].region for channel in self._waiting})
        channel = next(each for each in self._waiting if self._sessions[each].region == region)
        frame = self._waiting.pop(channel)
        before = self._busy_s
        try:
            self._process(channel, self._sessions[channel], frame)
        except Exception as error:
            self._turn_out(channel, error)
        self._order.charge(region, self._busy_s - before)

    def _rotate(self) -> None:
        """Bring back state for which rows wait; what goes wrong then is told to all feeders of keyed operators."""
        try:
            self._keyed().rotate(time.monotonic())
        except BaseException as error:  # the user's code, or a disk that is full
            for channel, session in list(self._sessions.items()):
                if session.region:
                    self._fail(channel, 0, error, "")

    def _open(self, session: _Session, request: Opening) -> None:
        if session.operator:
            raise ProtocolError("a feeder opens an operator on a connection that has one")
        if isinstance(request, OpenKeyed):
            about = (request.region, request.operator, request.units)
            self._keyed().open(*about, time.perf_counter(), self._poller.waited_s)
            session.region, session.evaluation, session.feeder = request.region, request.evaluation, request.feeder
            session.stamp = (request.epoch, request.attempt) if request.attempt else None
        session.operator = request.operator
        self._operators.fetch(request.operator)

    def _keyed(self) -> KeyedHost:
        if self._host is None:
            from evenflow.runtime.worker.instances import Copies
            from evenflow.runtime.worker.keyed import KeyedHost  # numpy and pyarrow: not before they are needed

            copies = Copies(self._settings.memory)
            if self._settings.checkpoint:
                from evenflow.runtime.worker.checkpointer import Checkpointer
                from evenflow.runtime.worker.store_transfer import StoreTransfer

                where = self._settings.place
                self._via_store = StoreTransfer(where, self._settings.cluster, self._poller.wake)
                self._checkpointer = Checkpointer(
                    where, self._id, self._poller.wake, self._tell, self._answer_end, copies
                )
            self._host = KeyedHost(
                self._tell,
                self._direct,
                self._operators.fetch,
                self._checkpointer,
                copies,
                self._give,
                self._via_store,
            )
        return self._host

    def _answer_end(self, channel: Channel, answer: RowsDurable) -> None:
        """Tell a feeder, if it is still there, that its rows are durable or why not."""
        if channel not in self._sessions:
            return
        with suppress(ConnectionError):  # it has just gone, and the poller will say so
            channel.send(Frame(Kind.END, packed(answer)))

    def _tell(self, message: WorkerHello | CodeWanted | WorkerMessage) -> None:
        """Tell the controller something; if it is gone, so is our reason to be."""
        try:
            self._controller.send(control(message))
        except ConnectionError as error:
            self._stopped = str(error)

    def _trouble(self, what: str, reason: str, ends: bool = False) -> None:
        """Tell the controller what went wrong; that it is gone is no trouble then."""
        if self._controller.open:
            self._tell(WorkerTrouble(what, reason[:REASON], ends))

    def _ready(self, channel: Channel) -> bool:
        operator = self._sessions[channel].operator
        return not operator or operator in self._operators

    def _process(self, channel: Channel, session: _Session, frame: Frame) -> None:
        if not session.operator or session.schema is None:
            raise ProtocolError(f"frame {frame.sequence} came before its operator and its schema")
        started = time.perf_counter()
        batch = read_batch(frame, session.schema)
        try:
            answers = self._run_operator(channel, session, frame, batch)
            bodies = [parts_of(answer) for answer in answers]
        except ProtocolError:
            raise
        except BaseException as error:  # whatever the user's code throws is the user's to see
            self._fail(channel, frame.sequence, error, self._blame(session, batch, error))
            return
        service = time.perf_counter() - started
        if self._pace is not None:
            service = self._pace.serve(batch.num_rows, service)
        self._rows += batch.num_rows
        self._frames += 1
        self._busy_s += service
        if session.region:
            self._keyed().served(session.region, service)
        for answer, parts in zip(answers, bodies, strict=True):
            self._send(answer, parts, int(service * 1e6))
        if not any(answer.last and answer.tag == (channel, frame.sequence) for answer in answers):
            channel.send(Frame(Kind.RESULT, b"", frame.sequence, more=True, taken=True))

    def _run_operator(self, channel: Channel, session: _Session, frame: Frame, batch: pa.RecordBatch) -> list[Answer]:
        """The operator's answers: to this frame, and to earlier ones that waited."""
        from evenflow.runtime.worker.instances import Answer

        operator = self._operators[session.operator]
        tag = channel, frame.sequence
        if not session.region or isinstance(operator, Broken):
            return [Answer(tag, operator.process(batch), None, True)]
        return self._keyed().process(session.region, session.evaluation, batch, tag, session.stamp, frame.body)

    def _send(self, answer: Answer, parts: list[memoryview], micros: int = 0) -> None:
        """Send results to the feeder they are for, if it is still there: not always the one that is being served."""
        channel, sequence = answer.tag
        if channel not in self._sessions:
            return
        told, taken = answer.origin is not None, not answer.last
        with suppress(ConnectionError):  # it has just gone, and the poller will say so
            for place, part in enumerate(parts):
                more = place + 1 < len(parts) or not answer.last
                channel.send(Frame(Kind.RESULT, part, sequence, 0 if more else micros, 0, more, told, taken))

    def _give(self, answers: list[Answer]) -> None:
        for answer in answers:
            self._send(answer, parts_of(answer))

    def _drain(self, channel: Channel, session: _Session) -> None:
        """Answer all that waits for state on disk."""
        try:
            for answers in self._keyed().drain(session.region, session.evaluation):
                self._give(answers)
        except ProtocolError:
            raise
        except BaseException as error:  # as above; which frame it comes from is not known
            self._fail(channel, 0, error, "")

    def _blame(self, session: _Session, batch: pa.RecordBatch, error: BaseException) -> str:
        keyed = session.region and not isinstance(self._operators[session.operator], Broken)
        ours = isinstance(error, EvenflowError) and not isinstance(error, FunctionError)
        return self._keyed().blame(session.region, batch) if keyed and not ours else ""

    def _fail(self, channel: Channel, sequence: int, error: BaseException, where: str) -> None:
        with suppress(ConnectionError):
            channel.send(Frame(Kind.ERROR, error_body(self._id, error, where), sequence))

    def _report(self) -> None:
        now = time.perf_counter()
        if self._host is not None and not self._stopped and self._controller.open:
            self._host.report(now, self._poller.waited_s)
        if self._stopped or not self._controller.open or now - self._reported < self._settings.period:
            return
        self._reported = now
        self._tell(WorkerReport(self._rows, self._frames, self._busy_s))
