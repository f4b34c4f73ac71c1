"""The base of feeders for operators with state: how they register, begin, end, and report an error.

A feeder lives as long as one task of one micro-batch. It registers before its first row, since the controller has to
see every task of a batch; with its first row it learns who owns which unit; at its end it waits until its rows are
durable, where state is stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

import pyarrow as pa

from evenflow.errors import EvenflowError, FunctionError, StateLost, StoreError
from evenflow.model import messages
from evenflow.runtime.feeder.connections import Connections, FeederFigures
from evenflow.runtime.feeder.hashing import partition_of
from evenflow.runtime.feeder.keyed import errors as keyed_errors
from evenflow.runtime.feeder.keyed.end import KeyedEnd
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.feeder.task import Environment, Exchange
from evenflow.runtime.wire.channel import DEEP_BUFFER
from evenflow.runtime.wire.frames import Frame
from evenflow.runtime.wire.messages import ENDED, FAILURE
from evenflow.runtime.wire.settings import Settings

Failure = TypeVar("Failure", bound=Exception)

LAST_WORDS_S = 1.0
"""How long the controller may take to say why a worker is gone."""


class StatefulFeeder(ABC):
    """One task's connections, its beginning and its end; subclasses split rows and take results."""

    def __init__(
        self, settings: Settings, region: str, operator: str, streaming: bool, mark: str, environment: Environment
    ) -> None:
        self.identity = environment.identity() | {"mark": mark}
        """Which task of which evaluation this is."""
        if not streaming:  # a batch DataFrame inside a stream: the query's number is there, but is not its own
            self.identity |= {"query": "", "epoch": 0}
        self._settings, self._region, self._operator, self._streaming = settings, region, operator, streaming
        self._environment = environment
        self._clock = clock = environment.clock
        poller = environment.poller(settings.secret, clock, DEEP_BUFFER)
        self._connections = Connections(self, settings, region, poller, clock)
        self._exchange = Exchange(self._connections, clock)
        self._schema: pa.Schema | None = None
        """Of the rows that go to workers; None before the first row."""
        self._opening: messages.OpenKeyed | None = None
        """The message that opens a session with a worker; None until the controller has sent the owners of units."""
        self._attempt = 0
        """The attempt at the batch; 0 if no state is stored."""
        self._end = KeyedEnd(self._connections, clock)
        self._told_why = False
        """Whether the controller knows already why this task fails."""

    def serve(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of a task's rows; afterwards every connection is closed."""
        try:
            yield from self._run(batches)
        except BaseException as error:  # no `finally`: Spark shows users the line that a frame executed last
            self._stop(error)
            if isinstance(error, FunctionError | StateLost):  # these say all there is to say
                raise error.with_traceback(None) from None
            raise
        self._connections.close()

    def _stop(self, error: BaseException) -> None:
        """Tell the controller why there are no more results, and close every connection."""
        try:
            if isinstance(error, GeneratorExit):
                self._unread()
            elif isinstance(error, Exception):
                self._report(error)
        finally:
            self._connections.close()

    def _run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self._streaming and self.identity["stage"] and not self.identity["query"]:
            raise keyed_errors.query_unknown(self._region)
        self._connections.register(self.identity)
        while not self._connections.registered:  # or we would be strangers if the first row is long in coming
            self._connections.wait()
        for batch in self._exchange.pulled(batches, self._settle, self._input_failed):
            if batch.num_rows:
                yield from self._split(batch)
        yield from self._drain()
        self._end.reach(self._attempt, bool(self._settings.checkpoint and self.identity["query"] and self._stored))
        self._leave()

    @property
    def _stored(self) -> bool:
        """Whether state is stored where the cluster has a checkpoint."""
        return True

    @property
    def _report_s(self) -> float:
        """Seconds between two reports of a worker about the region."""
        return messages.REPORT_S

    @abstractmethod
    def _split(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows in; gives results that have come meanwhile."""

    @abstractmethod
    def _drain(self) -> Iterator[pa.RecordBatch]:
        """Send the rest of the rows, and wait for all results."""

    @abstractmethod
    def _settle(self) -> None:
        """Send all rows that can be sent: the next ones may be long in coming."""

    @abstractmethod
    def _news(self) -> FeederFigures | None:
        """The figures for the controller about rows and costs; None if there are none."""

    def _begin(self, schema: pa.Schema, batch: pa.RecordBatch) -> None:
        """On the first row: learn who owns what, and connect."""
        if self._schema is None:
            self._schema = schema
            partition = partition_of(batch)
            self.identity["partition"] = partition
            self._connections.tell(messages.FeederBegan(partition))
            while not self._connections.links:
                self._connections.wait()

    def _input_failed(self) -> None:
        """There is no next batch, because of an error that is not ours: Spark may well run the task again."""
        self._told_why = True
        self._unread()

    def _unread(self) -> None:
        """Tell the controller that Spark wants no more rows, so that it does not take the end for a failure."""
        with suppress(EvenflowError):
            self._connections.tell(messages.FeederUnread())
            self._leave()

    def _leave(self) -> None:
        self._connections.leave(self._news())

    # -- what the connections hear

    def told(self, message: messages.ToFeeder) -> None:
        """Do what the controller says."""
        match message:
            case messages.KeyedDirectory():
                opening = self._opening or self._open(message)
                self._connections.meet(message.workers, opening, self._schema)
            case messages.Loading():
                self._connections.progressed()
            case messages.Committed():
                self._end.commit()
            case messages.EvaluationLost():
                self._told_why = True
                raise keyed_errors.evaluation_lost(self._region, message.reason)

    def _open(self, directory: messages.KeyedDirectory) -> messages.OpenKeyed:
        """Learn who owns what, and which units are being moved; what workers are told of this feeder."""
        self._attempt = directory.attempt
        self._learn(directory)
        self._opening = messages.OpenKeyed(
            operator=self._operator,
            region=self._region,
            evaluation=directory.evaluation,
            feeder=directory.you,
            units=len(directory.owners),
            epoch=self.identity["epoch"],
            attempt=self._attempt,
            version=directory.version,
            move=max((movement.move for movement in directory.paused), default=0),
            report_s=self._report_s,
        )
        return self._opening

    @abstractmethod
    def _learn(self, directory: messages.KeyedDirectory) -> None:
        """Learn who owns what, and which units are being moved."""

    def opened(self, link: Link) -> None:  # noqa: B027 - nothing to do is a fine default
        """Nothing to do: what waits for the worker is sent after the poll."""

    @abstractmethod
    def answered(self, link: Link, frame: Frame) -> None:
        """Handle a frame from a worker."""

    @abstractmethod
    def polled(self, now: float) -> None:
        """All frames of one poll have been handled: do what they allow."""

    def _durable(self, link: Link, frame: Frame) -> messages.RowsDurable:
        """A worker has answered the end: the rows that it had from here are durable."""
        answer = ENDED.read(frame)
        if answer.error:
            text = f"region {self._region}: {link} cannot write to the checkpoint: {answer.error}"
            raise self._failed(StoreError(text))
        self._end.durable(link, answer)
        return answer

    def _operator_failed(self, frame: Frame) -> EvenflowError:
        error = keyed_errors.operator_failed(self._region, self.identity["partition"], FAILURE.read(frame))
        return self._failed(error)

    def _report(self, error: Exception) -> None:
        """See to it that the controller knows why this task fails, if it can be told."""
        if not self._told_why and self._connections.registered:
            with suppress(Exception):  # what went wrong first is what counts
                self._failed(error)

    def _failed(self, error: Failure) -> Failure:
        """Tell the controller what went wrong, so that Spark's retries, which are refused, say the same."""
        self._told_why = True
        self._connections.fail(error, self._news())
        return error

    def lost(self, link: Link, reason: str) -> None:
        """A worker is gone, and its state with it."""
        deadline = self._clock() + LAST_WORDS_S
        while self._clock() < deadline:  # the controller knows better what happened: let it speak first
            self._connections.hear()
            self._environment.sleep(0.02)
        raise keyed_errors.worker_lost(self._region, link, reason, bool(self._attempt))
