"""The feeder: what runs inside the user's own Spark task. Splits rows over the workers and yields results in order.

It lives as long as one task of one micro-batch. Everything it holds is bounded: rows wait in Spark while the splitter
cannot send, at most WINDOW_BYTES of rows are under way, and once the reorder buffer holds REORDER_BYTES only workers
that everybody waits for are read from.

A frame may be sent again: when its worker is lost, and, under credits, when it is long overdue while results behind it
wait. The function is stateless, so the first answer counts and later ones are thrown away.
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
from evenflow.runtime.link import Link
from evenflow.runtime.merger import Merger
from evenflow.runtime.messages import control, parse
from evenflow.runtime.routes import DEPTH, ROUTES, Route
from evenflow.runtime.settings import Settings
from evenflow.runtime.splitter import FRAME_BYTES, FrameSize, aim_s
from evenflow.runtime.switchboard import Lost, Opened, Received, Switchboard

WINDOW_BYTES = 64 * 1024 * 1024
REORDER_BYTES = 64 * 1024 * 1024
YIELD_ROWS = 10_000
"""Small results are joined up to this many rows before Spark gets them."""
OVERDUE = 5
"""Under credits, a frame not answered after this many times what is usual is given to another worker as well."""
RESEND_S = 0.1
"""Frames of a lost worker wait this long for another: an executor takes all its workers with it, not all at once."""
LOSSES = 2
"""A frame that was lost with this many workers is taken to be the cause."""
SLOW_PULL_S = 0.005
"""A source that kept us waiting this long is asked again only when everything has gone out."""
LEAVE_S = 5.0
RECONNECT_S = 0.5


@dataclass(slots=True)
class Span:
    """The rows of one frame under way."""

    first: int
    rows: int
    body: memoryview
    sent_at: float
    losses: int = 0
    tried: set[int] = field(default_factory=set)


class Feeder:
    """One task's splitter and merger."""

    def __init__(self, settings: Settings, region: str, operator: str, schema: pa.Schema, splitting: Splitting) -> None:
        self._settings = settings
        self._region = region
        self._operator = operator
        self._schema = schema
        self._identity = _identity()
        self._board = Switchboard(settings.secret)
        self._controller: Channel | None = None
        self._input_schema: pa.Schema | None = None
        self._links: dict[int, Link] = {}
        self._by_channel: dict[Channel, Link] = {}
        self._route: Route = ROUTES[splitting](self._links, time.perf_counter)
        self._directory: dict[int, dict[str, Any]] = {}
        self._weights: dict[int, int] = {}
        self._reconnect_at = 0.0
        self._size = FrameSize()
        self._merger = Merger()
        self._spans: dict[int, Span] = {}
        self._again: dict[int, float] = {}
        self._in_flight_bytes = 0
        self._row = 0
        self._round_trip_s = 0.0
        self._rows_out = self._resent = self._rerouted = 0
        self._progress = self._reported = time.perf_counter()

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of all rows, in the order of the rows."""
        for batch in self._pulled(iter(batches)):
            if batch.num_rows:
                self._join(batch.schema)
                yield from self._split(batch)
        while len(self._merger):
            self._wait(draining=True)
            yield from self._merged()
        self._leave()

    def close(self) -> None:
        """Close every connection."""
        self._board.close()

    # -- Spark on either side

    def _pulled(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The input. Waiting for it is no connection's fault, and while we wait nothing is sent or received."""
        slow = False
        while True:
            while slow and any(link.channel.unsent for link in self._links.values()):
                self._wait()  # the next batch may be long in coming: let go of this one first
            started = self._away()
            batch = next(batches, None)
            slow = self._back() - started > SLOW_PULL_S
            if batch is None:
                return
            yield batch

    def _merged(self) -> Iterator[pa.RecordBatch]:
        """What may leave now; time that Spark takes to take it is not the workers'."""
        parts = self._merger.ready()
        if not parts:
            return
        for batch in _joined(parts):
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

    # -- the splitter

    def _split(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        offset = 0
        most = max(1, FRAME_BYTES // max(1, batch.nbytes // batch.num_rows))
        while offset < batch.num_rows:
            link = self._next(batch.num_rows)
            if link is None:
                self._wait()
            else:
                rows = self._size.rows(len(self._links), link.worker if self._route.by_worker else None)
                piece = batch.slice(offset, min(rows, most))
                self._send_new(link, piece)
                offset += piece.num_rows
                self._poll(0.0)
            yield from self._merged()

    def _next(self, most: int) -> Link | None:
        """The link that gets the next frame, or None if the splitter must wait."""
        if self._in_flight_bytes >= WINDOW_BYTES or self._merger.held_bytes >= REORDER_BYTES:
            return None
        count = len(self._links)
        if not self._route.by_worker and len(self._merger) >= count and not self._size.settled(count, most):
            return None  # one frame each until it is known what a row costs
        return self._route.next()

    def _send_new(self, link: Link, batch: pa.RecordBatch) -> None:
        body = memoryview(batch.serialize())
        if body.nbytes > MAX_BODY:
            raise ProtocolError(
                f"rows {self._row} to {self._row + batch.num_rows - 1} take {body.nbytes} bytes, over the "
                f"{MAX_BODY} bytes a frame can hold: split such values before they reach ordered_map"
            )
        sequence = self._merger.expect(link.worker, batch.num_rows)
        self._spans[sequence] = Span(self._row, batch.num_rows, body, time.perf_counter())
        self._row += batch.num_rows
        self._in_flight_bytes += body.nbytes
        self._send(link, sequence)

    def _send_again(self) -> None:
        """Give frames that wait for it to another worker: whoever has least to do, beside its turn or its credits."""
        now = time.perf_counter()
        for sequence in [sequence for sequence, due in self._again.items() if due <= now]:
            span = self._spans.get(sequence)
            open_ones = [link for link in self._links.values() if link.channel.open]
            others = [link for link in open_ones if span and link.worker not in span.tried]
            link = min(others, key=lambda link: len(link.under_way), default=None)
            if link is not None and len(link.under_way) > DEPTH:
                return
            if span is None or open_ones:  # answered meanwhile; or nobody is left to ask but those who have been
                del self._again[sequence]
            if link is not None:
                self._merger.also(link.worker, sequence)
                link.extra.add(sequence)
                self._resent += 1
                self._send(link, sequence)

    def _send(self, link: Link, sequence: int) -> None:
        span = self._spans[sequence]
        span.sent_at = time.perf_counter()
        span.tried.add(link.worker)
        link.sent(sequence, span.rows)
        try:
            link.channel.send(Frame(Kind.DATA, span.body, sequence, self._identity["epoch"]))
        except PeerGone as error:
            del link.under_way[sequence]  # it never got there
            span.tried.discard(link.worker)
            self._drop(link, str(error))

    # -- the merger

    def _answer(self, link: Link, frame: Frame) -> None:
        span = self._spans.get(frame.sequence)
        if frame.kind is Kind.ERROR and span is not None:
            raise self._function_error(frame, span)
        if frame.kind not in (Kind.RESULT, Kind.ERROR) or frame.sequence not in link.under_way:
            raise ProtocolError(f"{link} sent a {frame.kind.name} frame for sequence {frame.sequence}, unasked")
        if frame.kind is Kind.ERROR:  # too late: another worker's answer counts
            self._merger.add(link.worker, frame.sequence, None, 0, last=True)
            del link.under_way[frame.sequence]
            self._route.answered(link)
            return
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(frame.body), self._schema)
        except (pa.ArrowException, OSError, EOFError) as error:
            raise ProtocolError(f"{link} sent rows that do not fit the schema: {error}") from None
        first = self._merger.add(link.worker, frame.sequence, batch, len(frame.body), not frame.more)
        if frame.more:
            return
        seconds = frame.micros * 1e-6
        self._size.learn(link.worker, link.answered(frame.sequence, seconds), seconds)
        if span is not None and len(span.tried) == 1:
            self._round_trip_s += (time.perf_counter() - span.sent_at - self._round_trip_s) / 16
        if frame.sequence in link.extra:
            link.extra.discard(frame.sequence)  # it was sent beside the turns and credits, and earns none
        else:
            self._route.answered(link)
        if first:
            self._in_flight_bytes -= self._spans.pop(frame.sequence).body.nbytes

    def _hedge(self, now: float, draining: bool) -> None:
        """Under credits: send again what is long overdue, if results behind it wait or nothing else is left to do.

        The k-th copy of a frame goes out when the last one is late by OVERDUE ** k times what is usual: a worker that
        is stuck costs little time, a row that takes ages everywhere does not occupy everybody.
        """
        if not self._route.by_worker or not (draining or self._merger.held_bytes):
            return
        usual = max(aim_s(len(self._links)), self._round_trip_s)
        for sequence, owners in self._merger.waiting().items():
            span = self._spans[sequence]
            expected = max([usual, *(self._size.seconds(worker, span.rows) for worker in owners)])
            if owners and now - span.sent_at > OVERDUE ** len(owners) * expected:
                self._again.setdefault(sequence, now)

    def _function_error(self, frame: Frame, span: Span) -> FunctionError:
        report = parse(frame)
        return FunctionError(
            f"the function of region {self._region} failed on worker {report['worker']}, on {self._rows_of(span)}: "
            f"{report['error']}\n{report['traceback']}"
        )

    def _rows_of(self, span: Span) -> str:
        return f"rows {span.first} to {span.first + span.rows - 1} of partition {self._identity['partition']}"

    # -- connections

    def _join(self, schema: pa.Schema) -> None:
        """On the first row: register with the controller, learn who the workers are, and connect."""
        if self._controller is not None:
            return
        self._input_schema = schema
        self._reported = self._progress = time.perf_counter()
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
        deadline = time.perf_counter() + LEAVE_S
        while self._controller.unsent and time.perf_counter() < deadline:
            self._poll(0.1)

    def _wait(self, draining: bool = False) -> None:
        """Wait for the next thing to happen, not for ever."""
        self._poll(min(self._settings.period, 2 * OVERDUE * aim_s(len(self._links)), 1.0))
        now = time.perf_counter()
        self._hedge(now, draining)
        self._send_again()
        idle = now - self._progress
        if idle > self._settings.stall_timeout:
            raise self._stalled(idle)

    def _poll(self, timeout: float) -> None:
        self._throttle()
        for happening in self._board.poll(timeout):
            match happening:
                case Received(channel=channel, frame=frame):
                    self._received(channel, frame)
                case Lost(channel=channel, reason=reason):
                    self._lost(channel, reason)
                case Opened(channel=channel):
                    self._opened(channel)
        self._send_again()
        now = time.perf_counter()
        self._reconnect(now)
        if now - self._reported >= self._settings.period:
            self._report(now)

    def _throttle(self) -> None:
        """While the reorder buffer is full, read only from workers that everybody waits for.

        If there are none, because the head was lost with its worker, somebody must get room for it: read from all.
        """
        heads = self._merger.head_owners if self._merger.held_bytes >= REORDER_BYTES else set()
        for link in self._links.values():
            link.channel.reading = not heads or link.worker in heads

    def _opened(self, channel: Channel) -> None:
        self._progress = time.perf_counter()
        link = self._by_channel.get(channel)
        if link is not None:
            self._route.opened(link, self._size.knows(link.worker))

    def _received(self, channel: Channel, frame: Frame) -> None:
        if channel is self._controller:
            self._obey(parse(frame))
        elif channel in self._by_channel:
            self._progress = time.perf_counter()
            self._answer(self._by_channel[channel], frame)
            if self._merger.held_bytes >= REORDER_BYTES:
                self._throttle()

    def _hear_controller(self) -> None:
        """Take what the controller has said already: workers that were told to stop are not lost."""
        assert self._controller is not None
        try:
            for frame in self._controller.receive(most=8):
                self._obey(parse(frame))
        except PeerGone as error:
            raise self._cluster_gone(str(error)) from None

    def _obey(self, message: dict[str, Any]) -> None:
        match message.get("type"):
            case "directory":
                if not self._links:
                    self._size = FrameSize({int(w): cost for w, cost in message["costs"].items()}, message["overhead"])
                self._meet(message["workers"])
                self._set_weights(message["weights"])
            case "weights":
                self._set_weights(message["weights"])
            case "refused":
                raise self._cluster_gone(str(message["reason"]))

    def _meet(self, workers: list[dict[str, Any]]) -> None:
        """Connect to workers not known yet; those that left are noticed by their own connections."""
        self._directory = {entry["id"]: entry for entry in workers}
        for entry in workers:
            known = self._links.get(entry["id"])
            if known is not None and known.incarnation == entry["incarnation"]:
                continue
            if known is not None:
                self._drop(known, "it was replaced")
            self._connect(entry)

    def _reconnect(self, now: float) -> None:
        """Try again those that the controller still takes to be live."""
        if now < self._reconnect_at or self._links.keys() >= self._directory.keys():
            return
        self._reconnect_at = now + RECONNECT_S
        for worker, entry in self._directory.items():
            if worker not in self._links:
                self._connect(entry)
        self._route.set_weights(self._weights)

    def _connect(self, entry: dict[str, Any]) -> None:
        assert self._input_schema is not None
        try:
            channel = self._board.connect(
                entry["host"], entry["port"], f"worker {entry['id']}", self._settings.stall_timeout
            )
        except PeerGone:
            return  # it died since the controller heard of it; its replacement will be announced
        channel.send(Frame(Kind.OPEN, control({"operator": self._operator}).body))
        channel.send(Frame(Kind.SCHEMA, memoryview(self._input_schema.serialize())))
        link = Link(entry["id"], entry["incarnation"], entry["pid"], channel)
        self._links[link.worker] = self._by_channel[channel] = link

    def _set_weights(self, weights: dict[str, int]) -> None:
        self._weights = {int(worker): weight for worker, weight in weights.items()}
        self._route.set_weights(self._weights)

    def _lost(self, channel: Channel, reason: str) -> None:
        if channel is self._controller:
            raise self._cluster_gone(reason)
        link = self._by_channel.get(channel)
        if link is not None:
            self._drop(link, reason)

    def _drop(self, link: Link, reason: str) -> None:
        """A worker is gone: go on without it, and give its frames to others."""
        self._board.drop(link.channel)
        del self._by_channel[link.channel], self._links[link.worker]
        self._route.dropped(link)
        self._size.forget(link.worker)
        for sequence in link.under_way:
            if sequence in self._spans:
                self._spans[sequence].tried.discard(link.worker)
        suspect = next(iter(link.under_way), None)  # a worker takes frames in order: this is the one it was at
        for sequence in self._merger.lose(link.worker):
            span = self._spans[sequence]
            span.losses += sequence == suspect
            if span.losses >= LOSSES:
                self._hear_controller()
                raise WorkerLost(
                    f"{self._rows_of(span)} were lost with {span.losses} workers, the last of them {link} ({reason}): "
                    "does the function end its process or run out of memory on these rows?"
                )
            self._again[sequence] = time.perf_counter() + RESEND_S

    # -- statistics and errors

    def _report(self, now: float) -> None:
        if self._controller is None:
            return
        body: dict[str, Any] = {"type": "fed", "feeding_s": now - self._reported, "rows_out": self._rows_out}
        body |= {
            "overhead": self._size.overhead,
            "resent": self._resent,
            "rerouted": self._route.rerouted - self._rerouted,
        }
        body["connections"] = {str(link.worker): link.news(now) for link in self._links.values()}
        self._reported, self._rows_out, self._resent, self._rerouted = now, 0, 0, self._route.rerouted
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
        stuck = [link for link in self._links.values() if link.under_way or not link.channel.open]
        what = "; ".join(f"{link} has {len(link.under_way)} frames" for link in stuck) or (
            f"workers {sorted(self._directory)} do not answer" if self._directory else "no worker is live"
        )
        return RegionStalled(
            f"region {self._region}: nothing heard for {idle:.0f} s: {what}. If the function may take this long on a "
            f"frame, give Cluster a stall_timeout above {self._settings.stall_timeout:g} s"
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
