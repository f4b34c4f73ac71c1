"""Frames of graphs that wait on a worker, in the order in which they are served."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evenflow.runtime.wire.frames import Frame


@dataclass(frozen=True, slots=True)
class Gate:
    """What came behind it waits until it is known whether the units of a movement stay here."""

    region: str
    move: int


class RowQueue:
    """FLOW frames, first come, first served, but for those that are put first."""

    def __init__(self, is_open: Callable[[Gate], bool]) -> None:
        self._waiting: deque[Frame | Gate] = deque()
        self._ahead = 0
        """How many of the first were put there."""
        self._is_open = is_open
        self.bytes = 0
        """Of all frames that wait."""

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, frame: Frame) -> None:
        """A frame has come."""
        self._waiting.append(frame)
        self.bytes += _size(frame)

    def put_first(self, frames: Iterable[Frame]) -> None:
        """Have frames served before all that came, and behind those that were put first before."""
        for frame in frames:
            self._waiting.insert(self._ahead, frame)
            self._ahead += 1
            self.bytes += _size(frame)

    def close(self, gate: Gate) -> None:
        """Let what comes from now on wait."""
        self._waiting.append(gate)

    @property
    def first(self) -> Frame | None:
        """The frame whose turn it is; None if there is none, or if it has to wait."""
        while self._waiting:
            each = self._waiting[0]
            if isinstance(each, Frame):
                return each
            if not self._is_open(each):
                return None
            self._waiting.popleft()
        return None

    def take(self) -> Frame:
        """Take out the frame whose turn it is."""
        frame = self._waiting.popleft()
        assert isinstance(frame, Frame)
        self._ahead = max(0, self._ahead - 1)
        self.bytes -= _size(frame)
        return frame

    def take_parts(self, divide: Callable[[Frame], tuple[list[Frame], Frame | None]]) -> list[Frame]:
        """Take out what `divide` wants of each frame, in their order; what it leaves keeps its place."""
        taken: list[Frame] = []
        before, ahead = self._waiting, self._ahead
        self._waiting, self._ahead, self.bytes = deque(), 0, 0
        for place, each in enumerate(before):
            if isinstance(each, Gate):
                self._waiting.append(each)
                continue
            moved, stays = divide(each)
            taken += moved
            if stays is not None:
                self._waiting.append(stays)
                self._ahead += place < ahead
                self.bytes += _size(stays)
        return taken


def _size(frame: Frame) -> int:
    return memoryview(frame.body).nbytes
