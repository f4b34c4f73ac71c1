"""Frames of graphs that wait on a worker, in the order in which they are served."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.wire.frames import Frame


@dataclass(frozen=True, slots=True)
class Gate:
    """What came behind it waits until it is known whether the units of a movement stay here."""

    region: str
    move: int


@dataclass(frozen=True, slots=True)
class Question:
    """A FLUSH that is answered when all that came before it has been served."""

    channel: Channel
    flush: Frame


OperatorPlace = tuple[str, int]
"""A region, and the number of an operator; those that an operator reads have lower numbers."""


class RowQueue:
    """FLOW frames, first come, first served, but for those that are put first.

    What is put first is for units that have just come. Of one graph, rows for operators further downstream are before
    others: what these give may come by calls, and is to be behind them.
    """

    def __init__(self, is_open: Callable[[Gate], bool], answer: Callable[[Channel, Frame], None]) -> None:
        self._waiting: deque[Frame | Gate | Question] = deque()
        self._ahead: list[OperatorPlace] = []
        """Of the first frames, those that were put there: for which operators."""
        self._is_open = is_open
        self._answer = answer
        self.bytes = 0
        """Of all frames that wait."""

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, frame: Frame) -> None:
        """A frame has come."""
        self._waiting.append(frame)
        self.bytes += _size(frame)

    def put_first(self, frames: Iterable[Frame], place: OperatorPlace) -> None:
        """Have frames for an operator served before all that came."""
        region, node = place
        upstream = (at for at, (graph, other) in enumerate(self._ahead) if graph == region and other < node)
        for at, frame in enumerate(frames, next(upstream, len(self._ahead))):
            self._waiting.insert(at, frame)
            self._ahead.insert(at, place)
            self.bytes += _size(frame)

    def ask(self, channel: Channel, flush: Frame) -> None:
        """Answer when all that is here has been served."""
        self._waiting.append(Question(channel, flush))

    def close(self, gate: Gate) -> None:
        """Let what comes from now on wait."""
        self._waiting.append(gate)

    @property
    def first(self) -> Frame | None:
        """The frame whose turn it is; None if there is none, or if it has to wait. Questions before it are answered."""
        while self._waiting:
            each = self._waiting[0]
            if isinstance(each, Frame):
                return each
            if isinstance(each, Question):
                self._answer(each.channel, each.flush)
            elif not self._is_open(each):
                return None
            self._waiting.popleft()
        return None

    def take(self) -> Frame:
        """Take out the frame whose turn it is."""
        frame = self._waiting.popleft()
        assert isinstance(frame, Frame)
        del self._ahead[:1]
        self.bytes -= _size(frame)
        return frame

    def take_parts(self, divide: Callable[[Frame], tuple[list[Frame], Frame | None]]) -> list[Frame]:
        """Take out what `divide` wants of each frame, in their order; what it leaves keeps its place."""
        taken: list[Frame] = []
        left: deque[Frame | Gate | Question] = deque()
        ahead: list[OperatorPlace] = []
        for at, each in enumerate(self._waiting):
            moved, stays = divide(each) if isinstance(each, Frame) else ([], each)
            taken += moved
            if stays is not None:
                left.append(stays)
                ahead += self._ahead[at : at + 1]
        self._waiting, self._ahead = left, ahead
        self.bytes = sum(_size(each) for each in left if isinstance(each, Frame))
        return taken


def _size(frame: Frame) -> int:
    return memoryview(frame.body).nbytes
