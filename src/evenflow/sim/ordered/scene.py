"""What an ordered region is like in the simulator: workers, hosts, loads, buffers, and what rows cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

from evenflow.errors import InvalidArgument
from evenflow.model.given import check_wholes, number_of, whole_of

MOST_FRAMES = 1 << 20
"""Frames that one feeder may have under way and in its merger."""
MOST_IN_ALL = 1 << 24
"""Frames that all feeders may have so together: each takes some 50 bytes of the simulator's memory."""
MOST_WORKERS = 1 << 16
"""Workers, and feeders."""
MOST_ROWS = 1 << 62
LEAST_ROW_S = 1e-9
"""Below that, the virtual clock would hardly go on."""
MOST_MERGING = 1 << 16
"""Frames in a merger, unless more rows than REORDER_ROWS are asked for; a splitter waits when there are as many."""
REORDER_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """Load on a worker: rows take `factor` times as long.

    It lasts from second `begin_s` to second `end_s`, and only for the rows before row `end_row` of each feeder, if that
    is not 0. A frame that has begun is finished at the speed at which it began. Several loads are multiplied.
    """

    worker: int
    factor: float
    begin_s: float = 0.0
    end_s: float = inf
    end_row: int = 0
    whole: bool = False
    """Whether all work of the worker takes longer, as on a slower machine; else only `row_s`."""


@dataclass(frozen=True, slots=True)
class OrderedScene:
    """An ordered region and the machines that it runs on. The defaults are those of the live engine.

    A frame of r rows takes its worker (call_s + r * (row_s * load + row_overhead_s)) / speed seconds, give or take
    `jitter` of that. Splitters take send_s + r * send_row_s for it.
    """

    workers: int
    row_s: float = 1e-4
    """Seconds of work in a row, on a worker of speed 1 without load."""
    row_overhead_s: float = 0.0
    """Seconds that a row takes beside that, and which no load makes longer that is not whole: to receive it and to send
    its result."""
    call_s: float = 0.0
    """Seconds that a worker takes for a frame beside its rows."""
    jitter: float = 0.02
    """Service times vary by this share of themselves, evenly, to both sides."""
    speeds: tuple[float, ...] = ()
    """Of the workers; empty: all 1."""
    loads: tuple[WorkerLoad, ...] = ()
    hosts: tuple[int, ...] = ()
    """The host of each worker, from 0 on; empty: each has one of its own."""
    threads: tuple[int, ...] = ()
    """Hardware threads of each host; busy workers beyond that share them. Empty: one for each worker."""
    feeders: int = 1
    rows: int = 0
    """Rows that each feeder has; 0: without end."""
    rate: float = 0.0
    """Rows that come to each feeder a second; 0: there are always some."""
    send_s: float = 5e-5
    send_row_s: float = 0.0
    frame_rows: int = 0
    """Rows in a frame; 0: frames are sized as the live feeder sizes them."""
    most_rows: int = 10_000
    """Rows in a frame, at most: Spark's record batches end there."""
    window: int = 2
    """Frames that may be unanswered on a connection; 0: as many as its buffers hold."""
    send_buffer: int = 0
    """Rows that the feeder's side of a connection buffers; 0 for both sides: no bound beside `window`."""
    receive_buffer: int = 0
    """Rows that the worker's side of a connection buffers, beside the frame that the worker is at."""
    result_buffer: int = 10_000
    """Rows of results that a connection to the merger buffers while the merger does not read it."""
    reorder_rows: int = REORDER_ROWS
    """Rows of results that wait in a merger, at most; splitters wait, too, when there are as many. 0: a merger that
    reads nothing but the connection that has what comes next, and never stops its splitter."""
    delay_s: float = 0.0
    """Seconds that a frame, or its result, is under way in the network."""
    seed: int = 1

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_places()
        if self.frame_rows > self.most_rows:
            self._refuse("frame_rows", self.frame_rows, f"give at most most_rows, {self.most_rows}")
        if not self.window and not self.buffer:
            self._refuse("window", 0, "without a window give send_buffer or receive_buffer: buffers have a limit")
        if not self.window and not self.frame_rows:
            self._refuse("frame_rows", 0, "frames are sized by their answers, which needs a window")
        if self.frames_at_once > MOST_FRAMES:
            what = f"would let {self.frames_at_once} frames be under way at once, over {MOST_FRAMES}"
            raise InvalidArgument(f"the buffers of {self.workers} workers {what}: make them smaller, or frames larger")
        if self.frames_at_once * self.feeders > MOST_IN_ALL:
            most = MOST_IN_ALL // self.frames_at_once
            self._refuse("feeders", self.feeders, f"give at most {most}, or smaller buffers and reorder_rows")

    @property
    def buffer(self) -> int:
        """Rows that the two sides of a connection buffer."""
        return self.send_buffer + self.receive_buffer

    @property
    def frames_at_once(self) -> int:
        """Frames that a feeder can have sent and not handed on yet, at most."""
        least = max(1, self.frame_rows)
        each = self.window or self.buffer // least + self.result_buffer // least + 4
        merging = MOST_FRAMES // 2 if self.frame_rows and self.reorder_rows > REORDER_ROWS else MOST_MERGING
        return self.workers * each + min(self.reorder_rows // least + 1, merging)

    def _refuse(self, field: str, value: object, remedy: str) -> None:
        raise InvalidArgument(f"{field} is {value}: {remedy}")

    def _check_numbers(self) -> None:
        most = {"workers": MOST_WORKERS, "feeders": MOST_WORKERS, "most_rows": MOST_ROWS}
        for field, bound in most.items():
            if not 1 <= whole_of(getattr(self, field)) <= bound:
                self._refuse(field, getattr(self, field), f"give at least 1, and at most {bound}, as a whole number")
        counts = ("rows", "frame_rows", "window", "send_buffer", "receive_buffer", "result_buffer", "reorder_rows")
        times = ("row_overhead_s", "call_s", "send_s", "send_row_s", "delay_s", "rate")
        for field in counts:
            if not 0 <= whole_of(getattr(self, field)) <= MOST_ROWS:
                self._refuse(field, getattr(self, field), f"give a whole number of at least 0, at most {MOST_ROWS}")
        for field in times:
            if not 0 <= number_of(getattr(self, field)) < inf:
                self._refuse(field, getattr(self, field), "give a number of at least 0")
        if not LEAST_ROW_S <= number_of(self.row_s) < inf:
            self._refuse("row_s", self.row_s, f"give the seconds a row takes, above 0 (at least {LEAST_ROW_S:g})")
        check_wholes(self, seed=(0, 2**62))
        if not 0 <= number_of(self.jitter) < 1:
            self._refuse("jitter", self.jitter, "give a share from 0 to below 1")

    def _check_places(self) -> None:
        for field, given in (("speeds", self.speeds), ("hosts", self.hosts)):
            if given and len(given) != self.workers:
                self._refuse(field, given, f"give one for each of the {self.workers} workers, or none")
        for worker, speed in enumerate(self.speeds):
            if not 0 < speed < inf:
                self._refuse(f"the speed of worker {worker}", speed, "give a number above 0")
        if self.threads and not self.hosts:
            self._refuse("threads", self.threads, "give hosts, too: which worker is on which")
        for host in self.hosts:
            if not 0 <= host < (len(self.threads) or self.workers):
                self._refuse("hosts", self.hosts, f"there is no host {host}: threads has one number for each host")
        for host, count in enumerate(self.threads):
            if count < 1:
                self._refuse(f"threads of host {host}", count, "give at least 1")
        for load in self.loads:
            if not 0 <= load.worker < self.workers:
                self._refuse("the worker of a load", load.worker, f"give one from 0 to {self.workers - 1}")
            if not 0 < load.factor < inf:
                self._refuse(f"the load of worker {load.worker}", load.factor, "give a factor above 0")
            if not (isfinite(load.begin_s) and 0 <= load.begin_s < load.end_s and load.end_row >= 0):
                span = f"from {load.begin_s} to {load.end_s} s, before row {load.end_row}"
                self._refuse(f"the load of worker {load.worker}", span, "it must begin at 0 or later, and then end")
