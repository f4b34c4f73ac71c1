"""Root frames: the rows that a feeder has sent into a graph, until everything made from them has been processed.

Every frame has a random id. A worker that has processed a frame reports its id XOR the ids of the frames it caused.
The XOR of all reports about one root frame is 0 once every frame that descends from it has been processed, and before
that with a probability of 2 ** -64 only (the acker of Storm). So one number tells when a root frame is through.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.errors import ProtocolError
from evenflow.runtime.feeder.frame_size import FRAME_BYTES, FrameSize
from evenflow.runtime.feeder.link import DEPTH

ALL = 0
"""The worker that stands for the whole graph where sizes of frames are learned."""


@dataclass(slots=True)
class Root:
    """The frames that descend from one."""

    born: float
    rows: int
    size: int
    """Bytes."""
    source: int
    mark: int = 0
    """The XOR so far."""
    longest_s: float = 0.0
    """Seconds of work of the frame that took longest so far."""


class Roots:
    """All root frames of one feeder that are not through."""

    def __init__(self, most_rows: int, most_bytes: int, size: FrameSize, nodes: int = 1) -> None:
        self._most_rows, self._most_bytes, self._nodes = most_rows, most_bytes, nodes
        self._open: dict[int, Root] = {}
        self._number = 0
        self._rows = self._bytes = 0
        self._size = size
        """Takes the whole graph for one worker: the one that works longest for a root frame."""

    def __len__(self) -> int:
        return len(self._open)

    def full(self, workers: int) -> bool:
        """Whether as much is on its way as may be: rows, bytes, and a few frames for each worker and operator.

        While little is known of what rows cost, and frames are small, it is less.
        """
        depth = DEPTH * max(workers, self._nodes)  # a row of a long chain is on its way for long
        if len(self._open) >= (depth if self._size.settled(workers, self._most_rows) else DEPTH):
            return True
        return bool(self._open) and (self._rows >= self._most_rows or self._bytes >= self._most_bytes)

    def rows(self, workers: int, row_bytes: float) -> int:
        """How many rows the next root frame should have, so that no frame made from it is too much work."""
        fit = self._size.rows(workers, ALL), int(FRAME_BYTES / max(1.0, row_bytes)), self._most_rows
        return max(1, min(fit))

    @property
    def waiting(self) -> dict[int, int]:
        """By source, rows of root frames that are not through."""
        found: dict[int, int] = {}
        for root in self._open.values():
            found[root.source] = found.get(root.source, 0) + root.rows
        return found

    def begin(self, now: float, rows: int, size: int, source: int = 0) -> int:
        """A root frame goes out; its number."""
        self._number += 1
        self._open[self._number] = Root(now, rows, size, source)
        self._rows += rows
        self._bytes += size
        return self._number

    def born(self, number: int) -> float:
        """When the rows of a root frame came."""
        return self._of(number).born

    def sent(self, number: int, mark: int) -> None:
        """A frame of a root frame goes out, or frames with this XOR."""
        self._of(number).mark ^= mark

    def done(self, number: int, mark: int, seconds: float) -> Root | None:
        """A frame has been processed; the root frame if it is through now."""
        root = self._of(number)
        root.mark ^= mark
        root.longest_s = max(root.longest_s, seconds)
        return self.check(number)

    def check(self, number: int) -> Root | None:
        """The root frame if it is through, which is then forgotten."""
        root = self._of(number)
        if root.mark:
            return None
        del self._open[number]
        self._rows -= root.rows
        self._bytes -= root.size
        self._size.learn(ALL, root.rows, root.longest_s)
        return root

    def _of(self, number: int) -> Root:
        root = self._open.get(number)
        if root is None:
            raise ProtocolError(f"a worker spoke of root frame {number}, which is not on its way")
        return root
