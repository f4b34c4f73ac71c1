"""The keyed feeder: sends each row to the worker that owns its unit, and hands the results to Spark.

It lives as long as one task of one micro-batch. Rows wait in the transient-skew buffer, at most SKEW_BYTES of them, and
are sent only to workers with fewer than DEPTH frames to do; while the buffer is full, nothing is taken from Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import EvenflowError, FunctionError, ProtocolError, StateLost, StoreError
from evenflow.model.messages import (
    Committed,
    EvaluationLost,
    FeederArrivals,
    FeederBegan,
    FeederDraining,
    FeederEnded,
    FeederFailed,
    FeederUnread,
    KeyedDirectory,
    Loading,
    OpenKeyed,
    PauseUnits,
    ReleaseUnits,
    RowsDurable,
    ToFeeder,
    WorkerAddress,
)
from evenflow.runtime.feeder.connections import Feeding
from evenflow.runtime.feeder.frame_size import FrameSize
from evenflow.runtime.feeder.hashing import partition_of, with_hashes
from evenflow.runtime.feeder.keyed_merger import KeyedMerger, Sent
from evenflow.runtime.feeder.keyed_splitter import KeyedSplitter
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.feeder.skew import Piece, SkewBuffer
from evenflow.runtime.wire.channel import DEEP_BUFFER, PeerGone
from evenflow.runtime.wire.frames import MAX_BODY, Frame, Kind
from evenflow.runtime.wire.messages import ENDED, FAILURE
from evenflow.runtime.wire.settings import Settings

if TYPE_CHECKING:
    from evenflow.runtime.feeder.two_choices import TwoChoices

DEPTH = 2
"""Frames outstanding a worker: one at work, one at hand when that is done."""
SKEW_BYTES = 2 * 1024 * 1024
"""Rows that wait here at most; what Spark gives in one batch may come on top."""
WHOLE_ROWS = 12_000
"""As long as Spark gives rows, frames wait until they have as many, or as many as are worth a frame by their cost:
a worker spends as much on a frame of 3,000 cheap rows as on the rows themselves."""
ARRIVALS_S = 0.1
"""The controller is told what came in this often."""
REORDER_BYTES = 64 * 1024 * 1024
"""With ordered=True: results that wait for earlier ones, at most, before no more rows are taken in. Also: rows kept
here for results that wait for state on a worker's disk."""
FAILED = "the operator of region"
"""How the reason begins where it is the user's code that has failed."""


class KeyedFeeder(Feeding):
    """One task's splitter and merger, and their connections."""

    def __init__(self, settings: Settings, feed: KeyedFeed, schema: pa.Schema) -> None:
        super().__init__(settings, feed.region, DEEP_BUFFER)
        if not feed.streaming:  # a batch DataFrame inside a stream: the query's number is there, but is not its own
            self._identity |= {"query": "", "epoch": 0}
        self._identity["mark"] = feed.mark
        self._feed = feed
        self._merger = KeyedMerger(schema, feed.kept, feed.ordered)
        self._splitter: KeyedSplitter | None = None
        self._peer = self._units = self._attempt = 0
        self._evaluation = ""
        self._ending: set[int] = set()
        """Workers that have not said yet that all is durable."""
        self._segments: dict[str, int] = {}
        self._committed = False
        self._asked: set[int] = set()
        """Workers that have been asked to answer all they have taken."""
        self._sequence = 0
        self._hurried = False
        self._chunks = 0
        self._counted = 0.0

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of all rows."""
        if self._feed.streaming and self._identity["stage"] and not self._identity["query"]:
            raise StateLost(
                f"region {self._region}: a streaming DataFrame is evaluated in a thread that does not know its query, "
                "so it cannot be told which state it belongs to: in foreachBatch, use pyspark.InheritableThread, or "
                "pyspark.inheritable_thread_target, for threads of your own"
            )
        self._call_controller()
        assert self._controller is not None
        while not self._controller.open:  # or it would take us for a stranger if the first row is long in coming
            self._wait()
        for batch in self._pulled(iter(batches)):
            if batch.num_rows:
                rows = with_hashes(batch, self._feed.names, self._feed.key_place, self._feed.modulo)
                skew = self._begin(rows.schema, partition_of(batch))
                if self._merger.reorder is not None:
                    self._merger.reorder.expect(self._chunks, rows.num_rows)
                skew.insert(rows, self._chunks, self._feed.ordered)
                self._chunks += 1
                self._send_all()
                self._poll(0.0)
                yield from self._results()
                while skew.bytes >= SKEW_BYTES or self._merger.held_bytes >= REORDER_BYTES:
                    self._hurry()  # earlier rows may be among those that wait for a frame to be whole
                    if self._merger.held_bytes >= REORDER_BYTES:
                        self._ask_for_rest()
                    self._wait()
                    yield from self._results()
                self._hurried = False
        if self._splitter is not None:
            self._hurry()
            self._tell_arrivals()
            self._tell_controller(FeederDraining())
        while self._splitter is not None and (self._splitter.skew.rows or self._merger.frames):
            if not self._splitter.skew.rows:
                self._ask_for_rest()
            self._wait()
            yield from self._results()
        yield from self._results()  # what came while the input was waited for
        self._end()

    def unread(self) -> None:
        """Say that Spark wants no more, so that this is not taken for a failure; if nobody hears it, it may be one."""
        with suppress(EvenflowError):
            self._tell_controller(FeederUnread())
            self._leave()

    def _end(self) -> None:
        """Say that all is through. With a store, not before all of it is durable, and noted as such."""
        began = time.perf_counter()
        for link in list(self._links.values()) if self._attempt else ():
            self._ending.add(link.worker)
            self._send_frame(link, Frame(Kind.END))
        while self._ending:
            self._wait()
        self._tell_controller(FeederEnded(self._segments, time.perf_counter() - began))
        while self._stored and not self._committed:
            self._wait()
        self._leave()

    @property
    def _stored(self) -> bool:
        """Whether the state is kept in a store: then a task without rows, too, may be the last to end of its batch."""
        return bool(self._settings.checkpoint and self._identity["query"] and self._feed.by_content)

    def _results(self) -> Iterator[pa.RecordBatch]:
        return self._yielded(self._merger.ready())

    # -- rows out

    def _begin(self, schema: pa.Schema, partition: int) -> SkewBuffer:
        """On the first row: learn who owns what, and connect."""
        if self._splitter is None:
            self._input_schema = pa.schema([schema.field(place) for place in self._feed.sent])
            self._identity["partition"] = partition
            self._tell_controller(FeederBegan(partition))
            while not self._links:
                self._wait()
            assert self._splitter is not None
        return self._splitter.skew

    def _ask_for_rest(self) -> None:
        """Have workers answer what waits there for state on disk, once they have taken all that is on its way."""
        owing = {sent.link.worker for sent in self._merger.frames.values() if sent.taken}
        for link in [link for link in self._links.values() if link.worker in owing - self._asked]:
            if not link.under_way:
                self._asked.add(link.worker)
                self._send_frame(link, Frame(Kind.DRAIN))

    def _hurry(self) -> None:
        """Send what there is, in frames that are not whole: no more rows come for now."""
        self._hurried = True
        self._send_all()

    def _send_all(self) -> None:
        """Send what can be sent: to each worker that has room, rows of units it owns."""
        splitter = self._splitter
        if splitter is None:
            return
        for link in list(self._links.values()):
            while link.channel.open and len(link.under_way) < DEPTH:
                most = self._size.rows(len(self._links), link.worker)
                if splitter.skew.waiting(link.worker) < (1 if self._hurried else min(most, WHOLE_ROWS)):
                    break
                for pieces in splitter.frames(link.worker, most):
                    self._send(link, pieces)

    def _send(self, link: Link, pieces: list[Piece]) -> None:
        chosen = [piece.rows.select(self._feed.sent) for piece in pieces]
        rows = chosen[0] if len(chosen) == 1 else pa.concat_batches(chosen)
        body = memoryview(rows.serialize())
        if body.nbytes > MAX_BODY:
            raise ProtocolError(
                f"{rows.num_rows} rows of partition {self._identity['partition']} take {body.nbytes} bytes, over the "
                f"{MAX_BODY} bytes a frame can hold: split such values before they reach keyed"
            )
        self._sequence += 1
        self._merger.frames[self._sequence] = Sent(link, pieces)
        link.sent(self._sequence, rows.num_rows)
        self._send_frame(link, Frame(Kind.DATA, body, self._sequence))

    def _send_frame(self, link: Link, frame: Frame) -> None:
        try:
            link.channel.send(frame)
        except PeerGone as error:
            self._drop(link, str(error))

    # -- results in

    def _answer(self, link: Link, frame: Frame) -> None:
        if frame.kind is Kind.MARKER and self._splitter is not None:
            self._splitter.echo(frame.sequence)
            return
        if frame.kind is Kind.END and link.worker in self._ending:
            self._ended(link, ENDED.read(frame))
            return
        sent = self._merger.frames.get(frame.sequence)
        if frame.kind is Kind.ERROR and (sent is not None or not frame.sequence):
            raise self._operator_error(frame)
        if frame.kind is not Kind.RESULT or sent is None or sent.link is not link:
            raise ProtocolError(f"{link} sent a {frame.kind.name} frame for sequence {frame.sequence}, unasked")
        if frame.taken and not sent.taken:  # its worker may have the next frame
            link.answered(frame.sequence, 0.0)
            self._asked.discard(link.worker)
            self._merger.take(sent)
        elif not frame.more and not sent.taken:
            seconds = frame.micros * 1e-6
            self._size.learn(link.worker, link.answered(frame.sequence, seconds), seconds)
        part = self._read_result(link, frame, self._merger.schemas[frame.told]) if len(frame.body) else None
        self._merger.add(frame.sequence, part, frame.told, last=not frame.more)

    def _ended(self, link: Link, answer: RowsDurable) -> None:
        """A worker has made all rows durable that it had from here, or cannot."""
        if answer.error:
            text = f"region {self._region}: {link} cannot write to the checkpoint: {answer.error}"
            self._tell_controller(FeederFailed(text))
            self._leave()
            raise StoreError(text)
        self._ending.discard(link.worker)
        if answer.segments:
            self._segments[answer.writer] = answer.segments

    def _operator_error(self, frame: Frame) -> FunctionError:
        """What went wrong; the controller is told too, so that Spark's retries, which are refused, say the same."""
        report = FAILURE.read(frame)
        where = f" ({report.where})" if report.where else ""
        text = (
            f"{FAILED} {self._region} failed on worker {report.worker}{where}, in partition "
            f"{self._identity['partition']}: {report.error}\n{report.traceback}"
        )
        self._tell_controller(FeederFailed(text))
        self._leave()
        return FunctionError(text)

    # -- connections

    def _obey(self, message: ToFeeder) -> None:
        match message:
            case KeyedDirectory():
                self._learn(message)
            case PauseUnits():
                assert self._splitter is not None
                source = self._links.get(message.source)
                self._splitter.pause(message.move, message.units, source is not None)
                if source is not None:
                    self._send_frame(source, Frame(Kind.MARKER, b"", message.move))
            case ReleaseUnits() if self._splitter is not None:
                self._splitter.arrived(message.move, message.worker)
            case Loading():
                self._progress = time.perf_counter()
            case Committed():
                self._committed = True
            case EvaluationLost():
                ours = not message.reason.startswith(FAILED)
                raise (StateLost if ours else FunctionError)(f"region {self._region}: {message.reason}")
            case _:
                super()._obey(message)

    def _learn(self, directory: KeyedDirectory) -> None:
        if self._splitter is None:
            self._peer, self._attempt, self._evaluation = directory.you, directory.attempt, directory.evaluation
            self._size = FrameSize(directory.costs, directory.overhead)
            self._units = len(directory.owners)
            skew = SkewBuffer(directory.owners, self._feed.by_content, self._choices(directory.workers))
            self._splitter = KeyedSplitter(skew)
            for movement in directory.paused:
                self._splitter.pause(movement.move, movement.units, marked=False)
        self._meet(directory.workers)

    def _choices(self, workers: Iterable[WorkerAddress]) -> TwoChoices | None:
        """How rows of one key are split between two of the workers, if they are."""
        if not self._feed.choices:
            return None
        from evenflow.runtime.feeder.two_choices import TwoChoices  # numba comes with it: only those who use it pay

        return TwoChoices(entry.id for entry in workers)

    def _opening(self) -> OpenKeyed:
        return OpenKeyed(
            operator=self._feed.operator,
            region=self._region,
            evaluation=self._evaluation,
            feeder=self._peer,
            units=self._units,
            epoch=self._identity["epoch"],
            attempt=self._attempt,
        )

    def _after_poll(self, now: float) -> None:
        self._send_all()
        if now - self._counted >= ARRIVALS_S:
            self._counted = now
            self._tell_arrivals()

    def _tell_arrivals(self) -> None:
        if self._splitter is not None and self._feed.by_content:
            units, rows = self._arrivals()
            self._tell_controller(FeederArrivals(units, rows))

    def _arrivals(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Units with rows since this was last asked, and how many."""
        assert self._splitter is not None
        return self._splitter.skew.arrivals()

    def _drop(self, link: Link, reason: str) -> None:
        """A worker is gone, and its state with it."""
        self._poller.drop(link.channel)
        del self._by_channel[link.channel], self._links[link.worker]
        deadline = time.perf_counter() + 1.0
        while time.perf_counter() < deadline:  # the controller knows better what happened: let it speak first
            self._hear_controller()
            time.sleep(0.02)
        raise StateLost(
            f"region {self._region} lost {link} ({reason}) and the state it held. "
            + (
                "The batch has to be run again: start the query again, or have evenflow.supervise do it"
                if self._attempt
                else "Without a checkpoint that cannot be brought back: start the query again from the beginning"
            )
        )


@dataclass(frozen=True, slots=True)
class KeyedFeed:
    """What `mapInArrow` is given: everything a keyed feeder needs, picklable."""

    settings: Settings
    region: str
    operator: str
    schema: bytes
    by_content: bool
    ordered: bool
    names: tuple[str, ...]
    """Of the columns as workers get them, the hash of the key last."""
    streaming: bool = True
    key_place: int | None = None
    """The place of the key among the columns if the feeder is to hash it; None if Spark has."""
    reads: tuple[int, ...] | None = None
    """The places of the columns that the operator reads; None for all."""
    kept: int = 0
    """So many columns stay here and come before those that workers send back."""
    choices: int = 0
    """If not `by_content`: 2 if the key names two workers that rows may go to, 0 if any will do."""
    modulo: bool = False
    """Whether the key, a whole number, stands for its hash."""
    mark: str = ""
    """By this its code is told from that of any other operator: see `stages`."""

    @property
    def sent(self) -> list[int]:
        """The places of the columns that workers get, the hash of the key last."""
        last = len(self.names) - 1
        return [*(range(last) if self.reads is None else self.reads), last]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one feeder over one task's rows."""
        return KeyedFeeder(self.settings, self, pa.ipc.read_schema(pa.py_buffer(self.schema))).serve(batches)
