"""The keyed feeder: sends each row to the worker that owns its unit, and hands the results to Spark.

It lives as long as one task of one micro-batch. Rows wait in the transient-skew buffer, about `skew_bytes` of them, and
are sent only to workers with fewer than DEPTH frames to do; while the buffer is full, nothing is taken in. With a
target of latency it is full with fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.model import messages
from evenflow.model.latency import Latencies
from evenflow.runtime.feeder.admission import Admission
from evenflow.runtime.feeder.connections import FeederFigures
from evenflow.runtime.feeder.frame_size import FrameSize, longest_s, serialized
from evenflow.runtime.feeder.hashing import with_hashes
from evenflow.runtime.feeder.keyed.feed import KeyedFeed
from evenflow.runtime.feeder.keyed.key_values import KeyValues
from evenflow.runtime.feeder.keyed.merger import KeyedMerger
from evenflow.runtime.feeder.keyed.skew import Arrivals, SkewBuffer, two_choices
from evenflow.runtime.feeder.keyed.splitter import KeyedSplitter
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.feeder.shedding import Shedder
from evenflow.runtime.feeder.stateful import StatefulFeeder
from evenflow.runtime.feeder.task import REAL, Environment
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import packed

LEAST_ROWS = 256
"""Rows that are taken in at one time, at least, however small the buffer is."""
ARRIVALS_S = 0.1
"""How often the controller is told what came in."""
REORDER_BYTES = 64 * 1024 * 1024
"""With ordered=True: results that wait for earlier ones, at most, before no more rows are taken in. Also: rows kept
here for results that wait for state on a worker's disk."""
LAST_WORDS_S = 1.0
"""How long the controller may take to say why a worker is gone."""


class KeyedFeeder(StatefulFeeder):
    """One task's splitter and merger, and how they go together.

    `arrivals` sees, and may change, what the controller is told of the units that had rows; if not `measured`, it is
    told nothing of what rows cost. If `results` come elsewhere, it is
    told nothing of how long rows took.
    """

    def __init__(
        self,
        feed: KeyedFeed,
        environment: Environment = REAL,
        *,
        arrivals: Callable[[Arrivals], Arrivals] = lambda arrived: arrived,
        measured: bool = True,
        results: bool = True,
    ) -> None:
        super().__init__(feed.settings, feed.region, feed.operator, feed.streaming, feed.mark, environment)
        self._feed = feed
        self._arrivals = arrivals
        self._measured, self._has_results = measured, results
        self._merger = KeyedMerger(pa.ipc.read_schema(pa.py_buffer(feed.schema)), feed.kept, feed.ordered)
        self._own(SkewBuffer(np.zeros(0, np.int32)), environment.frame_size())
        self._shedder, self._admission = Shedder(feed.shed), Admission(feed.target_s)
        self._keys = KeyValues(feed.key_values)
        self._counted = 0.0
        """When the controller was last told what came in."""

    def _own(self, skew: SkewBuffer, size: FrameSize) -> None:
        self._skew, self._size = skew, size
        seed = f"{self._feed.seed}:{self.identity['partition']}"
        longest = longest_s(self._feed.report_s)
        self._splitter = KeyedSplitter(self._connections.links, skew, size, seed=seed, longest_s=longest)

    @property
    def _stored(self) -> bool:
        return self._feed.by_content

    @property
    def _report_s(self) -> float:
        return self._feed.report_s

    def _split(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows = with_hashes(batch, self._feed.names, self._feed.key_place, self._feed.modulo, self._feed.ranges)
        self._begin(pa.schema([rows.schema.field(place) for place in self._feed.sent]), batch)
        rows = self._shedder.kept(rows)
        self._keys.look(self._clock(), rows, self._skew.units)
        step = max(LEAST_ROWS, rows.num_rows * self._room // max(1, rows.nbytes))
        for start in range(0, rows.num_rows, step):
            yield from self._take_in(rows.slice(start, step))

    def _take_in(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows in, and wait until there is room for the next; gives results that have come meanwhile."""
        arrived = self._exchange.arrived
        self._skew.insert(rows, self._merger.expect(rows.num_rows, arrived), self._feed.ordered, arrived)
        self._send_all()
        self._connections.poll(0.0)
        yield from self._results()
        while self._full:
            self._hurry()  # earlier rows may be among those that wait for a frame to be whole
            if self._merger.held_bytes >= REORDER_BYTES:
                self._ask_for_rest()
            self._connections.wait()
            yield from self._results()
        self._splitter.hurry(False)

    @property
    def _room(self) -> int:
        """Bytes of rows that may wait: for all workers together or, if `divided`, for each."""
        return self._feed.skew_bytes // (max(1, len(self._connections.links)) if self._feed.divided else 1)

    @property
    def _full(self) -> bool:
        """Whether as many rows or results wait as may."""
        if self._skew.full(self._room, self._feed.divided) or self._merger.held_bytes >= REORDER_BYTES:
            return True
        served = sum(link.rows_done for link in self._connections.links.values())
        return self._admission.full(self._clock(), self._skew.rows, served)

    def _settle(self) -> None:
        self._hurry()
        while self._connections.unsent:
            self._connections.wait()

    def _drain(self) -> Iterator[pa.RecordBatch]:
        if self._schema is None:
            return  # there were no rows
        self._hurry()
        self._tell_arrivals()
        self._connections.tell(messages.FeederDraining())
        while self._skew.rows or len(self._merger):
            if not self._skew.rows:
                self._ask_for_rest()
            self._connections.wait()
            yield from self._results()
        yield from self._results()  # what came while the input was waited for

    def _results(self) -> Iterator[pa.RecordBatch]:
        ready = self._merger.ready()
        return self._exchange.handed(ready, self._merger.ages())

    def _news(self) -> FeederFigures | None:
        if not self._measured:
            return None
        rows_out, rows_in, latencies = self._exchange.count()
        known = latencies if self._has_results else Latencies()
        shed = self._shedder.count()
        return FeederFigures(rows_out, self._size.overhead, rows_in=rows_in, latencies=known, shed=shed)

    def _tell_arrivals(self) -> None:
        if self._opening and self._feed.by_content:
            units, rows = self._arrivals(self._skew.arrivals())
            self._connections.tell(messages.FeederArrivals(units, rows, self._keys.take()))

    # -- frames out

    def _hurry(self) -> None:
        """Send the rows that wait, in frames that are not full: no more rows come for now."""
        self._splitter.hurry()
        self._send_all()

    def _send_all(self) -> None:
        for link, pieces in self._splitter.frames():
            chosen = [piece.rows.select(self._feed.sent) for piece in pieces]
            rows = chosen[0] if len(chosen) == 1 else pa.concat_batches(chosen)
            what = f"{rows.num_rows} rows of partition {self.identity['partition']}"
            body = serialized(rows, what, "keyed")
            sequence = self._merger.sent(link.worker, pieces)
            link.sent(sequence, rows.num_rows)
            self._connections.send(link, Frame(Kind.DATA, body, sequence))

    def _ask_for_rest(self) -> None:
        """Ask workers to answer rows that wait for state on disk, once all frames on their way have arrived."""
        owing = self._merger.owing()
        for link in [link for link in self._connections.links.values() if link.worker in owing]:
            if not link.under_way:
                self._merger.asked(link.worker)
                self._connections.send(link, Frame(Kind.DRAIN))

    # -- what the connections hear

    def polled(self, now: float) -> None:
        """Send rows, and tell the controller which units had rows and how long they took."""
        self._send_all()
        if now - self._counted >= ARRIVALS_S:
            self._counted = now
            self._tell_arrivals()
        news = self._news() if self._connections.report_due(now) else None
        if news is not None:
            self._connections.report(now, news)

    def told(self, message: messages.ToFeeder) -> None:
        match message:
            case messages.PauseUnits():
                source = self._connections.links.get(message.source)
                self._splitter.pause(message.move, message.units, marked=source is not None)
                if source is not None:
                    body = packed(messages.MarkedUnits(message.units))
                    self._connections.send(source, Frame(Kind.MARKER, body, message.move))
            case messages.ReleaseUnits():
                self._splitter.arrived(message.move, message.worker)
            case messages.ShedRows():
                self._shedder.set_share(message.share)
            case _:
                super().told(message)

    def _learn(self, directory: messages.KeyedDirectory) -> None:
        choices = two_choices(entry.id for entry in directory.workers) if self._feed.choices else None
        skew = SkewBuffer(directory.owners, self._feed.by_content, choices)
        self._shedder.set_share(directory.shed)
        self._own(skew, self._environment.frame_size(directory.costs, directory.overhead))
        for movement in directory.paused:
            self._splitter.pause(movement.move, movement.units, marked=False)

    def answered(self, link: Link, frame: Frame) -> None:
        """Take what a worker sends back: results, a marker, an error, or that all is durable."""
        if frame.kind is Kind.MARKER:
            self._splitter.echo(frame.sequence)
        elif frame.kind is Kind.END and self._end.awaits(link):
            self._durable(link, frame)
        elif frame.kind is Kind.ERROR and (not frame.sequence or frame.sequence in self._merger):
            raise self._operator_failed(frame)
        else:
            self._size.learn(link.worker, self._merger.answered(link, frame), frame.micros * 1e-6)


@dataclass(frozen=True, slots=True)
class KeyedTask:
    """The function for `mapInArrow`, one feeder for each task; results come as soon as they can."""

    feed: KeyedFeed

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one feeder over one task's rows."""
        return KeyedFeeder(self.feed).serve(batches)
