"""The worker: a long-lived Spark task with one event loop, which runs operators for any number of feeders.

It reads one frame at a time, processes it and queues the answer. It does not read from a feeder that does not take its
answers, so it holds at most one frame in and `WorkerLimits.outbox_bytes` out per feeder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from msgspec import structs

from evenflow.errors import ProtocolError, StateGone, described
from evenflow.model.messages import (
    AbandonMoves,
    CodeWanted,
    GraphRouting,
    NoCode,
    PauseUnits,
    Prepare,
    ReleaseUnits,
    SendReport,
    ServiceWeights,
    SetClock,
    SetMemory,
    Shutdown,
    WorkerHello,
    WorkerMessage,
    WorkerTrouble,
)
from evenflow.runtime.wire.channel import DEEP_BUFFER, SOCKET_BUFFER, Channel
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import TO_WORKER, control
from evenflow.runtime.wire.poller import Lost, Opened, Received
from evenflow.runtime.wire.settings import Settings
from evenflow.runtime.worker.assembly import Assembly, KeyedParts
from evenflow.runtime.worker.environment import REAL, WorkerEnvironment
from evenflow.runtime.worker.rows.operator_cache import SPARE
from evenflow.runtime.worker.rows.sessions import Sessions

REASON = 2000
"""Characters of a reason, at most."""


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """The function that Spark runs: `mapPartitions(WorkerTask(...))` on one partition is one worker."""

    settings: Settings
    worker: int

    def __call__(self, _rows: Iterable[object]) -> Iterator[str]:
        """Serve until told to stop; yields the reason."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = (context.stageId(), context.taskAttemptId()) if context else (0, 0)
        worker = Worker(self.settings, self.worker, task)
        try:
            yield worker.run()
        finally:
            worker.close()


class Worker:
    """The event loop."""

    def __init__(
        self, settings: Settings, worker: int, task: tuple[int, int], environment: WorkerEnvironment = REAL
    ) -> None:
        self._settings = settings
        self._limits = environment.limits
        self._clock = clock = environment.clock
        self._id = worker
        self._task = task
        self._poller = environment.poller(settings.secret, clock, SOCKET_BUFFER)
        self._controller = self._poller.connect(settings.host, settings.port, "the controller")
        self.assembly = Assembly(
            settings=settings, worker=worker, environment=environment, poller=self._poller, tell=self._tell
        )
        self._peers = self.assembly.peers
        self._sessions = Sessions(self.assembly, settings.qos, clock)
        self._reported = clock()
        self.stopped = ""
        """Why the worker ends; empty while it serves."""

    def run(self) -> str:
        """Serve until the controller says stop or is gone; returns why it ended.

        An error of the loop itself ends the worker; the controller is told before.
        """
        try:
            while not self.stopped:
                self._serve_once()
        except Exception as error:
            self._trouble(f"worker {self._id}", described(error), ends=True)
            raise
        return self.stopped

    def _serve_once(self) -> None:
        for happening in self._poller.poll(0.0 if self._sessions.ready else self._patience(), most=1):
            match happening:
                case Opened(channel=channel):
                    self.opened(channel)
                case Received(channel=channel, frame=frame):
                    self.received(channel, frame)
                case Lost(channel=channel, reason=reason):
                    self.lost(channel, reason)
        self.assembly.check_threads()
        self.serve_waiting()
        if self.assembly.due:
            self._collect(self.assembly.keyed_parts())
        self.tend_flows(self._clock())
        self._sessions.choose_readers(self._limits.outbox_bytes)
        self._report()

    def _collect(self, keyed: KeyedParts) -> None:
        """Take news of threads; bring back state from disk, and tell the feeders of a region if that fails."""
        keyed.server.collect()
        if self._settings.memory:
            for region, error in keyed.server.rotate():
                self._sessions.fail_region(region, error)

    def tend_flows(self, now: float) -> None:
        """Send frames that are due on emulated links, let feeders of graphs begin, report on graphs."""
        if self.assembly.keyed is not None:
            self._peers.tend()
            flows = self.assembly.keyed.flows
            if flows.active:
                self._peers.probe(now)
            flows.begin()
            flows.report(now)

    def _patience(self) -> float:
        patience, keyed = self._settings.period, self.assembly.keyed
        if keyed is not None and (keyed.server.active or keyed.server.returning):
            patience = min(patience, self._limits.keyed_poll_s, keyed.server.due_in(self._clock()))
        due = self._peers.due_in
        return patience if due is None else min(patience, due)

    def close(self) -> None:
        """Close every connection and forget every operator."""
        with ExitStack() as stack:  # from the last to the first, whatever becomes of the others
            stack.callback(self.assembly.operators.clear)
            stack.callback(self._poller.close)
            for close in reversed(list(self.assembly.closing())):
                stack.callback(close)

    # -- connections

    def opened(self, channel: Channel) -> None:
        """A handshake is done: with the controller, a worker to which this one has connected, or a new peer."""
        if channel in self._peers:
            return
        if channel is not self._controller:
            self._sessions.enter(channel)
            return
        transfer = self.assembly.direct_transfer
        port, deep = self._poller.listen(channel.address), self._poller.listen(channel.address, DEEP_BUFFER)
        transfer.start(channel.address)
        self._tell(
            WorkerHello(
                worker=self._id,
                host=channel.address,
                port=port,
                pid=os.getpid(),
                task=self._task,
                transfer_port=transfer.port,
                deep=deep,
                key=transfer.key,
            )
        )

    def lost(self, channel: Channel, reason: str) -> bool:
        """A connection is gone; returns whether a session was over it."""
        if channel is self._controller:
            self.stopped = reason
        if channel in self._peers:  # rows may be lost with it, so the feeders they belong to are given up
            for feeder in self.assembly.keyed_parts().flows.peer_lost(channel):
                self._poller.drop(feeder)
                self._sessions.leave(feeder, self._poller.waited_s)
            return False
        return self._sessions.leave(channel, self._poller.waited_s)

    def received(self, channel: Channel, frame: Frame) -> None:
        """A peer has sent a frame."""
        try:
            if channel is self._controller:
                self._obey(frame)
            elif channel in self._peers:
                self.assembly.keyed_parts().flows.receive(channel, frame)
            else:
                self._sessions.receive(channel, frame, self._poller.waited_s)
        except Exception as error:
            self._turn_out(channel, error)

    def serve_waiting(self) -> None:
        """Process one of the waiting frames, and give up the connections at fault."""
        for channel, error in self._sessions.serve_waiting():
            self._turn_out(channel, error)

    def _turn_out(self, channel: Channel, error: Exception) -> None:
        """Give up a peer whose frame ran into an error: it costs nobody else anything.

        The controller is told, unless the error follows from an act of its own.
        """
        ours = isinstance(error, ProtocolError | ConnectionError)
        if channel is self._controller and not ours:
            raise error
        if not ours:
            self.assembly.outbox.fail(channel, error)
        reason = f"{error}" if ours else described(error)
        self._poller.drop(channel)
        known = self.lost(channel, reason)
        if known and not isinstance(error, ConnectionError | StateGone):
            self._trouble(f"a frame of {channel.peer}", reason)

    # -- the controller

    def _obey(self, frame: Frame) -> None:
        operators = self.assembly.operators
        if frame.kind is Kind.CODE:
            name, _, code = bytes(frame.body).partition(b"\n")
            operators.keep(name.decode(), code, self._sessions.used)
            return
        match TO_WORKER.read(frame):
            case Shutdown(reason):
                self.stopped = reason
            case Prepare(names):
                for operator in names[-SPARE:]:
                    operators.fetch(operator)
            case NoCode(operator):
                operators.unknown(operator)
            case SetClock(elapsed):
                if self.assembly.pace is not None:
                    self.assembly.pace.set_clock(elapsed)
            case SetMemory(memory):
                self.assembly.set_memory(memory)
            case SendReport(number):
                self._tell(structs.replace(self._sessions.done, answers=number))
            case ServiceWeights(weights):
                self._sessions.set_weights(weights)
            case GraphRouting() | PauseUnits() | ReleaseUnits() as order:
                self.assembly.keyed_parts().flows.obey(order)
            case order:
                keyed = self.assembly.keyed_parts()
                if isinstance(order, AbandonMoves):
                    keyed.flows.abandon(order)
                keyed.server.obey(order)

    def _tell(self, message: WorkerHello | CodeWanted | WorkerMessage) -> None:
        """Tell the controller something; if it is gone, this worker ends, too."""
        try:
            self._controller.send(control(message))
        except ConnectionError as error:
            self.stopped = str(error)

    def _trouble(self, what: str, reason: str, ends: bool = False) -> None:
        """Tell the controller of an error, if it is still there."""
        if self._controller.open:
            self._tell(WorkerTrouble(what, reason[:REASON], ends))

    def _report(self) -> None:
        now = self._clock()
        if self.stopped or not self._controller.open:
            return
        if self.assembly.keyed is not None:
            self.assembly.keyed.server.report(now, self._poller.waited_s)
        if now - self._reported >= self._settings.period:
            self._reported = now
            self._tell(self._sessions.done)
