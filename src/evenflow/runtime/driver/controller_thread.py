"""The controller's I/O: a thread on the driver that turns messages into events and instructions into messages."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from evenflow.control.controller import Controller
from evenflow.control.events import (
    CancelInstruction,
    CheckpointTakenEvent,
    Event,
    FeederJoinedEvent,
    Instruction,
    MemoryAskedEvent,
    MessageEvent,
    MoveAskedEvent,
    PeerLeftEvent,
    RegionFailedEvent,
    RegionOpenedEvent,
    ReplaceInstruction,
    ReportsAskedEvent,
    ResultUnpersistedEvent,
    SaveEndedEvent,
    SaveInstruction,
    SendInstruction,
    StopEvent,
    TickEvent,
    WarnInstruction,
)
from evenflow.errors import ClusterStopped, EvenflowError, ProtocolError, described
from evenflow.model import MoveUnits
from evenflow.model.entries import (
    ControllerFailedEntry,
    EventEntry,
    FeederFailedEntry,
    PeerRefusedEntry,
    StrangerRefusedEntry,
    WorkerTroubleEntry,
)
from evenflow.model.messages import (
    CodeWanted,
    FeederRefused,
    Hello,
    NoCode,
    Shutdown,
    ToController,
    WorkerHello,
)
from evenflow.runtime.driver.checkpoint import CheckpointThread, Unpassing
from evenflow.runtime.driver.error_log import ErrorLog
from evenflow.runtime.driver.eventlog import EventLog
from evenflow.runtime.driver.newcomers import Found, Newcomers
from evenflow.runtime.driver.peer_channels import PeerChannels, tell
from evenflow.runtime.driver.queries import Queries
from evenflow.runtime.driver.stages import Stages
from evenflow.runtime.threads import BackgroundThread, Start
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import TO_CONTROLLER, control
from evenflow.runtime.wire.poller import Lost, Poller, Received

logger = logging.getLogger("evenflow")
T = TypeVar("T")
OPEN_S = CLOSE_S = 10.0
REPORTS_S = 2.0


class _Reply(threading.Event):
    """Set once an event has been handled."""

    error = ""


class ControllerThread(BackgroundThread):
    """Owns the controller, its thread, its sockets and the event log.

    Other threads hand it events through `post` and read it through `ask`; only its own thread touches sockets.
    """

    def __init__(
        self,
        controller: Controller,
        secret: bytes,
        host: str,
        period: float,
        log: EventLog,
        untouched: Callable[[str, int, str], bool] = lambda query, epoch, region: False,
        checkpoint_thread: CheckpointThread | None = None,
        cancel: Callable[[str, str], None] = lambda stage, reason: None,
        queries: Queries | None = None,
        stages: Stages | None = None,
        replace_worker: Callable[[int], None] = lambda worker: None,
        ticked: Callable[[], None] = lambda: None,
        start: Start | None = None,
        poller: Poller | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("controller", self._run, self._failed, start)
        self._queries, self._stages, self._checkpoint_thread = queries, stages, checkpoint_thread
        self._cancel, self._replace_worker, self._ticked = cancel, replace_worker, ticked
        self._newcomers = Newcomers(queries, stages, checkpoint_thread, untouched, self.post)
        self._controller, self._log, self._period = controller, log, period
        self._poller = poller or Poller(secret)
        self.port = self._poller.listen(host)
        self._clock, self._zero = clock, clock()
        self._lock = threading.RLock()
        self._peers, self._questions = PeerChannels(), itertools.count(1)
        self._errors = ErrorLog(log, self.now)
        self._code: dict[str, bytes] = {}
        self._posted: queue.SimpleQueue[tuple[Event | Found, _Reply | None]] = queue.SimpleQueue()
        if checkpoint_thread is not None:
            checkpoint_thread.on_lost = lambda why: self.post(CheckpointTakenEvent(self.now(), why))
        self.begin()

    def now(self) -> float:
        """Seconds since the cluster started."""
        return self._clock() - self._zero

    def ask(self, question: Callable[[Controller], T]) -> T:
        """Read from, or set up, the controller."""
        self._check()
        with self._lock:
            return question(self._controller)

    def post(self, event: Event | Found, done: _Reply | None = None) -> None:
        """Give the controller an event from another thread; `done` is set when it has been handled, or went wrong."""
        self._posted.put((event, done))
        self._poller.wake()

    def add_code(self, operator: str, code: bytes) -> None:
        """Make an operator available to the workers; operators that no region uses any more are dropped."""
        with self._lock:
            used = self._controller.operators()
            self._code = {name: kept for name, kept in self._code.items() if name in used} | {operator: code}

    def events(self) -> list[dict[str, Any]]:
        """The latest entries of the event log."""
        with self._lock:
            return self._log.tail()

    def events_since(self, number: int) -> tuple[list[EventEntry], int]:
        """The entries of the event log from a number on, as far as they are kept, and the number of the next one."""
        with self._lock:
            return self._log.since(number)

    def note(self, entry: EventEntry) -> None:
        """Write an entry about something that the controller does not know into the event log."""
        with self._lock:
            self._log.write(entry)

    def open_region(self, event: RegionOpenedEvent) -> None:
        """Open a region; when this returns, feeders may join it."""
        self._check()
        done = _Reply()
        self.post(event, done)
        if not done.wait(OPEN_S):
            self._check()
            raise ClusterStopped(f"the controller did not open region {event.region} within {OPEN_S:.0f} s")
        self._check()
        if done.error:
            raise EvenflowError(f"region {event.region} could not be opened: {done.error}")

    def move(self, move: MoveUnits) -> None:
        """Have units moved."""
        self.post(MoveAskedEvent(self.now(), move))

    def set_memory(self, memory: Mapping[int, int]) -> None:
        """Have workers use other budgets, in bytes."""
        self.post(MemoryAskedEvent(self.now(), memory))

    def await_reports(self) -> None:
        """Have workers report, and wait for their answers for a while; a worker in a long call answers after it."""
        number, deadline = next(self._questions), self._clock() + REPORTS_S
        self.post(ReportsAskedEvent(self.now(), number))
        while not self.ask(lambda controller: controller.reported(number)) and self._clock() < deadline:
            time.sleep(0.002)

    def stop(self) -> None:
        """Tell everyone to stop; connections stay until `close`."""
        self.post(StopEvent(self.now()))

    def close(self) -> None:
        """End the thread and close all connections and the log."""
        self.end(CLOSE_S)
        try:
            if self._checkpoint_thread is not None:  # first: it still posts what it has done
                self._checkpoint_thread.close()
        finally:
            self._poller.close()
            self._errors.tell_left_out(closing=True)
            self._log.close()

    def rouse(self) -> None:
        self._poller.wake()

    def _check(self) -> None:
        if self.failure:
            raise ClusterStopped(f"the controller of this cluster has failed, {self.failure}: start a new Cluster")

    def _failed(self, error: BaseException) -> None:
        """The thread has ended before its time: whoever waits for it is told why, and all connections are closed."""
        logger.error("evenflow's controller has failed", exc_info=error)
        reason = f"the controller has failed: {self.failure}"
        with suppress(Exception), self._lock:
            self._log.write(ControllerFailedEntry(time=self.now(), error=self.failure))
            for peer, channel in self._peers.channels.items():
                self._dismiss(channel, peer, reason)
        with suppress(Exception):
            self._poller.close()
        while not self._posted.empty():
            done = self._posted.get()[1]
            if done is not None:
                done.set()

    def _run(self) -> None:
        due = self.now() + self._period
        while not self.closing.is_set():
            for happening in self._poller.poll(max(0.0, due - self.now())):
                with self._lock:
                    match happening:
                        case Received(channel=channel, frame=frame):
                            self._errors.attempt("hear a peer", partial(self._received, channel, frame))
                        case Lost(channel=channel, reason=reason, known=known):
                            self._errors.attempt("let a peer go", partial(self._lost, channel, reason, known))
            if self.now() >= due:
                due = max(due + self._period, self.now())
                self._posted.put((TickEvent(self.now()), None))
                self._errors.attempt("look for unpersisted DataFrames", self._look_for_unpersisted)
                self._errors.attempt("note the executors", self._ticked)
                with self._lock:
                    self._errors.tell_left_out()
            while not self._posted.empty():
                event, done = self._posted.get()
                with self._lock:
                    error = self._handle(event)
                if done is not None:
                    done.error = error
                    done.set()

    def _look_for_unpersisted(self) -> None:
        kept: set[int] = set()
        for region in list(self._controller.regions):
            try:
                kept |= self._controller.kept(region)
            except Exception as error:
                self._fail(region, described(error))
        gone = self._stages.unpersisted(kept) if kept and self._stages is not None else None
        if gone:
            self._posted.put((ResultUnpersistedEvent(self.now(), gone), None))

    def _handle(self, event: Event | Found) -> str:
        """Handle an event; returns what went wrong."""
        error = self._errors.attempt(f"handle {type(event).__name__}", lambda: self._do(event))
        return error or (self._controller.failure(event.region) if isinstance(event, RegionOpenedEvent) else "")

    def _fail(self, region: str, error: str) -> None:
        """An action for a region failed: that region is closed, and no other. Without a region, nothing is closed."""
        if region:
            self._posted.put((RegionFailedEvent(self.now(), region, error), None))

    def _do(self, event: Event | Found) -> None:
        if not isinstance(event, Found):
            self._carry_out(self._controller.handle(event))
            return
        for channel, feeder in self._newcomers.found(event):
            self._welcome(channel, replace(feeder, time=self.now()))
            for frame in self._newcomers.release(channel):
                self._received(channel, frame)

    def _welcome(self, channel: Channel, feeder: FeederJoinedEvent) -> None:
        try:
            self._carry_out(self._controller.handle(feeder))
        except Exception as error:  # it costs this task, which is told, and no other
            self._turn_out(channel, f"the controller could not let {channel.peer} in: {described(error)}")

    def _received(self, channel: Channel, frame: Frame) -> None:
        try:
            self._hear(channel, frame)
        except Exception as error:  # whatever a message runs into costs its sender the connection, and nobody else
            self._turn_out(channel, f"{channel.peer} sent a message that makes no sense: {described(error)}")

    def _turn_out(self, channel: Channel, reason: str) -> None:
        """Tell a peer why, and hang up."""
        self._errors.write(PeerRefusedEntry(time=self.now(), reason=reason))
        self._dismiss(channel, self._peers.of(channel), reason)
        self._poller.drop(channel)
        self._lost(channel, reason, True)

    def _dismiss(self, channel: Channel, peer: int | None, reason: str) -> None:
        """Tell a peer why it has to end."""
        is_worker = peer is not None and self._controller.is_worker(peer)
        tell(channel, control(Shutdown(reason) if is_worker else FeederRefused(reason)))

    def _hear(self, channel: Channel, frame: Frame) -> None:
        if not self._newcomers.keep(channel, frame):
            self._take(channel, TO_CONTROLLER.read(frame))

    def _take(self, channel: Channel, message: ToController) -> None:
        peer = self._peers.of(channel)
        if isinstance(message, Hello):
            if peer is not None:
                raise ProtocolError("it has said before who it is")
            self._meet(channel, self._peers.new(), message)
        elif peer is None:
            raise ProtocolError(f"'{type(message).__name__}' came before the peer said who it is")
        elif isinstance(message, CodeWanted):
            self._send_code(channel, peer, message.operator)
        else:
            self._carry_out(self._controller.handle(MessageEvent(self.now(), peer, message)))

    def _meet(self, channel: Channel, peer: int, hello: Hello) -> None:
        """Somebody says who it is."""
        if isinstance(hello, WorkerHello):
            self._peers.add(peer, channel)
            self._carry_out(self._controller.handle(MessageEvent(self.now(), peer, hello)))
            return
        joined = self._newcomers.joined(self.now(), peer, hello)
        self._peers.add(peer, channel)
        try:
            unknown = self._controller.unknown(joined)
        except Exception as error:  # the region is broken, which ends it; this task is not in it, and is told here
            self._fail(joined.region, described(error))
            self._turn_out(channel, f"region {joined.region} has failed: {described(error)}")
            return
        event = self._newcomers.introduce(channel, joined, unknown)
        if event is not None:
            self._carry_out(self._controller.handle(event))

    def _send_code(self, channel: Channel, peer: int, operator: str) -> None:
        if operator in self._code:
            tell(channel, Frame(Kind.CODE, operator.encode() + b"\n" + self._code[operator]))
        elif self._controller.is_worker(peer):  # the region was dropped since the worker was told to prepare for it
            tell(channel, control(NoCode(operator)))
        else:
            raise ProtocolError(f"there is no operator {operator}")

    def _lost(self, channel: Channel, reason: str, known: bool) -> None:
        self._newcomers.release(channel)
        peer = self._peers.remove(channel)
        if peer is not None:
            run = self._controller.run_of(peer)
            self._handle(PeerLeftEvent(self.now(), peer, reason, bool(run) and self._was_stopped(run)))
        elif not known:
            self._errors.write(StrangerRefusedEntry(time=self.now(), reason=reason))

    def _was_stopped(self, run: str) -> bool:
        """Whether a run of a query was stopped by the user; not if nobody can say."""
        found: list[bool] = []
        queries = self._queries
        if queries is not None:
            what = f"ask whether run {run} of a query was stopped"
            self._errors.attempt(what, lambda: found.append(queries.stopped(run)))
        return found == [True]

    def _carry_out(self, instructions: list[Instruction]) -> None:
        """Carry out instructions. If one cannot be, its region is closed, and the others are carried out."""
        for instruction in instructions:
            what = f"carry out {type(instruction).__name__}"
            error = self._errors.attempt(what, partial(self._carry_out_one, instruction))
            if error:
                self._fail(self._controller.concerned(instruction), error)

    def _carry_out_one(self, instruction: Instruction) -> None:
        match instruction:
            case SendInstruction(peer=peer, message=message):
                self._peers.send(peer, message)
            case WorkerTroubleEntry() | FeederFailedEntry():
                self._errors.write(instruction)
            case EventEntry():
                self._log.write(instruction)
            case WarnInstruction(text=text):
                logger.warning(text)
            case CancelInstruction(stage=stage, reason=reason):
                self._cancel(stage, reason)
            case ReplaceInstruction(peer=peer, worker=worker, reason=reason):
                self._replace(peer, worker, reason)
            case SaveInstruction() if self._checkpoint_thread is not None:
                self._checkpoint_thread.save(instruction, self._saved)

    def _replace(self, peer: int, worker: int, reason: str) -> None:
        """Hang up on a worker, which ends when it notices, and have another started."""
        channel = self._peers.channels.get(peer)
        if channel is not None:
            self._peers.send(peer, Shutdown(reason))
            self._peers.remove(channel)
            self._poller.drop(channel)
        self._replace_worker(worker)

    def _saved(self, save: SaveInstruction, error: str) -> None:
        """On the checkpoint thread: something is durable, or cannot be."""
        self.post(SaveEndedEvent(self.now(), save, error, isinstance(error, Unpassing)))
