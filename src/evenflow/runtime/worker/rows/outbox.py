"""The outbox: what a worker sends to feeders. A feeder that has just gone gets nothing, and the poller will say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from evenflow.model.messages import RowsDurable
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import packed
from evenflow.runtime.worker.rows.codec import error_body, parts_of

if TYPE_CHECKING:
    from evenflow.runtime.worker.rows.instances import Answer
    from evenflow.runtime.worker.rows.session import Session


class Outbox:
    """Sends results, errors and acknowledgements over the connections of open sessions."""

    def __init__(self, worker: int, sessions: Mapping[Channel, Session]) -> None:
        self._worker = worker
        self._sessions = sessions

    def give(self, answers: Iterable[Answer]) -> None:
        """Send answers to the feeders they are for."""
        for answer in answers:
            self.send(answer, parts_of(answer))

    def send(self, answer: Answer, bodies: list[memoryview], micros: int = 0) -> None:
        """Send an answer that is packed already, with the microseconds that its rows took."""
        channel, sequence = answer.tag
        if channel not in self._sessions:
            return
        told, taken = answer.origin is not None, not answer.last
        with suppress(ConnectionError):
            for place, body in enumerate(bodies):
                more = place + 1 < len(bodies) or taken
                micros_told = 0 if more else micros
                channel.send(Frame(Kind.RESULT, body, sequence, micros_told, more=more, told=told, taken=taken))

    def put_off(self, channel: Channel, sequence: int) -> None:
        """Tell a feeder that rows of its frame wait for state on disk: it may send the next."""
        channel.send(Frame(Kind.RESULT, b"", sequence, more=True, taken=True))

    def answer_end(self, channel: Channel, answer: RowsDurable) -> None:
        """Tell a feeder that its rows are durable or why not."""
        session = self._sessions.get(channel)
        if session is not None:
            if not session.kind.told_units:  # the feeder knows itself which units had rows
                answer = replace(answer, units=answer.units[:0])
            with suppress(ConnectionError):
                channel.send(Frame(Kind.END, packed(answer)))

    def fail(self, channel: Channel, error: BaseException, sequence: int = 0, where: str = "") -> None:
        """Tell a feeder why a frame of its could not be processed; `sequence` is 0 if it is not known which."""
        with suppress(ConnectionError):
            channel.send(Frame(Kind.ERROR, error_body(self._worker, error, where), sequence))
