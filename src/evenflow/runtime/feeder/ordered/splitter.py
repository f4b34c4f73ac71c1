"""The ordered splitter: which worker gets which rows, and which frames have to be sent again.

A frame may be sent again: when its worker is lost, and, under credits, when it is long overdue while results behind it
wait. The function is stateless, so the first answer counts. Nothing here touches a socket: the feeder sends what this
gives out, and says what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.model.routing import Splitting
from evenflow.runtime.feeder.frame_size import FRAME_BYTES, FrameSize, aim_s, serialized
from evenflow.runtime.feeder.link import DEPTH, Link, Meter
from evenflow.runtime.feeder.ordered.routes import ROUTES, Route

RESEND_S = 0.1
"""Frames of a lost worker wait this long for another: an executor takes all its workers with it, not all at once."""
LOSSES = 2
"""A frame that was lost with this many workers is taken to be the cause."""


@dataclass(frozen=True, slots=True)
class FeederLimits:
    """Bounds on the rows and results that an ordered feeder holds."""

    frame_bytes: int = FRAME_BYTES
    """Bytes of rows in a frame, about."""
    window_bytes: int = 64 * 1024 * 1024
    """Bytes of rows that were sent and are not answered."""
    reorder_bytes: int = 64 * 1024 * 1024
    """Bytes of results that wait for earlier ones."""
    overdue: float = 5
    """Under credits, a frame that takes this many times the usual delay is given to another worker as well."""


LIMITS = FeederLimits()


@dataclass(slots=True)
class Span:
    """The rows of one frame that is not answered."""

    first: int
    """The number of its first row in the partition."""
    rows: int
    body: memoryview
    began: float = 0.0
    """When the first of the workers that have it got it."""
    sent_at: float = 0.0
    """When the last of them did."""
    losses: int = 0
    """Workers that were at this frame when they were lost."""
    tried: set[int] = field(default_factory=set)
    """Workers that have it."""

    def __str__(self) -> str:
        return f"rows {self.first} to {self.first + self.rows - 1}"


class OrderedSplitter:
    """Keeps the frames of one feeder until their first answer is complete, and sends them over `links`."""

    def __init__(
        self,
        links: Mapping[int, Link],
        splitting: Splitting,
        size: FrameSize,
        meter: Meter,
        clock: Callable[[], float],
        limits: FeederLimits = LIMITS,
    ) -> None:
        self._size = size
        self._links = links
        self._meter = meter
        self._clock = clock
        self._limits = limits
        self._route: Route = ROUTES[splitting](links)
        self._weights: dict[int, int] = {}
        self._spans: dict[int, Span] = {}
        """By sequence, oldest first."""
        self._again: dict[int, float] = {}
        """Sequences to be sent to another worker, and from when on."""
        self._bytes = self._row = self._sequence = 0
        self._round_trip_s = 0.0
        self._resent = self._rerouted = 0

    @property
    def overhead(self) -> float | None:
        """The overhead of a call, in rows; None if it is not known."""
        return self._size.overhead

    def use(self, size: FrameSize) -> None:
        """Use another frame size: the controller has told what rows cost."""
        self._size = size

    # -- workers come and go

    def set_weights(self, weights: Mapping[int, int] | None = None) -> None:
        """Take new weights; without any, spread the old ones over the links that are there now."""
        if weights is not None:
            self._weights = dict(weights)
        self._route.set_weights(self._weights)

    def opened(self, link: Link) -> None:
        """A worker can be sent rows."""
        self._route.opened(link, self._size.knows(link.worker))

    def lost(self, link: Link) -> Span | None:
        """Give a lost worker's frames to others; returns rows that have been lost too often."""
        self._route.dropped(link)
        self._size.forget(link.worker)
        suspect = next(iter(link.under_way), None)  # a worker takes frames in order: this is the one it was at
        for sequence, span in self._spans.items():
            if link.worker not in span.tried:
                continue
            span.tried.remove(link.worker)
            if span.tried:
                continue  # others have it too
            span.losses += sequence == suspect
            if span.losses >= LOSSES:
                return span
            self._again[sequence] = self._clock() + RESEND_S
        return None

    # -- frames out

    def next(self, most: int, unmerged: int, full: bool = False) -> Link | None:
        """The link for the next frame, of `most` rows at most; None to wait.

        `unmerged`: frames not handed on yet; `full`: their results take all the room there is. Only a wait for one
        connection's room is that connection's.
        """
        count = len(self._links)
        held = full or self._bytes >= self._limits.window_bytes
        if not self._route.by_worker and unmerged >= count and not self._size.settled(count, most):
            held = True  # one frame each until it is known what a row costs
        link = None if held else self._route.next()
        self._meter.wait(None if held else self._route.blocker, self._clock())
        return link

    def settling(self) -> bool:
        """Whether frames have not gone out whole: then the splitter waits for the connection that has the oldest."""
        behind = [link for link in self._links.values() if link.unsent]
        self._meter.wait(min(behind, key=lambda link: max(link.under_way, default=-1), default=None), self._clock())
        return bool(behind)

    def rows(self, link: Link) -> int:
        """Rows that make a frame for a worker."""
        return self._size.rows(len(self._links), link.worker if self._route.by_worker else None)

    def add(self, batch: pa.RecordBatch) -> int:
        """Make a frame of the next rows; its sequence."""
        first, rows = self._row, batch.num_rows
        body = serialized(batch, f"rows {first} to {first + rows - 1}", "ordered_map")
        sequence = self._sequence
        self._spans[sequence] = Span(first, rows, body)
        self._sequence += 1
        self._row += rows
        self._bytes += body.nbytes
        return sequence

    def sent(self, link: Link, sequence: int) -> memoryview:
        """Note that a frame goes to a worker now; its body."""
        span = self._spans[sequence]
        span.sent_at = self._clock()
        span.began = span.began if span.tried else span.sent_at
        span.tried.add(link.worker)
        link.sent(sequence, span.rows)
        return span.body

    def unsent(self, link: Link, sequence: int) -> None:
        """The connection was over before the frame could go: the worker is not to blame for it."""
        link.withdraw(sequence)

    def copy(self) -> tuple[Link, int] | None:
        """A frame to be sent again, and to whom: the worker with least to do, beside its turn or its credits."""
        if not self._again:
            return None
        now = self._clock()
        open_ones = [link for link in self._links.values() if link.open]
        for sequence in [sequence for sequence, due in self._again.items() if due <= now]:
            span = self._spans.get(sequence)
            others = [link for link in open_ones if span and link.worker not in span.tried]
            link = min(others, key=lambda link: len(link.under_way), default=None)
            if link is not None and len(link.under_way) > DEPTH:
                return None
            if span is None or open_ones:  # answered meanwhile; or every worker has a copy already
                del self._again[sequence]
            if link is not None:
                link.extra.add(sequence)
                self._resent += 1
                return link, sequence
        return None

    def find_overdue(self) -> None:
        """Under credits: have frames that are long overdue sent again.

        The k-th copy of a frame goes out when the last one is late by `overdue` ** k times what is usual: a worker that
        is stuck costs little time, a row that takes ages everywhere does not occupy everybody.
        """
        if not self._route.by_worker:
            return
        now = self._clock()
        usual = max(aim_s(len(self._links)), self._round_trip_s)
        for sequence, span in self._spans.items():
            expected = max([usual, *(self._size.seconds(worker, span.rows) for worker in span.tried)])
            if span.tried and now - span.sent_at > self._limits.overdue ** len(span.tried) * expected:
                self._again.setdefault(sequence, now)

    # -- answers in

    def unanswered(self, sequence: int) -> Span | None:
        """The rows of a frame, unless somebody has answered it."""
        return self._spans.get(sequence)

    def answered(self, link: Link, sequence: int, seconds: float) -> None:
        """A worker has answered a frame, after `seconds` of work."""
        self._size.learn(link.worker, link.answered(sequence, seconds), seconds)
        self._earn(link, sequence)
        span = self._spans.pop(sequence, None)
        if span is not None:
            self._bytes -= span.body.nbytes
            # late ones count, too: where all are, since other regions have come, that is what is usual
            self._round_trip_s += (self._clock() - span.began - self._round_trip_s) / 16

    def failed(self, link: Link, sequence: int) -> None:
        """A worker could not process a frame that another has answered."""
        link.withdraw(sequence)
        self._earn(link, sequence)

    def _earn(self, link: Link, sequence: int) -> None:
        """Give a worker its turn or credit back; a copy was sent without, and earns none."""
        if sequence in link.extra:
            link.extra.discard(sequence)
        else:
            self._route.answered(link)

    def news(self) -> tuple[int, int]:
        """How many frames were sent again, and how many rerouted, since the last call."""
        news = self._resent, self._route.rerouted - self._rerouted
        self._resent, self._rerouted = 0, self._route.rerouted
        return news
