"""The ordered feeder: splits a task's rows over the workers and hands the results to Spark in the order of the rows.

Without a merge (`OrderedTask.ordered` is off) it hands them on as they come, each once all the same.

It lives as long as one task of one micro-batch. Everything it holds is bounded (`FeederLimits`): rows wait in Spark
while the splitter cannot send, and once the reorder buffer is full only workers that everybody waits for are read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from evenflow.errors import FunctionError, ProtocolError, WorkerLost
from evenflow.model.messages import Directory, OpenOrdered, ShedRows, ToFeeder, Weights
from evenflow.model.routing import Splitting
from evenflow.operators.null_marks import marked
from evenflow.runtime.feeder.connections import Connections, FeederFigures
from evenflow.runtime.feeder.frame_size import aim_s
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.feeder.ordered.merge import OrderedMerge
from evenflow.runtime.feeder.ordered.splitter import LIMITS, FeederLimits, OrderedSplitter, Span
from evenflow.runtime.feeder.shedding import Shedder
from evenflow.runtime.feeder.task import REAL, Environment, Exchange
from evenflow.runtime.wire.channel import SOCKET_BUFFER, PeerGone
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import FAILURE
from evenflow.runtime.wire.settings import Settings


class OrderedFeeder:
    """One task's connections, splitter and merge, and how they go together."""

    def __init__(self, task: OrderedTask, environment: Environment = REAL, limits: FeederLimits = LIMITS) -> None:
        self._task = task
        self._schema = pa.ipc.read_schema(pa.py_buffer(task.schema))
        self._input_schema: pa.Schema | None = None
        self._identity = environment.identity()
        self._clock = clock = environment.clock
        self._frame_size = environment.frame_size
        self._limits = limits
        poller = environment.poller(task.settings.secret, clock, SOCKET_BUFFER)
        self._connections = Connections(self, task.settings, task.region, poller, clock)
        self._exchange = Exchange(self._connections, clock)
        links, meter = self._connections.links, self._connections.meter
        self._splitter = OrderedSplitter(links, task.splitting, self._frame_size(), meter, clock, limits)
        self._merge = OrderedMerge(task.ordered)
        self._shedder = Shedder(task.shed)
        self._draining = self._throttled = False
        self._input_failed = False
        """Whether the task fails because of an error before this region."""

    def serve(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of a task's rows; afterwards every connection is closed."""
        try:
            yield from self._run(batches)
        except BaseException as error:  # no `finally`: Spark shows users the line that a frame executed last
            self._end(error)
            if isinstance(error, FunctionError):  # it says all there is to say: none of our frames around the user's
                raise error.with_traceback(None) from None
            raise
        self._connections.close()

    def _end(self, error: BaseException) -> None:
        """Tell the controller why the task fails, if it does, and close every connection."""
        try:
            if isinstance(error, Exception) and self._connections.registered and not self._input_failed:
                with suppress(Exception):  # what went wrong first is what counts
                    self._connections.fail(error, self._news())
        finally:
            self._connections.close()

    def _run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self._exchange.pulled(batches, self._settle, self._no_input):
            if batch.num_rows:
                self._join(batch.schema)
                yield from self._split(self._shedder.kept(batch))
        self._draining = True
        while len(self._merge):
            self._wait()
            yield from self._merged()
        self._connections.leave(self._news())

    def _no_input(self) -> None:
        self._input_failed = True

    def _join(self, schema: pa.Schema) -> None:
        """On the first row: register with the controller, learn who the workers are, and connect."""
        if self._input_schema is None:
            self._input_schema = schema
            self._connections.register(self._identity)
            while not self._connections.links:
                self._wait()

    def _split(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if not batch.num_rows:
            return
        offset = 0
        most = max(1, self._limits.frame_bytes // max(1, batch.nbytes // batch.num_rows))
        while offset < batch.num_rows:
            link = self._splitter.next(batch.num_rows, len(self._merge), self._full)
            if link is None:
                self._wait()
            else:
                piece = batch.slice(offset, min(self._splitter.rows(link), most))
                self._send(link, self._splitter.add(piece))
                offset += piece.num_rows
                self._connections.poll(0.0)
            yield from self._merged()

    def _merged(self) -> Iterator[pa.RecordBatch]:
        ready = self._merge.ready()
        self._throttle()
        return self._exchange.handed(ready, self._merge.ages())

    # -- waiting

    def _settle(self) -> None:
        """Wait until all rows have gone out: the next ones may be long in coming."""
        while self._splitter.settling():
            self._wait()

    def _wait(self) -> None:
        """Wait for something to happen, and look for frames that are overdue."""
        self._connections.wait(min(1.0, 2 * self._limits.overdue * aim_s(len(self._connections.links))))
        if self._draining or self._merge.held_bytes or not self._task.ordered:
            # nothing else is left to do, or results wait for them; where none do, their own rows still come late
            self._splitter.find_overdue()
        self._send_copies()

    def _news(self) -> FeederFigures:
        rows_out, rows_in, latencies = self._exchange.count()
        resent, rerouted = self._splitter.news()
        shed = self._shedder.count()
        return FeederFigures(rows_out, self._splitter.overhead, resent, rerouted, rows_in, latencies, shed)

    @property
    def _full(self) -> bool:
        """Whether the reorder buffer is full."""
        return self._merge.held_bytes >= self._limits.reorder_bytes

    def _throttle(self) -> None:
        """While the reorder buffer is full, read only from workers that everybody waits for.

        If there are none, because the head was lost with its worker, somebody must get room for it: read from all.
        """
        if not self._full and not self._throttled:
            return
        heads = self._merge.head_owners if self._full else set()
        self._throttled = bool(heads)
        for link in self._connections.links.values():
            link.listen(not heads or link.worker in heads)

    # -- frames out

    def _send(self, link: Link, sequence: int) -> None:
        span = self._splitter.unanswered(sequence)
        self._merge.expect(link.worker, sequence, self._exchange.arrived, span.rows if span is not None else 0)
        body = self._splitter.sent(link, sequence)
        try:
            link.send(Frame(Kind.DATA, body, sequence))
        except PeerGone as error:
            self._splitter.unsent(link, sequence)
            self._connections.drop(link, str(error))

    def _send_copies(self) -> None:
        while (copy := self._splitter.copy()) is not None:
            self._send(*copy)
        self._throttle()

    # -- what the connections hear

    def polled(self, now: float) -> None:
        """Send frames again that have to be, call lost workers again, and report."""
        self._send_copies()
        if self._connections.reconnect(now):
            self._splitter.set_weights()
        if self._connections.report_due(now):
            self._connections.report(now, self._news())

    def told(self, message: ToFeeder) -> None:
        """Learn from the controller who the workers are, and their weights."""
        match message:
            case Directory():
                assert self._input_schema is not None
                if not self._connections.links:
                    self._splitter.use(self._frame_size(message.costs, message.overhead))
                self._connections.meet(
                    message.workers, OpenOrdered(self._task.operator, self._task.region), self._input_schema
                )
                self._splitter.set_weights(message.weights)
                self._shedder.set_share(message.shed)
            case ShedRows():
                self._shedder.set_share(message.share)
            case Weights():
                self._splitter.set_weights(message.weights)

    def opened(self, link: Link) -> None:
        """Let a worker have rows."""
        self._splitter.opened(link)

    def answered(self, link: Link, frame: Frame) -> None:
        """Handle a worker's answer, or a part of it."""
        sequence = frame.sequence
        span = self._splitter.unanswered(sequence)
        if frame.kind is Kind.ERROR and span is not None:
            raise self._function_error(frame, span)
        if frame.kind not in (Kind.RESULT, Kind.ERROR) or sequence not in link.under_way:
            raise ProtocolError(f"{link} sent a {frame.kind.name} frame for sequence {sequence}, unasked")
        if frame.kind is Kind.ERROR:  # too late: another worker's answer counts
            self._merge.add(link.worker, sequence, None, 0, last=True)
            self._splitter.failed(link, sequence)
            return
        batch = link.read(frame, self._schema)
        self._merge.add(link.worker, sequence, batch, len(frame.body), not frame.more)
        if not frame.more:
            self._splitter.answered(link, sequence, frame.micros * 1e-6)
        if self._full:
            self._throttle()

    def lost(self, link: Link, reason: str) -> None:
        """Go on without a worker, and give its frames to others."""
        self._merge.lose(link.worker)
        span = self._splitter.lost(link)
        if span is not None:
            self._connections.hear()  # workers that were told to stop are not lost
            raise WorkerLost(
                f"{self._rows_of(span)} were lost with {span.losses} workers, the last of them {link} ({reason}): "
                "does the function end its process or run out of memory on these rows?"
            )

    def _function_error(self, frame: Frame, span: Span) -> FunctionError:
        report = FAILURE.read(frame)
        error = FunctionError(
            f"the function of region {self._task.region} failed on worker {report.worker}, on "
            f"{self._rows_of(span)}: {report.error}\n{report.traceback}"
        )
        error.worker = report.worker
        return error

    def _rows_of(self, span: Span) -> str:
        return f"{span} of partition {self._identity['partition']}"


@dataclass(frozen=True, slots=True)
class OrderedTask:
    """The function for `mapInArrow`: everything that an ordered feeder needs, picklable."""

    settings: Settings
    region: str
    operator: str
    schema: bytes
    """Of the results, as Arrow serializes it."""
    splitting: Splitting
    ordered: bool = True
    """Whether results have the order of the rows they come from."""
    shed: int | None = None
    """The place of the column with the value of each row, if rows may be dropped."""
    names: tuple[str, ...] = ()
    """The names of the columns for the function, if Spark's rows have other names."""
    pandas: bool = False
    """Whether the function gets DataFrames: their dtypes depend on which columns have nulls in a batch of Spark's."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one feeder over one task's rows."""
        if self.names:
            batches = (batch.rename_columns(list(self.names)) for batch in batches)
        if self.pandas:
            batches = map(marked, batches)
        return OrderedFeeder(self).serve(batches)
