"""The keyed feeder: sends each row to the worker that owns its unit, and hands the results to Spark.

It lives as long as one task of one micro-batch. Rows wait in the transient-skew buffer, at most SKEW_BYTES of them, and
are sent only to workers with fewer than DEPTH frames to do; while the buffer is full, nothing is taken from Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.errors import EvenflowError, FunctionError, StateLost, StoreError
from evenflow.model import messages
from evenflow.runtime.feeder import keyed_errors
from evenflow.runtime.feeder.connections import Connections, FeederFigures
from evenflow.runtime.feeder.frame_size import FrameSize, serialized
from evenflow.runtime.feeder.hashing import partition_of, with_hashes
from evenflow.runtime.feeder.keyed_end import KeyedEnd
from evenflow.runtime.feeder.keyed_feed import KeyedFeed
from evenflow.runtime.feeder.keyed_merger import KeyedMerger
from evenflow.runtime.feeder.keyed_splitter import KeyedSplitter
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.feeder.skew import Arrivals, SkewBuffer, two_choices
from evenflow.runtime.feeder.task import REAL, Environment, Exchange
from evenflow.runtime.wire.channel import DEEP_BUFFER
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import ENDED, FAILURE

SKEW_BYTES = 2 * 1024 * 1024
"""Rows that wait here at most; what Spark gives in one batch may come on top."""
ARRIVALS_S = 0.1
"""How often the controller is told what came in."""
REORDER_BYTES = 64 * 1024 * 1024
"""With ordered=True: results that wait for earlier ones, at most, before no more rows are taken in. Also: rows kept
here for results that wait for state on a worker's disk."""
LAST_WORDS_S = 1.0
"""How long the controller may take to say why a worker is gone."""


class KeyedFeeder:
    """One task's connections, splitter and merger, and how they go together.

    `arrivals` sees, and may change, what the controller is told of the units that had rows; if not `measured`, it is
    told nothing of what rows cost.
    """

    def __init__(
        self,
        feed: KeyedFeed,
        environment: Environment = REAL,
        *,
        skew_bytes: int = SKEW_BYTES,
        arrivals: Callable[[Arrivals], Arrivals] = lambda arrived: arrived,
        measured: bool = True,
    ) -> None:
        self.identity = environment.identity() | {"mark": feed.mark}
        """Which task of which evaluation this is."""
        if not feed.streaming:  # a batch DataFrame inside a stream: the query's number is there, but is not its own
            self.identity |= {"query": "", "epoch": 0}
        self._feed = feed
        self._environment = environment
        self._clock = clock = environment.clock
        self._skew_bytes = skew_bytes
        self._arrivals = arrivals
        self._measured = measured
        poller = environment.poller(feed.settings.secret, clock, DEEP_BUFFER)
        self._connections = Connections(self, feed.settings, feed.region, poller, clock)
        self._exchange = Exchange(self._connections, clock)
        self._merger = KeyedMerger(pa.ipc.read_schema(pa.py_buffer(feed.schema)), feed.kept, feed.ordered)
        self._own(SkewBuffer(np.zeros(0, np.int32)), environment.frame_size())
        self._counted = 0.0
        """When the controller was last told what came in."""
        self._schema: pa.Schema | None = None
        """Of the rows that go to workers."""
        self._opening: messages.OpenKeyed | None = None
        """What a worker is told of this feeder; None until the controller has said who owns which unit."""
        self._attempt = 0
        """The attempt at the batch; 0 if no state is stored."""
        self._end = KeyedEnd(self._connections, clock)

    def _own(self, skew: SkewBuffer, size: FrameSize) -> None:
        self._skew, self._size = skew, size
        self._splitter = KeyedSplitter(self._connections.links, skew, size)

    def serve(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of a task's rows; afterwards every connection is closed."""
        try:
            yield from self._run(batches)
        except GeneratorExit:
            self._unread()
            raise
        except (FunctionError, StateLost) as error:  # they say all there is to say: no frames of ours around the user's
            raise error.with_traceback(None) from None
        finally:
            self._connections.close()

    def _run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self._feed.streaming and self.identity["stage"] and not self.identity["query"]:
            raise keyed_errors.query_unknown(self._feed.region)
        self._connections.register(self.identity)
        while not self._connections.registered:  # or we would be strangers if the first row is long in coming
            self._connections.wait()
        for batch in self._exchange.pulled(batches, self._settle, self._unread):
            if batch.num_rows:
                yield from self._split(batch)
        yield from self._drain()
        stored = self._feed.settings.checkpoint and self.identity["query"] and self._feed.by_content
        self._end.reach(self._attempt, bool(stored))
        self._leave()

    def _split(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows = with_hashes(batch, self._feed.names, self._feed.key_place, self._feed.modulo)
        self._begin(rows.schema, partition_of(batch))
        self._skew.insert(rows, self._merger.expect(rows.num_rows), self._feed.ordered)
        self._send_all()
        self._connections.poll(0.0)
        yield from self._results()
        while self._skew.bytes >= self._skew_bytes or self._merger.held_bytes >= REORDER_BYTES:
            self._hurry()  # earlier rows may be among those that wait for a frame to be whole
            if self._merger.held_bytes >= REORDER_BYTES:
                self._ask_for_rest()
            self._connections.wait()
            yield from self._results()
        self._splitter.hurry(False)

    def _begin(self, schema: pa.Schema, partition: int) -> None:
        """On the first row: learn who owns what, and connect."""
        if self._schema is None:
            self._schema = pa.schema([schema.field(place) for place in self._feed.sent])
            self.identity["partition"] = partition
            self._connections.tell(messages.FeederBegan(partition))
            while not self._connections.links:
                self._connections.wait()

    def _settle(self) -> None:
        """Send all rows that can be sent: the next ones may be long in coming."""
        self._hurry()
        while self._connections.unsent:
            self._connections.wait()

    def _drain(self) -> Iterator[pa.RecordBatch]:
        """Send the rest of the rows, and wait for all results."""
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
        return self._exchange.handed(self._merger.ready())

    def _unread(self) -> None:
        """Say that Spark wants no more, so that this is not taken for a failure; if nobody hears it, it may be one."""
        with suppress(EvenflowError):
            self._connections.tell(messages.FeederUnread())
            self._leave()

    def _leave(self) -> None:
        self._connections.leave(self._news() if self._measured else None)

    def _news(self) -> FeederFigures:
        return FeederFigures(self._exchange.count(), self._size.overhead)

    def _tell_arrivals(self) -> None:
        if self._opening and self._feed.by_content:
            units, rows = self._arrivals(self._skew.arrivals())
            self._connections.tell(messages.FeederArrivals(units, rows))

    # -- frames out

    def _hurry(self) -> None:
        """Send what there is, in frames that are not whole: no more rows come for now."""
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
        """Have workers answer what waits there for state on disk, once they have taken all that is on its way."""
        owing = self._merger.owing()
        for link in [link for link in self._connections.links.values() if link.worker in owing]:
            if not link.under_way:
                self._merger.asked(link.worker)
                self._connections.send(link, Frame(Kind.DRAIN))

    # -- what the connections hear

    def polled(self, now: float) -> None:
        """Send rows, and tell the controller what came in and what it costs."""
        self._send_all()
        if now - self._counted >= ARRIVALS_S:
            self._counted = now
            self._tell_arrivals()
        if self._measured and self._connections.report_due(now):
            self._connections.report(now, self._news())

    def told(self, message: messages.ToFeeder) -> None:
        """Do what the controller says."""
        match message:
            case messages.KeyedDirectory():
                opening = self._opening or self._learn(message)
                self._connections.meet(message.workers, opening, self._schema)
            case messages.PauseUnits():
                source = self._connections.links.get(message.source)
                self._splitter.pause(message.move, message.units, marked=source is not None)
                if source is not None:
                    self._connections.send(source, Frame(Kind.MARKER, b"", message.move))
            case messages.ReleaseUnits():
                self._splitter.arrived(message.move, message.worker)
            case messages.Loading():
                self._connections.progressed()
            case messages.Committed():
                self._end.commit()
            case messages.EvaluationLost():
                raise keyed_errors.evaluation_lost(self._feed.region, message.reason)

    def _learn(self, directory: messages.KeyedDirectory) -> messages.OpenKeyed:
        """Learn who owns what, and which units are being moved; what workers are told of this feeder."""
        self._attempt = directory.attempt
        choices = two_choices(entry.id for entry in directory.workers) if self._feed.choices else None
        skew = SkewBuffer(directory.owners, self._feed.by_content, choices)
        self._own(skew, self._environment.frame_size(directory.costs, directory.overhead))
        for movement in directory.paused:
            self._splitter.pause(movement.move, movement.units, marked=False)
        self._opening = messages.OpenKeyed(
            operator=self._feed.operator,
            region=self._feed.region,
            evaluation=directory.evaluation,
            feeder=directory.you,
            units=len(directory.owners),
            epoch=self.identity["epoch"],
            attempt=self._attempt,
        )
        return self._opening

    def opened(self, link: Link) -> None:
        """Nothing to do: what waits for the worker is sent after the poll."""

    def answered(self, link: Link, frame: Frame) -> None:
        """Take what a worker sends back: results, a marker, an error, or that all is durable."""
        if frame.kind is Kind.MARKER:
            self._splitter.echo(frame.sequence)
        elif frame.kind is Kind.END and self._end.awaits(link):
            answer = ENDED.read(frame)
            if answer.error:
                text = f"region {self._feed.region}: {link} cannot write to the checkpoint: {answer.error}"
                raise self._told(StoreError(text))
            self._end.durable(link, answer)
        elif frame.kind is Kind.ERROR and (not frame.sequence or frame.sequence in self._merger):
            error = keyed_errors.operator_failed(self._feed.region, self.identity["partition"], FAILURE.read(frame))
            raise self._told(error)
        else:
            self._size.learn(link.worker, self._merger.answered(link, frame), frame.micros * 1e-6)

    def _told(self, error: EvenflowError) -> EvenflowError:
        """Tell the controller what went wrong, so that Spark's retries, which are refused, say the same."""
        self._connections.tell(messages.FeederFailed(str(error)))
        self._leave()
        return error

    def lost(self, link: Link, reason: str) -> None:
        """A worker is gone, and its state with it."""
        deadline = self._clock() + LAST_WORDS_S
        while self._clock() < deadline:  # the controller knows better what happened: let it speak first
            self._connections.hear()
            self._environment.sleep(0.02)
        raise keyed_errors.worker_lost(self._feed.region, link, reason, bool(self._attempt))


@dataclass(frozen=True, slots=True)
class KeyedTask:
    """What `mapInArrow` is given: results come as soon as they can."""

    feed: KeyedFeed

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one feeder over one task's rows."""
        return KeyedFeeder(self.feed).serve(batches)
