"""A link: one worker as one feeder sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

from evenflow.runtime.wire.channel import Channel


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
    _reported: dict[str, float] = field(default_factory=dict)

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

    def news(self, now: float) -> dict[str, float]:
        """What has been added to each counter since the last call."""
        counts = {
            "blocked_s": self.channel.meter.blocked_s(now),
            "rows_sent": self.rows_sent,
            "frames_sent": self.frames_sent,
            "rows_done": self.rows_done,
            "frames_done": self.frames_done,
            "busy_s": self.busy_s,
        }
        news = {name: value - self._reported.get(name, 0) for name, value in counts.items()}
        self._reported = counts
        return news | {"incarnation": self.incarnation}

    def __str__(self) -> str:
        return f"worker {self.worker} (pid {self.pid}, {self.channel.peer})"
