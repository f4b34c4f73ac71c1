"""How many rows a frame has, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.runtime.wire.frames import MAX_BODY

FRAME_S = 0.01
"""Seconds of work in a frame, at least: long against its overhead, short for a person who waits."""
SHARED_FRAME_S = 0.005
"""Seconds of work in a frame, at least, where all workers get frames of one size."""
FRAMES_PER_S = 1000
"""Frames that one feeder handles a second, at most: with many workers, frames are longer."""
SHARED_FRAMES_PER_S = 4000
"""Frames a second, at most, where all workers get frames of one size: longer ones keep a slow worker busy too long."""
GROWTH = 4
"""The next frame may have this many times the rows of the largest that was answered; the first has one row."""
RAMP_S = 0.25
"""Frames that take this many seconds do not grow only to learn the overhead of a call."""
OVERHEAD = 0.2
"""A call's fixed cost should be at most this share of the frame's time."""
FRAME_BYTES = 1024 * 1024
BACKLOG = 64
"""A frame may be this part of the work that waits for its worker: rows that wait for so long do not mind."""
LONGEST_S = 0.04
"""Seconds of work in such a frame, at most: units that leave a worker wait behind its frames."""
FRAMES_PER_REPORT = 2.5
"""Such frames that a worker gets between two of its reports, at least, so that the balance hears of it in time."""


@dataclass(slots=True)
class _Known:
    """The cost of rows at one worker, learned from its answers."""

    cost: float
    """Seconds a row, without the overhead of the call."""
    largest: int
    """Rows of its largest frame."""
    least_s: float
    """Seconds of the quickest frame lately: the overhead of a call is no more."""
    frames: int = 0
    """Frames it has answered to this feeder."""
    last: tuple[int, float] | None = None
    """Rows and seconds of its last frame."""


class FrameSize:
    """How many rows make a frame's worth of work, from the service times that workers report with each result.

    A frame of r rows takes seconds = cost * (r + k): `cost` is the worker's, k the overhead of a call in rows, which is
    the function's and learned from frames of different sizes on one worker. A frame aims at `aim_s(N)`
    seconds on N workers, and at as much more as the overhead needs to be OVERHEAD of it. A worker's cost falls to a
    lower report at once and rises half the way to a higher one: a slow report may be a first call that imported things.

    `rows()` goes by the fastest worker, so that a slow one does not chop everybody's frames; `rows(worker)` goes by
    that worker alone, so that a frame takes the same time on each, however different they are. With rows `waiting` for
    a worker its frames may be longer, a BACKLOG-th of the time that these take, but at most `longest_s`: what a worker
    does for a frame beside its rows takes it some 0.4 ms, and one with a backlog has no idle time for that.
    """

    def __init__(self, costs: Mapping[int, float] | None = None, overhead: float | None = None) -> None:
        self.overhead = overhead
        """k, or None while it is unknown."""
        self._known = {worker: _Known(cost, FRAME_BYTES, inf) for worker, cost in (costs or {}).items()}

    def learn(self, worker: int, rows: int, seconds: float) -> None:
        """Learn from a frame of `rows` rows that took a worker `seconds`."""
        if rows == 0:
            return
        known = self._known.setdefault(worker, _Known(inf, 0, inf))
        self._weigh(known, rows, seconds)
        cost = seconds / (rows + (self.overhead or 0.0))
        known.cost = cost if known.cost == inf else min(cost, (known.cost + cost) / 2)
        known.frames += 1
        known.largest = max(known.largest, rows)
        known.least_s = min(seconds, known.least_s * 1.05)
        known.last = (rows, seconds)

    def forget(self, worker: int) -> None:
        """Forget a worker that is gone."""
        self._known.pop(worker, None)

    def knows(self, worker: int) -> bool:
        """Whether the worker's speed is known."""
        return worker in self._known

    def seconds(self, worker: int, rows: int) -> float:
        """Seconds that a frame should take on a worker; infinite if nothing is known."""
        known = self._known.get(worker) or self._fastest()
        return inf if known is None else known.cost * (rows + (self.overhead or 0.0))

    def rows(self, workers: int, worker: int | None = None, waiting: int = 0, longest_s: float = 0.0) -> int:
        """Rows for the next frame in a region of `workers` workers."""
        known = self._fastest() if worker is None else self._known.get(worker)
        if known is None:
            return 1
        aim = max(aim_s(workers, shared=worker is None), min(waiting * known.cost / BACKLOG, longest_s))
        return max(1, min(self._fit(aim, known), known.largest * GROWTH))

    def settled(self, workers: int, most: int) -> bool:
        """Whether frames have grown to their full size, or to `most` rows; until then few should be under way."""
        known = self._fastest()
        return known is not None and min(self._fit(aim_s(workers, True), known), most) <= known.largest * GROWTH

    def _fastest(self) -> _Known | None:
        return min(self._known.values(), key=lambda known: known.cost, default=None)

    def _fit(self, aim: float, known: _Known) -> int:
        if self.overhead is None:
            if known.frames == 1 or (known.last is not None and known.last[1] < RAMP_S):
                return known.largest * GROWTH
            return int(aim / max(known.cost, 1e-9))
        call = min(self.overhead * known.cost, known.least_s)
        return int(max(aim, call * (1 / OVERHEAD - 1)) / max(known.cost, 1e-9))

    def _weigh(self, known: _Known, rows: int, seconds: float) -> None:
        """Learn k from two frames in a row of which the second is much larger."""
        if known.last is None or rows < 2 * known.last[0]:
            return
        before, took = known.last
        slope = (seconds - took) / (rows - before)
        most = float(GROWTH * rows)  # from frames of this size no more can be concluded
        overhead = min(most, max(0.0, took / slope - before)) if slope > 0 else most
        self.overhead = overhead if self.overhead is None else (self.overhead + overhead) / 2


def serialized(batch: pa.RecordBatch, what: str, where: str) -> memoryview:
    """The body of a frame with the rows of a batch; if it is too large, `what` and `where` are for the message."""
    body = memoryview(batch.serialize())
    if body.nbytes > MAX_BODY:
        raise ProtocolError(
            f"{what} take {body.nbytes} bytes, over the {MAX_BODY} bytes a frame can hold: "
            f"split such values before they reach {where}"
        )
    return body


def longest_s(report_s: float) -> float:
    """Seconds of work in a frame for a worker with a backlog, at most, if workers report every `report_s` seconds."""
    return min(LONGEST_S, report_s / FRAMES_PER_REPORT)


def aim_s(workers: int, shared: bool = False) -> float:
    """Seconds of work a frame should be in a region of `workers` workers; `shared`: one size for all of them."""
    if shared:
        return max(SHARED_FRAME_S, workers / SHARED_FRAMES_PER_S)
    return max(FRAME_S, workers / FRAMES_PER_S)
