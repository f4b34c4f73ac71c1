"""A link: one worker as one feeder sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

from evenflow.model.messages import ConnectionCounts
from evenflow.runtime.wire.channel import Channel

NOTHING = ConnectionCounts()


@dataclass(slots=True, eq=False)
class Link:
    """The channel to a worker, and what went over it."""

    worker: int
    incarnation: int
    pid: int
    channel: Channel
    under_way: dict[int, int] = field(default_factory=dict)
    """Rows of each frame sent and not answered, by sequence."""
    extra: set[int] = field(default_factory=set)
    """Those of them that were sent beside the turns and credits."""
    rows_sent: int = 0
    frames_sent: int = 0
    rows_done: int = 0
    frames_done: int = 0
    busy_s: float = 0.0
    _reported: ConnectionCounts = NOTHING

    def sent(self, sequence: int, rows: int) -> None:
        """A frame went out."""
        self.under_way[sequence] = rows
        self.rows_sent += rows
        self.frames_sent += 1

    def answered(self, sequence: int, seconds: float) -> int:
        """A frame came back after `seconds` of work; its rows."""
        rows = self.under_way.pop(sequence)
        self.rows_done += rows
        self.frames_done += 1
        self.busy_s += seconds
        return rows

    def news(self, now: float) -> ConnectionCounts:
        """What has been added to each counter since the last call."""
        before, blocked_s = self._reported, self.channel.meter.blocked_s(now)
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
