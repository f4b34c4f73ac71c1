"""A link: one worker as one feeder sees it. The meter: which of its links a feeder waits for, and how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.model.messages import ConnectionCounts
from evenflow.runtime.feeder.latency_counter import LatencyCounter
from evenflow.runtime.wire.channel import Channel
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
    clock: Callable[[], float] = lambda: 0.0
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
    blocked_s: float = 0.0
    """Seconds for which the splitter has waited for this connection; `Meter` counts them."""
    under_way_s: float = 0.0
    """Seconds that frames were under way, summed over the frames, up to the last `count`."""
    _counted: float = 0.0
    """When that was."""
    _listening: bool = True
    _reported: ConnectionCounts = NOTHING
    _sent_at: dict[int, float] = field(default_factory=dict)
    """When each frame of `under_way` was sent."""
    _latencies: LatencyCounter = field(default_factory=LatencyCounter)

    @property
    def open(self) -> bool:
        """Whether the handshake is done."""
        return self.channel.open

    @property
    def unsent(self) -> int:
        """Bytes queued here that the kernel has not taken yet."""
        return self.channel.unsent

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
        self.count()
        self.channel.reading = self._listening = wanted

    def count(self, away: bool = False) -> None:
        """Count the time of the frames under way, up to now.

        Time in which the feeder was `away`, or left answers in the kernel, says nothing about the worker.
        """
        now = self.clock()
        if self._listening and not away:
            self.under_way_s += len(self.under_way) * (now - self._counted)
        self._counted = now

    def sent(self, sequence: int, rows: int) -> None:
        """Count a frame that goes out."""
        self.count()
        self.under_way[sequence] = rows
        self._sent_at[sequence] = self.clock()
        self.rows_sent += rows
        self.frames_sent += 1

    def withdraw(self, sequence: int) -> None:
        """Forget a frame that was not answered."""
        self.count()
        del self.under_way[sequence]
        self._sent_at.pop(sequence, None)

    def answered(self, sequence: int, seconds: float) -> int:
        """Count a frame that was answered after `seconds` of work; return its rows."""
        self.count()
        rows, now = self.under_way.pop(sequence), self.clock()
        self._latencies.add(now - self._sent_at.pop(sequence, now), rows)
        self.rows_done += rows
        self.frames_done += 1
        self.busy_s += seconds
        return rows

    def news(self) -> ConnectionCounts:
        """The growth of each counter since the last call."""
        before = self._reported
        self.count()
        self._reported = ConnectionCounts(
            blocked_s=self.blocked_s,
            rows_sent=self.rows_sent,
            frames_sent=self.frames_sent,
            rows_done=self.rows_done,
            frames_done=self.frames_done,
            busy_s=self.busy_s,
            under_way_s=self.under_way_s,
        )
        return ConnectionCounts(
            blocked_s=self.blocked_s - before.blocked_s,
            rows_sent=self.rows_sent - before.rows_sent,
            frames_sent=self.frames_sent - before.frames_sent,
            rows_done=self.rows_done - before.rows_done,
            frames_done=self.frames_done - before.frames_done,
            busy_s=self.busy_s - before.busy_s,
            incarnation=self.incarnation,
            under_way_s=self.under_way_s - before.under_way_s,
            latencies=self._latencies.news(),
        )

    def __str__(self) -> str:
        return f"worker {self.worker} (pid {self.pid}, {self.channel.peer})"


class Meter:
    """The blocking time of one splitter, charged to the link it waits for (ordered-regions §3.1).

    A splitter is one thread of control: it waits for one connection, or for none in particular. So one clock runs at
    most, and the blocking of all links together grows by no more than the time that passes. Bytes that a connection has
    not taken yet count as blocking only once the splitter cannot go on because of them.
    """

    __slots__ = ("_link", "_paused", "_since")

    def __init__(self) -> None:
        self._link: Link | None = None
        self._since = 0.0
        self._paused = False

    def wait(self, link: Link | None, now: float) -> None:
        """From `now` on the splitter waits for `link`; None: it works, or waits for no connection in particular."""
        self.charge(now)
        self._link = link

    def charge(self, now: float) -> None:
        """Charge the wait until `now`, which may go on, to the link that is waited for."""
        if self._link is not None and not self._paused:
            self._link.blocked_s += now - self._since
        self._since = now

    def pause(self, now: float) -> None:
        """The task turns to Spark: no connection is to blame for time from now on."""
        self.charge(now)
        self._paused = True

    def resume(self, now: float) -> None:
        """The task is back: it waits for whom it waited before."""
        self.charge(now)
        self._paused = False
