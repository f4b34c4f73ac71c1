"""What every feeder does: its connections to the controller and the workers, its waits, its reports.

A feeder runs inside the user's own Spark task and lives as long as that. Subclasses say how rows are split and what
becomes of the answers.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from evenflow.errors import ClusterStopped, EvenflowError, FunctionError, ProtocolError, RegionStalled, StateLost
from evenflow.model.messages import (
    FeederHello,
    FeederMessage,
    FeederRefused,
    FeederReport,
    Opening,
    ToFeeder,
    WorkerAddress,
)
from evenflow.runtime.feeder.frame_size import FrameSize
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.wire.channel import SOCKET_BUFFER, Channel, PeerGone
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import TO_FEEDER, control, packed
from evenflow.runtime.wire.poller import Lost, Opened, Poller, Received
from evenflow.runtime.wire.settings import Settings

YIELD_ROWS = 10_000
"""Small results are joined up to this many rows before Spark gets them."""
SLOW_PULL_S = 0.005
"""A source that kept us waiting this long is asked again only when everything has gone out."""
LEAVE_S = 5.0


class Feeding(ABC):
    """One task's connections."""

    def __init__(self, settings: Settings, region: str, buffer: int = SOCKET_BUFFER) -> None:
        self._settings = settings
        self._region = region
        self._identity = identity()
        self._poller = Poller(settings.secret, buffer=buffer)
        self._controller: Channel | None = None
        self._input_schema: pa.Schema | None = None
        self._links: dict[int, Link] = {}
        self._by_channel: dict[Channel, Link] = {}
        self._directory: dict[int, WorkerAddress] = {}
        self._size = FrameSize()
        self._rows_out = 0
        self._progress = self._reported = time.perf_counter()

    def serve(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of a task's rows; afterwards every connection is closed.

        Errors that say all there is to say come without our own frames around the user's.
        """
        try:
            yield from self.run(batches)
        except GeneratorExit:
            self.unread()
            raise
        except (FunctionError, StateLost) as error:
            raise error.with_traceback(None) from None
        finally:
            self.close()

    def close(self) -> None:
        """Close every connection."""
        self._poller.close()

    # -- what a subclass says

    @abstractmethod
    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of all rows."""

    @abstractmethod
    def _answer(self, link: Link, frame: Frame) -> None:
        """A worker sent a frame."""

    @abstractmethod
    def _drop(self, link: Link, reason: str) -> None:
        """A worker is gone."""

    @abstractmethod
    def _obey(self, message: ToFeeder) -> None:
        """The controller says something; subclasses call this for what concerns every feeder."""
        if isinstance(message, FeederRefused):
            raise self._cluster_gone(message.reason)

    @abstractmethod
    def _opening(self) -> Opening:
        """What a worker must know of this feeder."""

    def _opened(self, link: Link) -> None:  # noqa: B027 - most have nothing to do
        """A worker has proved itself."""

    def unread(self) -> None:  # noqa: B027
        """Spark gives no more rows and takes no more results, before the end."""

    def _hurry(self) -> None:  # noqa: B027
        """The next rows may be long in coming: send what waits for them."""

    def _before_poll(self) -> None:  # noqa: B027
        """Say from whom to read."""

    def _after_poll(self, now: float) -> None:  # noqa: B027
        """Do what the news allows."""

    def _news(self) -> tuple[int, int]:
        """Frames since the last report that were sent again, and that were rerouted."""
        return 0, 0

    # -- Spark on either side

    def _pulled(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The input. Waiting for it is no connection's fault, and while we wait nothing is sent or received."""
        slow = False
        while True:
            if slow:
                self._hurry()
            while slow and any(link.channel.unsent for link in self._links.values()):
                self._wait()  # the next batch may be long in coming: let go of this one first
            started = self._away()
            try:
                batch = next(batches, None)
            except Exception:
                self.unread()
                raise
            slow = self._back() - started > SLOW_PULL_S
            if batch is None:
                return
            yield batch

    def _yielded(self, parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand results to Spark; the time it takes to take them is not the workers'."""
        if not parts:
            return
        for batch in joined(parts):
            self._rows_out += batch.num_rows
            self._away()
            yield batch
            self._back()

    def _away(self) -> float:
        now = time.perf_counter()
        for link in self._links.values():
            link.channel.meter.pause(now)
        return now

    def _back(self) -> float:
        self._progress = now = time.perf_counter()
        for link in self._links.values():
            link.channel.meter.resume(now)
        return now

    # -- connections

    def _call_controller(self) -> None:
        """Register with the controller."""
        self._reported = self._progress = time.perf_counter()
        try:
            self._controller = self._poller.connect(self._settings.host, self._settings.port, "the controller")
        except PeerGone as error:
            raise self._cluster_gone(str(error)) from None
        self._controller.send(control(FeederHello(self._region, **self._identity)))

    def _tell_controller(self, message: FeederMessage) -> None:
        assert self._controller is not None
        try:
            self._controller.send(control(message))
        except PeerGone as error:
            self._hear_controller()
            raise self._cluster_gone(str(error)) from None

    def _leave(self) -> None:
        if self._controller is None:
            return
        self._report(time.perf_counter())
        deadline = time.perf_counter() + LEAVE_S
        while (self._controller.unsent or not self._controller.open) and time.perf_counter() < deadline:
            self._poll(0.1)

    def _patience(self) -> float:
        """How long to wait for something to happen before looking around."""
        return min(self._settings.period, 1.0)

    def _wait(self) -> None:
        """Wait for the next thing to happen, not for ever."""
        self._poll(self._patience())
        idle = time.perf_counter() - self._progress
        if idle > self._settings.stall_timeout:
            raise self._stalled(idle)

    def _poll(self, timeout: float) -> None:
        self._before_poll()
        for happening in self._poller.poll(timeout):
            match happening:
                case Received(channel=channel, frame=frame):
                    self._received(channel, frame)
                case Lost(channel=channel, reason=reason):
                    self._lost(channel, reason)
                case Opened(channel=channel):
                    self._progress = time.perf_counter()
                    link = self._by_channel.get(channel)
                    if link is not None:
                        self._opened(link)
        now = time.perf_counter()
        self._after_poll(now)
        if now - self._reported >= self._settings.period:
            self._report(now)

    def _received(self, channel: Channel, frame: Frame) -> None:
        if channel is self._controller:
            self._obey(TO_FEEDER.read(frame))
        elif channel in self._by_channel:
            self._progress = time.perf_counter()
            self._answer(self._by_channel[channel], frame)

    def _hear_controller(self) -> None:
        """Take what the controller has said already: workers that were told to stop are not lost."""
        assert self._controller is not None
        try:
            for frame in self._controller.receive(most=8):
                self._obey(TO_FEEDER.read(frame))
        except PeerGone as error:
            raise self._cluster_gone(str(error)) from None

    def _meet(self, workers: Iterable[WorkerAddress]) -> None:
        """Connect to workers not known yet; those that left are noticed by their own connections."""
        self._directory = {entry.id: entry for entry in workers}
        for entry in workers:
            known = self._links.get(entry.id)
            if known is not None and known.incarnation == entry.incarnation:
                continue
            if known is not None:
                self._drop(known, "it was replaced")
            self._connect(entry)

    def _connect(self, entry: WorkerAddress) -> None:
        assert self._input_schema is not None
        try:
            channel = self._poller.connect(entry.host, entry.port, f"worker {entry.id}", self._settings.stall_timeout)
        except PeerGone:
            return  # it died since the controller heard of it; its replacement will be announced
        channel.send(Frame(Kind.OPEN, packed(self._opening())))
        channel.send(Frame(Kind.SCHEMA, memoryview(self._input_schema.serialize())))
        link = Link(entry.id, entry.incarnation, entry.pid, channel)
        self._links[link.worker] = self._by_channel[channel] = link

    def _lost(self, channel: Channel, reason: str) -> None:
        if channel is self._controller:
            raise self._cluster_gone(reason)
        link = self._by_channel.get(channel)
        if link is not None:
            self._drop(link, reason)

    def _read_result(self, link: Link, frame: Frame, schema: pa.Schema) -> pa.RecordBatch:
        try:
            return pa.ipc.read_record_batch(pa.py_buffer(frame.body), schema)
        except (pa.ArrowException, OSError, EOFError) as error:
            raise ProtocolError(f"{link} sent rows that do not fit the schema: {error}") from None

    # -- statistics and errors

    def _report(self, now: float) -> None:
        if self._controller is None:
            return
        connections = {link.worker: link.news(now) for link in self._links.values()}
        done = (now - self._reported, self._rows_out, connections)
        self._reported, self._rows_out = now, 0
        self._tell_controller(FeederReport(*done, *self._news(), self._size.overhead))

    def _cluster_gone(self, reason: str) -> EvenflowError:
        return ClusterStopped(
            f"cluster {self._settings.cluster} does not serve region {self._region} any more: {reason}. "
            "Start the query again on a running Cluster"
        )

    def _stalled(self, idle: float) -> RegionStalled:
        stuck = [link for link in self._links.values() if link.under_way or not link.channel.open]
        what = "; ".join(f"{link} has {len(link.under_way)} frames" for link in stuck) or (
            f"workers {sorted(self._directory)} do not answer" if self._directory else "no worker is live"
        )
        return RegionStalled(
            f"region {self._region}: nothing heard for {idle:.0f} s: {what}. If the function may take this long on a "
            f"frame, give Cluster a stall_timeout above {self._settings.stall_timeout:g} s"
        )


def joined(parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The parts in order, runs of small ones joined."""
    run: list[pa.RecordBatch] = []
    rows = 0
    for part in parts:
        if run and rows + part.num_rows > YIELD_ROWS:
            yield run[0] if len(run) == 1 else pa.concat_batches(run)
            run, rows = [], 0
        if part.num_rows:
            run.append(part)
            rows += part.num_rows
    if run:
        yield run[0] if len(run) == 1 else pa.concat_batches(run)


def identity() -> dict[str, Any]:
    """Who this task is, as Spark tells it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return {"partition": 0, "attempt": 0, "query": "", "epoch": 0, "stage": ""}
    return {
        "partition": context.partitionId(),
        "attempt": context.attemptNumber(),
        "query": context.getLocalProperty("sql.streaming.queryId") or "",
        "epoch": int(context.getLocalProperty("streaming.sql.batchId") or 0),
        "stage": str(context.stageId()),
        "run": context.getLocalProperty("spark.jobGroup.id") or "",
        "task": context.taskAttemptId(),
        "execution": context.getLocalProperty("spark.sql.execution.id") or "",
    }
