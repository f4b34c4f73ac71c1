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

import pyarrow as pa

from evenflow.errors import FunctionError, ProtocolError, WorkerLost
from evenflow.model.messages import Directory, OpenOrdered, ToFeeder, Weights
from evenflow.model.routing import Splitting
from evenflow.runtime.feeder.connections import Feeding
from evenflow.runtime.feeder.frame_size import FRAME_BYTES, FrameSize, aim_s
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.feeder.ordered_merge import Merger
from evenflow.runtime.feeder.routes import DEPTH, ROUTES, Route
from evenflow.runtime.wire.channel import Channel, PeerGone
from evenflow.runtime.wire.frames import MAX_BODY, Frame, Kind
from evenflow.runtime.wire.messages import FAILURE
from evenflow.runtime.wire.settings import Settings

WINDOW_BYTES = 64 * 1024 * 1024
REORDER_BYTES = 64 * 1024 * 1024
OVERDUE = 5
"""Under credits, a frame not answered after this many times what is usual is given to another worker as well."""
RESEND_S = 0.1
"""Frames of a lost worker wait this long for another: an executor takes all its workers with it, not all at once."""
LOSSES = 2
"""A frame that was lost with this many workers is taken to be the cause."""
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


class Feeder(Feeding):
    """One task's splitter and merger."""

    def __init__(self, settings: Settings, region: str, operator: str, schema: pa.Schema, splitting: Splitting) -> None:
        super().__init__(settings, region)
        self._operator = operator
        self._schema = schema
        self._route: Route = ROUTES[splitting](self._links, time.perf_counter)
        self._weights: dict[int, int] = {}
        self._reconnect_at = 0.0
        self._merger = Merger()
        self._spans: dict[int, Span] = {}
        self._again: dict[int, float] = {}
        self._in_flight_bytes = 0
        self._row = 0
        self._round_trip_s = 0.0
        self._draining = False
        self._resent = self._rerouted = 0

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of all rows, in the order of the rows."""
        for batch in self._pulled(iter(batches)):
            if batch.num_rows:
                self._join(batch.schema)
                yield from self._split(batch)
        self._draining = True
        while len(self._merger):
            self._wait()
            yield from self._merged()
        self._leave()

    def _merged(self) -> Iterator[pa.RecordBatch]:
        """What may leave now."""
        return self._yielded(self._merger.ready())

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
            link.channel.send(Frame(Kind.DATA, span.body, sequence))
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
        batch = self._read_result(link, frame, self._schema)
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
        report = FAILURE.read(frame)
        return FunctionError(
            f"the function of region {self._region} failed on worker {report.worker}, on {self._rows_of(span)}: "
            f"{report.error}\n{report.traceback}"
        )

    def _rows_of(self, span: Span) -> str:
        return f"rows {span.first} to {span.first + span.rows - 1} of partition {self._identity['partition']}"

    # -- connections

    def _join(self, schema: pa.Schema) -> None:
        """On the first row: register with the controller, learn who the workers are, and connect."""
        if self._controller is not None:
            return
        self._input_schema = schema
        self._call_controller()
        while not self._links:
            self._wait()

    def _opening(self) -> OpenOrdered:
        return OpenOrdered(self._operator)

    def _patience(self) -> float:
        return min(super()._patience(), 2 * OVERDUE * aim_s(len(self._links)))

    def _wait(self) -> None:
        super()._wait()
        self._hedge(time.perf_counter(), self._draining)
        self._send_again()

    def _before_poll(self) -> None:
        self._throttle()

    def _after_poll(self, now: float) -> None:
        self._send_again()
        self._reconnect(now)

    def _throttle(self) -> None:
        """While the reorder buffer is full, read only from workers that everybody waits for.

        If there are none, because the head was lost with its worker, somebody must get room for it: read from all.
        """
        heads = self._merger.head_owners if self._merger.held_bytes >= REORDER_BYTES else set()
        for link in self._links.values():
            link.channel.reading = not heads or link.worker in heads

    def _opened(self, link: Link) -> None:
        self._route.opened(link, self._size.knows(link.worker))

    def _received(self, channel: Channel, frame: Frame) -> None:
        super()._received(channel, frame)
        if self._merger.held_bytes >= REORDER_BYTES:
            self._throttle()

    def _obey(self, message: ToFeeder) -> None:
        match message:
            case Directory():
                if not self._links:
                    self._size = FrameSize(message.costs, message.overhead)
                self._meet(message.workers)
                self._set_weights(message.weights)
            case Weights():
                self._set_weights(message.weights)
            case _:
                super()._obey(message)

    def _reconnect(self, now: float) -> None:
        """Try again those that the controller still takes to be live."""
        if now < self._reconnect_at or self._links.keys() >= self._directory.keys():
            return
        self._reconnect_at = now + RECONNECT_S
        for worker, entry in self._directory.items():
            if worker not in self._links:
                self._connect(entry)
        self._route.set_weights(self._weights)

    def _set_weights(self, weights: dict[int, int]) -> None:
        self._weights = weights
        self._route.set_weights(self._weights)

    def _drop(self, link: Link, reason: str) -> None:
        """A worker is gone: go on without it, and give its frames to others."""
        self._poller.drop(link.channel)
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

    def _news(self) -> tuple[int, int]:
        news = self._resent, self._route.rerouted - self._rerouted
        self._resent, self._rerouted = 0, self._route.rerouted
        return news


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
        return Feeder(self.settings, self.region, self.operator, schema, self.splitting).serve(batches)
