"""Frames of graphs that wait on a worker, in the order in which they are served."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from evenflow.runtime.wire.flows import flow_rows
from evenflow.runtime.wire.frames import Frame


@dataclass(slots=True, eq=False)
class Gate:
    """Queue marker: the rows of units that have arrived are served only when the queue has reached it.

    Frames before it may hold rows that the units gave on their old worker, and later rows must not overtake those. At
    the gate wait the rows that came with the units, then rows that operators here have sent them meanwhile. Frames
    behind it wait until it is known whether the units stay.
    """

    region: str
    move: int
    units: Sequence[int]
    frames: list[Frame] = field(default_factory=list)
    stays: bool = False
    """True once the controller has said that the units stay here."""


class RowQueue:
    """FLOW frames in the order in which they came, and gates of units that have arrived."""

    def __init__(self) -> None:
        self._waiting: deque[Frame | Gate] = deque()
        self.bytes = 0
        """Bytes of all frames that wait."""
        self.rows: dict[int, int] = {}
        """Per feeder: rows of all frames that wait."""

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, each: Frame | Gate) -> None:
        """Put a frame, or the gate of units that have arrived, at the end."""
        self._waiting.append(each)
        self._count([each])

    def put_first(self, frames: Sequence[Frame]) -> None:
        """Put frames in front: the rest of the frame that was taken last."""
        self._waiting.extendleft(reversed(frames))
        self._count(frames)

    def wait_at(self, gate: Gate, frames: Sequence[Frame]) -> None:
        """Put further frames behind those that wait at a gate."""
        gate.frames += frames
        self._count(frames)

    @property
    def first(self) -> Frame | Gate | None:
        """The frame whose turn it is, or the gate that is reached; None if nothing waits."""
        return self._waiting[0] if self._waiting else None

    def open(self, gate: Gate) -> None:
        """Take away the gate that is reached: its rows come first now if its units stay, and are dropped otherwise."""
        first = self._waiting.popleft()
        assert first is gate
        if gate.stays:
            self._waiting.extendleft(reversed(gate.frames))
        else:
            self._count([gate], -1)

    def take(self) -> Frame:
        """Take out the frame whose turn it is."""
        frame = self._waiting.popleft()
        assert isinstance(frame, Frame)
        self._count([frame], -1)
        return frame

    def take_parts(self, divide: Callable[[Frame], tuple[list[Frame], Frame | None]]) -> list[Frame]:
        """Divide each frame into frames to take, which are returned in their order, and a rest, which keeps its place.

        Rows at gates whose units may not stay are left: they belong to other movements.
        """
        taken: list[Frame] = []

        def rest(frames: Iterable[Frame]) -> list[Frame]:
            left = []
            for frame in frames:
                moved, stays = divide(frame)
                taken.extend(moved)
                left += [stays] if stays is not None else []
            return left

        waiting: deque[Frame | Gate] = deque()
        for each in self._waiting:
            if isinstance(each, Frame):
                waiting += rest([each])
                continue
            if each.stays:
                each.frames = rest(each.frames)
            waiting.append(each)
        self._waiting = waiting
        self.bytes, self.rows = 0, {}
        self._count(waiting)
        return taken

    def _count(self, those: Iterable[Frame | Gate], sign: int = 1) -> None:
        """Count frames in, or out."""
        for each in those:
            if isinstance(each, Gate):
                self._count(each.frames, sign)
                continue
            self.bytes += sign * memoryview(each.body).nbytes
            feeder, rows = flow_rows(each)
            left = self.rows.pop(feeder, 0) + sign * rows
            if left:
                self.rows[feeder] = left
