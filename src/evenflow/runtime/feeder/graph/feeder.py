"""The feeder of a graph: sends rows of sources to the workers that have their readers, and hands results to Spark.

Rows go out as root frames, a bounded number of rows at a time; results come from whatever worker has the endpoint's
node. The task's rows are through when no root frame is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.graph.routing import Bundle, Ways
from evenflow.model import messages
from evenflow.runtime.feeder.connections import FeederFigures
from evenflow.runtime.feeder.frame_size import serialized
from evenflow.runtime.feeder.graph.feed import GraphFeed
from evenflow.runtime.feeder.graph.progress import Progress
from evenflow.runtime.feeder.graph.roots import ALL, Root, Roots
from evenflow.runtime.feeder.keyed import errors as keyed_errors
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.feeder.stateful import StatefulFeeder
from evenflow.runtime.feeder.task import REAL, Environment
from evenflow.runtime.wire.flows import MARK, flow_frame, read_mark
from evenflow.runtime.wire.frames import Frame, Kind

ID_BITS = 64
PROGRESS_S = 1.0
"""Seconds between two reports of progress to the controller."""


class GraphFeeder(StatefulFeeder):
    """One task's rows in a graph."""

    def __init__(self, feed: GraphFeed, environment: Environment = REAL) -> None:
        super().__init__(feed.settings, feed.region, feed.operator, feed.streaming, feed.mark, environment)
        self._feed = feed
        self._size = environment.frame_size()
        self._roots = Roots(feed.window_rows, feed.window_bytes, self._size, len(feed.plan.nodes))
        self._ways = Ways(feed.plan, np.zeros(feed.plan.units + 1, np.int32))
        self._ready: set[Link] = set()
        """Workers that take rows of this feeder from anywhere."""
        self._markers: list[tuple[int, int]] = []
        """Movements that were announced while some worker was not ready, and their sources."""
        self._turns: dict[int, int] = {}
        """By source, the number of its latest root frame among those of the source."""
        self._held: dict[int, list[tuple[int, Bundle, int]]] = {}
        """By movement, rows that wait: their root frame, and the id of their frame."""
        self._results_ready: list[pa.RecordBatch] = []
        self._progress = Progress()
        self._told = self._clock()
        self._waiting: dict[int, int] = {}
        """By source, rows under way, as the controller was told last."""
        self._zero: float | None = None
        """When the first row came, for emulated arrivals."""

    # -- rows in

    def _split(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        came = self._clock()
        self._begin(pa.schema([]), batch)
        while not self._all_ready:
            self._connections.wait()
        for source, rows in self._feed.rows_of(batch):
            for arrived in self._arriving(source, rows, came):
                if arrived is not None:
                    self._send_root(source, *arrived)
                yield from self._results()

    @property
    def _all_ready(self) -> bool:
        links = self._connections.links.values()
        return bool(links) and all(link in self._ready for link in links)

    def _arriving(
        self, source: int, rows: pa.RecordBatch, came: float
    ) -> Iterator[tuple[pa.RecordBatch, float] | None]:
        """Rows for the next root frames as there is room and they arrive, and when they came, in the mean.

        That is `came`, when their record batch did, unless they have times of their own: waiting for room counts.
        None comes whenever there was time for others.
        """
        seconds = self._feed.arrivals(rows)
        if self._zero is None:
            self._zero = self._clock()
        start, row_bytes = 0, rows.nbytes / max(1, rows.num_rows)
        if seconds is None:
            self._progress.arrived(source, rows.num_rows)
        else:
            self._progress.expect(source, seconds + self._zero)
        while start < rows.num_rows:
            self._connections.poll(0.0)
            while self._roots.full(len(self._connections.links)):
                yield None
                self._connections.wait()
            most, born = self._roots.rows(len(self._connections.links), row_bytes), came
            if seconds is not None:
                elapsed = self._clock() - self._zero
                here = int(np.searchsorted(seconds[start:], elapsed, side="right"))
                if not here:
                    yield None
                    self._connections.wait(min(1.0, max(0.0, seconds[start] - elapsed)))
                    continue
                most = min(most, here)
                born = self._zero + float(seconds[start : start + most].mean())
            yield rows.slice(start, most), born
            start += most
        self._connections.poll(0.0)

    def _send_root(self, source: int, rows: pa.RecordBatch, born: float) -> None:
        number = self._roots.begin(born, rows.num_rows, rows.nbytes, source)
        for endpoint in self._feed.plan.streams[source].endpoints:
            self._take(endpoint, number, rows)
        turn = self._turns[source] = self._turns.get(source, -1) + 1
        for bundle in self._ways.split(source, rows, turn):
            identity = self._environment.random_bits(ID_BITS)
            self._roots.sent(number, identity)
            if bundle.worker < 0:
                self._held.setdefault(-bundle.worker, []).append((number, bundle, identity))
            else:
                self._send(number, bundle, bundle.worker, identity)
        self._through(self._roots.check(number))

    def _send(self, root: int, bundle: Bundle, worker: int, identity: int) -> None:
        assert self._opening is not None
        what = f"{bundle.rows.num_rows} rows of partition {self.identity['partition']}"
        body = memoryview(serialized(bundle.rows, what, "graph"))
        frame = flow_frame(identity, root, bundle.turn, self._opening.feeder, bundle.ports, body, bundle.rows.num_rows)
        link = self._connections.links.get(worker)
        if link is None:
            raise keyed_errors.worker_unreachable(self._region, worker, bool(self._attempt))
        self._connections.send(link, frame)

    def _settle(self) -> None:
        while self._connections.unsent:
            self._connections.wait()

    def _drain(self) -> Iterator[pa.RecordBatch]:
        if self._schema is None:
            return  # there were no rows
        self._connections.tell(messages.FeederDraining())
        while len(self._roots):
            yield from self._results()
            self._connections.wait()
        yield from self._results()
        self._tell_progress()

    # -- results

    def _results(self) -> Iterator[pa.RecordBatch]:
        ready, self._results_ready = self._results_ready, []
        return self._exchange.handed(ready)

    def _take(self, endpoint: int, root: int, rows: pa.RecordBatch) -> None:
        self._progress.add(self._clock() - self._roots.born(root), rows.num_rows)
        self._results_ready.append(self._feed.results(endpoint, rows))

    def _through(self, root: Root | None) -> None:
        """If a root frame has been answered whole, note the cost of its rows for the next micro-batch."""
        if root is not None and self._connections.links:
            link = next(iter(self._connections.links.values()))
            link.rows_done += root.rows
            link.busy_s += root.longest_s

    def _news(self) -> FeederFigures:
        rows_out, rows_in, _ = self._exchange.count()
        return FeederFigures(rows_out, self._size.overhead, rows_in=rows_in)

    def _tell_progress(self) -> None:
        before, self._waiting = self._waiting, self._roots.waiting
        if self._progress.any or self._waiting or before:
            arrived, latencies = self._progress.news()
            self._connections.tell(messages.FlowProgress(arrived, latencies, self._waiting))

    # -- what the connections hear

    def polled(self, now: float) -> None:
        """Tell the controller how things go."""
        if now - self._told >= PROGRESS_S:
            self._told = now
            self._progress.pass_time(now)
            self._tell_progress()
        if self._connections.report_due(now):
            self._connections.report(now, self._news())

    def opened(self, link: Link) -> None:
        """Ask whether the worker can take rows."""
        self._connections.send(link, Frame(Kind.FLUSH))

    def told(self, message: messages.ToFeeder) -> None:
        match message:
            case messages.PauseUnits():
                self._ways.pause(message.move, message.units)
                self._markers.append((message.move, message.source))
                self._mark()
            case messages.ReleaseUnits():
                self._ways.release(message.move, message.worker)
                for root, bundle, identity in self._held.pop(message.move, ()):
                    self._send(root, bundle, message.worker, identity)
            case _:
                super().told(message)

    def _mark(self) -> None:
        """Mark the end of the rows of units that move; not before every worker, so also the next one, knows us."""
        if not self._all_ready:
            return
        assert self._opening is not None
        for move, source in self._markers:
            link = self._connections.links.get(source)
            if link is not None:
                self._connections.send(link, Frame(Kind.MARKER, MARK.pack(self._opening.feeder), move))
        self._markers = []

    def _learn(self, directory: messages.KeyedDirectory) -> None:
        paused = {movement.move: movement.units for movement in directory.paused}
        self._ways = Ways(self._feed.plan, directory.owners, paused)
        costs = {ALL: max(directory.costs.values())} if directory.costs else {}
        self._size = self._environment.frame_size(costs, directory.overhead)
        feed = self._feed
        self._roots = Roots(feed.window_rows, feed.window_bytes, self._size, len(feed.plan.nodes))

    def answered(self, link: Link, frame: Frame) -> None:
        """Take what a worker sends: results, that a frame is processed, a flush, an error, that all is durable."""
        match frame.kind:
            case Kind.RESULT if frame.part < len(self._feed.plan.endpoints):
                stream = self._feed.plan.endpoints[frame.part].stream
                self._take(frame.part, frame.sequence, link.read(frame, self._feed.plan.streams[stream].schema))
            case Kind.DONE:
                self._through(self._roots.done(frame.sequence, read_mark(frame), frame.micros * 1e-6))
            case Kind.FLUSH if frame.told:
                self._ready.add(link)
                self._mark()
            case Kind.FLUSH:
                self._connections.send(link, Frame(Kind.FLUSH, b"", frame.sequence, told=True))
            case Kind.END if self._end.awaits(link):
                units = self._durable(link, frame).units
                self._connections.tell(messages.FeederArrivals(units, np.zeros(len(units), np.int64)))
            case Kind.ERROR:
                raise self._operator_failed(frame)
            case _:
                raise ProtocolError(f"{link} sent a {frame.kind.name} frame, unasked")


@dataclass(frozen=True, slots=True)
class GraphTask:
    """The function for `mapInArrow`: one feeder for each task."""

    feed: GraphFeed

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one feeder over one task's rows."""
        return GraphFeeder(self.feed).serve(batches)
