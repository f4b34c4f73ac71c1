"""The feeder: what runs inside the user's own Spark task. Splits rows over the workers and yields results in order.

It lives as long as one task of one micro-batch. Everything it holds is bounded: rows wait in Spark while the splitter
cannot send, at most WINDOW_BYTES of rows are under way, and once the reorder buffer holds REORDER_BYTES only the worker
that everybody waits for is read from.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from evenflow.errors import ClusterStopped, FunctionError, ProtocolError, RegionStalled, WorkerLost
from evenflow.policy.balance import Splitting
from evenflow.runtime.channel import Channel, PeerGone
from evenflow.runtime.frames import MAX_BODY, Frame, Kind
from evenflow.runtime.merger import Merger
from evenflow.runtime.messages import control, parse
from evenflow.runtime.settings import Settings
from evenflow.runtime.splitter import FRAME_BYTES, FrameSize, Turns
from evenflow.runtime.switchboard import Lost, Opened, Received, Switchboard

WINDOW_BYTES = 64 * 1024 * 1024
REORDER_BYTES = 64 * 1024 * 1024
YIELD_ROWS = 10_000
"""Small results are joined up to this many rows before Spark gets them."""


@dataclass(slots=True)
class Link:
    """One worker as this feeder sees it."""

    worker: int
    incarnation: int
    pid: int
    channel: Channel
    rows_sent: int = 0
    frames_sent: int = 0
    rows_done: int = 0
    frames_done: int = 0
    busy_s: float = 0.0
    reported: dict[str, float] = field(default_factory=dict)

    def counts(self, now: float) -> dict[str, float]:
        """Cumulative counters."""
        return {
            "blocked_s": self.channel.meter.blocked_s(now),
            "rows_sent": self.rows_sent,
            "frames_sent": self.frames_sent,
            "rows_done": self.rows_done,
            "frames_done": self.frames_done,
            "busy_s": self.busy_s,
        }

    def news(self, now: float) -> dict[str, float]:
        """What has been added since the last call."""
        counts = self.counts(now)
        news = {name: value - self.reported.get(name, 0) for name, value in counts.items()}
        self.reported = counts
        return news

    def __str__(self) -> str:
        return f"worker {self.worker} (pid {self.pid}, {self.channel.peer})"


class Feeder:
    """One task's splitter and merger."""

    def __init__(self, settings: Settings, region: str, operator: str, schema: pa.Schema, splitting: Splitting) -> None:
        self._settings = settings
        self._region = region
        self._operator = operator
        self._schema = schema
        self._splitting = splitting
        self._board = Switchboard(settings.secret)
        self._controller: Channel | None = None
        self._links: dict[int, Link] = {}
        self._by_channel: dict[Channel, Link] = {}
        self._turns = Turns()
        self._weights: dict[int, int] = {}
        self._size = FrameSize()
        self._merger = Merger()
        self._spans: dict[int, tuple[int, int, int]] = {}
        self._in_flight_bytes = 0
        self._row = 0
        self._input_schema: pa.Schema | None = None
        self._sending: Link | None = None
        self._progress = self._fed = self._reported = time.perf_counter()
        self._rows_out = 0
        self._identity = _identity()

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of all rows, in the order of the rows."""
        for batch in batches:
            if batch.num_rows:
                self._join(batch.schema)
                self._progress = time.perf_counter()
                yield from self._split(batch)
        while len(self._merger):
            self._wait()
            yield from self._merged()
        self._leave()

    def close(self) -> None:
        """Close every connection."""
        self._board.close()

    # -- the splitter

    def _split(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        offset = 0
        row_bytes = max(1, batch.nbytes // batch.num_rows)
        while offset < batch.num_rows:
            link = self._next(batch.num_rows)
            if link is None:
                self._wait()
            else:
                rows = max(1, min(self._size.rows(), batch.num_rows - offset, FRAME_BYTES // row_bytes))
                self._send(link, batch.slice(offset, rows))
                offset += rows
                self._poll(0.0)
            yield from self._merged()

    def _next(self, most: int) -> Link | None:
        """The link that gets the next frame, or None if the splitter must wait."""
        if len(self._merger) >= len(self._links) and not self._size.settled(most):
            return None  # one frame a worker until it is known what a row costs
        if self._in_flight_bytes >= WINDOW_BYTES or self._merger.held_bytes >= REORDER_BYTES:
            return None
        if self._sending is not None and self._sending.channel.unsent:
            return None
        self._sending = None
        if not self._turns or not all(link.channel.open for link in self._links.values()):
            return None
        return self._links[self._turns.pick()]

    def _send(self, link: Link, batch: pa.RecordBatch) -> None:
        body = memoryview(batch.serialize())
        if body.nbytes > MAX_BODY:
            raise ProtocolError(
                f"rows {self._row} to {self._row + batch.num_rows - 1} take {body.nbytes} bytes, over the "
                f"{MAX_BODY} bytes a frame can hold: split such values before they reach ordered_map"
            )
        sequence = self._merger.expect(link.worker, batch.num_rows)
        self._spans[sequence] = (self._row, batch.num_rows, body.nbytes)
        self._row += batch.num_rows
        self._in_flight_bytes += body.nbytes
        link.rows_sent += batch.num_rows
        link.frames_sent += 1
        self._sending = link
        try:
            link.channel.send(Frame(Kind.DATA, body, sequence, self._identity["epoch"]))
        except PeerGone as error:
            self._drop(link, str(error))

    # -- the merger

    def _merged(self) -> Iterator[pa.RecordBatch]:
        parts = self._merger.ready()
        if not parts:
            return
        for batch in _joined(parts):
            self._rows_out += batch.num_rows
            yield batch
        self._progress = time.perf_counter()  # time that Spark took to take the rows is not the workers'

    def _answer(self, link: Link, frame: Frame) -> None:
        if frame.kind is Kind.ERROR:
            raise self._function_error(frame)
        if frame.kind is not Kind.RESULT:
            raise ProtocolError(f"{link} sent a {frame.kind.name} frame")
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(frame.body), self._schema)
        except pa.ArrowException as error:
            raise ProtocolError(f"{link} sent rows that do not fit the schema: {error}") from None
        rows = self._merger.add(link.worker, frame.sequence, batch, len(frame.body), not frame.more)
        if frame.more:
            return
        self._in_flight_bytes -= self._spans.pop(frame.sequence)[2]
        seconds = frame.micros * 1e-6
        link.rows_done += rows
        link.frames_done += 1
        link.busy_s += seconds
        self._size.learn(link.worker, rows, seconds)

    def _function_error(self, frame: Frame) -> FunctionError:
        report = parse(frame)
        first, rows, _ = self._spans[frame.sequence]
        return FunctionError(
            f"the function of region {self._region} failed on worker {report['worker']}, on rows {first} to "
            f"{first + rows - 1} of partition {self._identity['partition']}: {report['error']}\n{report['traceback']}"
        )

    # -- connections

    def _join(self, schema: pa.Schema) -> None:
        """On the first row: register with the controller, learn who the workers are, and connect."""
        if self._controller is not None:
            return
        self._input_schema = schema
        self._fed = self._reported = self._progress = time.perf_counter()
        try:
            self._controller = self._board.connect(self._settings.host, self._settings.port, "the controller")
        except PeerGone as error:
            raise self._cluster_gone(str(error)) from None
        self._controller.send(control({"type": "feeder", "region": self._region} | self._identity))
        while not self._links:
            self._wait()

    def _leave(self) -> None:
        if self._controller is None:
            return
        self._report(time.perf_counter())
        deadline = time.perf_counter() + 5.0
        while self._controller.unsent and time.perf_counter() < deadline:
            self._poll(0.1)

    def _wait(self) -> None:
        """Wait for the next thing to happen, not for ever."""
        self._poll(min(self._settings.period, 1.0))
        idle = time.perf_counter() - self._progress
        if idle > self._settings.stall_timeout:
            raise self._stalled(idle)

    def _poll(self, timeout: float) -> None:
        crowded = self._merger.held_bytes >= REORDER_BYTES
        head = self._merger.head_owner if crowded else None
        for link in self._links.values():
            link.channel.reading = not crowded or link.worker == head
        for happening in self._board.poll(timeout):
            match happening:
                case Received(channel=channel, frame=frame):
                    self._received(channel, frame)
                case Lost(channel=channel, reason=reason):
                    self._lost(channel, reason)
                case Opened():
                    self._progress = time.perf_counter()
        now = time.perf_counter()
        if now - self._reported >= self._settings.period:
            self._report(now)

    def _received(self, channel: Channel, frame: Frame) -> None:
        if channel is self._controller:
            self._obey(parse(frame))
        elif channel in self._by_channel:
            self._progress = time.perf_counter()
            self._answer(self._by_channel[channel], frame)

    def _obey(self, message: dict[str, Any]) -> None:
        match message.get("type"):
            case "directory":
                if message.get("row_cost_s") is not None:
                    self._size = FrameSize(float(message["row_cost_s"]))
                self._meet(message["workers"])
                self._set_weights(message["weights"])
            case "weights":
                self._set_weights(message["weights"])
            case "refused":
                raise self._cluster_gone(str(message["reason"]))

    def _meet(self, workers: list[dict[str, Any]]) -> None:
        """Connect to workers not known yet; those that left are noticed by their own connections."""
        for entry in workers:
            known = self._links.get(entry["id"])
            if known is not None and known.incarnation == entry["incarnation"]:
                continue
            if known is not None:
                self._drop(known, "it was replaced")
            self._connect(entry)

    def _connect(self, entry: dict[str, Any]) -> None:
        assert self._input_schema is not None
        try:
            channel = self._board.connect(entry["host"], entry["port"], f"worker {entry['id']}")
        except PeerGone:
            return  # it died since the controller heard of it; its replacement will be announced
        channel.send(Frame(Kind.OPEN, control({"operator": self._operator}).body))
        channel.send(Frame(Kind.SCHEMA, memoryview(self._input_schema.serialize())))
        link = Link(entry["id"], entry["incarnation"], entry["pid"], channel)
        self._links[link.worker] = self._by_channel[channel] = link

    def _set_weights(self, weights: dict[str, int]) -> None:
        self._weights = {int(worker): weight for worker, weight in weights.items()}
        self._turns.set({worker: weight for worker, weight in self._weights.items() if worker in self._links})

    def _lost(self, channel: Channel, reason: str) -> None:
        if channel is self._controller:
            raise self._cluster_gone(reason)
        link = self._by_channel.get(channel)
        if link is not None:
            self._drop(link, reason)

    def _drop(self, link: Link, reason: str) -> None:
        """A worker is gone: go on without it, unless it held rows of this task."""
        self._board.drop(link.channel)
        del self._by_channel[link.channel], self._links[link.worker]
        self._turns.drop(link.worker)
        self._size.forget(link.worker)
        if self._sending is link:
            self._sending = None
        waiting = self._merger.outstanding().get(link.worker)
        if waiting:
            rows = sum(self._spans[sequence][1] for sequence in waiting)
            raise WorkerLost(
                f"{link} was lost with {rows} rows of partition {self._identity['partition']} in flight ({reason}). "
                "The task fails so that Spark runs it again on the workers that are left; if Spark does not retry, "
                "set spark.task.maxFailures above 1 (in local mode: master local[N,4])"
            )

    # -- statistics and errors

    def _report(self, now: float) -> None:
        if self._controller is None:
            return
        body: dict[str, Any] = {"type": "fed", "feeding_s": now - self._reported, "rows_out": self._rows_out}
        body["connections"] = {str(link.worker): link.news(now) for link in self._links.values()}
        self._reported, self._rows_out = now, 0
        try:
            self._controller.send(control(body))
        except PeerGone as error:
            raise self._cluster_gone(str(error)) from None

    def _cluster_gone(self, reason: str) -> ClusterStopped:
        return ClusterStopped(
            f"cluster {self._settings.cluster} does not serve region {self._region} any more: {reason}. "
            "Start the query again on a running Cluster"
        )

    def _stalled(self, idle: float) -> RegionStalled:
        waiting = self._merger.outstanding()
        if not self._links:
            what = "no worker is live"
        elif waiting:
            what = "; ".join(f"{self._links[w]} has {len(s)} frames" for w, s in sorted(waiting.items()))
        else:
            what = "; ".join(f"{link} did not accept the connection" for link in self._links.values())
        return RegionStalled(
            f"region {self._region}: nothing heard for {idle:.0f} s: {what}. If the function may take this long on a "
            f"frame, give Cluster a stall_timeout above {self._settings.stall_timeout:.0f} s"
        )


def _joined(parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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


def _identity() -> dict[str, Any]:
    """Who this task is, as Spark tells it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return {"partition": 0, "attempt": 0, "query": "", "epoch": 0}
    return {
        "partition": context.partitionId(),
        "attempt": context.attemptNumber(),
        "query": context.getLocalProperty("sql.streaming.queryId") or "",
        "epoch": int(context.getLocalProperty("streaming.sql.batchId") or 0),
    }


@dataclass(frozen=True, slots=True)
class Feed:
    """What `mapInArrow` is given: everything a feeder needs, picklable."""

    settings: Settings
    region: str
    operator: str
    schema: bytes
    splitting: Splitting

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one feeder over one task's rows."""
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        feeder = Feeder(self.settings, self.region, self.operator, schema, self.splitting)
        try:
            yield from feeder.run(batches)
        finally:
            feeder.close()
