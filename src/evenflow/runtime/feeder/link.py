"""A link: one worker as one feeder sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.model.messages import ConnectionCounts
from evenflow.runtime.wire.channel import Channel, Meter
from evenflow.runtime.wire.frames import Frame

NOTHING = ConnectionCounts()
DEPTH = 2
"""Frames a worker has at most where frames are counted out: one at work, one at hand when that is done."""


@dataclass(slots=True, eq=False)
class Link:
    """The connection to one worker, and counts of what went over it."""

    worker: int
    incarnation: int
    pid: int
    channel: Channel
    under_way: dict[int, int] = field(default_factory=dict)
    """Frames sent and not answered, oldest first: sequence -> rows."""
    extra: set[int] = field(default_factory=set)
    """Sequences of copies: sent out of turn, without spending a credit."""
    rows_sent: int = 0
    frames_sent: int = 0
    rows_done: int = 0
    frames_done: int = 0
    busy_s: float = 0.0
    """Seconds of work that the worker has reported."""
    _reported: ConnectionCounts = NOTHING

    @property
    def open(self) -> bool:
        """Whether the handshake is done."""
        return self.channel.open

    @property
    def unsent(self) -> int:
        """Bytes queued here that the kernel has not taken yet."""
        return self.channel.unsent

    @property
    def meter(self) -> Meter:
        """How long the connection has kept this feeder waiting."""
        return self.channel.meter

    def send(self, frame: Frame) -> None:
        """Queue a frame; raises `PeerGone` if the connection is over."""
        self.channel.send(frame)

    def read(self, frame: Frame, schema: pa.Schema) -> pa.RecordBatch:
        """The rows in a RESULT frame from this worker."""
        try:
            return pa.ipc.read_record_batch(pa.py_buffer(frame.body), schema)
        except (pa.ArrowException, OSError, EOFError) as error:
            raise ProtocolError(f"{self} sent rows that do not fit the schema: {error}") from None

    def listen(self, wanted: bool) -> None:
        """Read what the worker sends, or leave it in the kernel for now."""
        self.channel.reading = wanted

    def sent(self, sequence: int, rows: int) -> None:
        """Count a frame that goes out."""
        self.under_way[sequence] = rows
        self.rows_sent += rows
        self.frames_sent += 1

    def answered(self, sequence: int, seconds: float) -> int:
        """Count a frame that was answered after `seconds` of work; return its rows."""
        rows = self.under_way.pop(sequence)
        self.rows_done += rows
        self.frames_done += 1
        self.busy_s += seconds
        return rows

    def news(self, now: float) -> ConnectionCounts:
        """What each counter has grown by since the last call."""
        before, blocked_s = self._reported, self.meter.blocked_s(now)
        sent, done = (self.rows_sent, self.frames_sent), (self.rows_done, self.frames_done)
        self._reported = ConnectionCounts(blocked_s, *sent, *done, self.busy_s)
        return ConnectionCounts(
            blocked_s=blocked_s - before.blocked_s,
            rows_sent=self.rows_sent - before.rows_sent,
            frames_sent=self.frames_sent - before.frames_sent,
            rows_done=self.rows_done - before.rows_done,
            frames_done=self.frames_done - before.frames_done,
            busy_s=self.busy_s - before.busy_s,
            incarnation=self.incarnation,
        )

    def __str__(self) -> str:
        return f"worker {self.worker} (pid {self.pid}, {self.channel.peer})"
