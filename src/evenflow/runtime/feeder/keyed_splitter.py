"""The keyed splitter: which rows go to a worker next, and which wait because their units are being moved.

Rows of a unit that moves wait until it has arrived, and until all results of its earlier rows are here: the feeder
sends a marker after these rows to the old owner, which sends it back after the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evenflow.runtime.feeder.frame_size import FRAME_BYTES
from evenflow.runtime.feeder.skew import Piece, SkewBuffer


@dataclass(slots=True)
class _Paused:
    """A movement this feeder knows of."""

    awaiting: set[int]
    """Movements whose marker is not back: until it is, results of the units' rows may be on their way from old owners,
    and new ones must not be sent any."""
    worker: int | None = None
    """Where the units are now, once it is known."""


class KeyedSplitter:
    """The rows of one feeder that are not sent yet."""

    def __init__(self, skew: SkewBuffer) -> None:
        self.skew = skew
        self._paused: dict[int, _Paused] = {}

    def frames(self, worker: int, most: int) -> Iterator[list[Piece]]:
        """Rows for a worker, `most` at most, as frames of about FRAME_BYTES at most; a larger piece is cut."""
        group: list[Piece] = []
        size = 0
        for piece in self.skew.retrieve(worker, most):
            for part in _cut(piece):
                if group and size + part.size > FRAME_BYTES:
                    yield group
                    group, size = [], 0
                group.append(part)
                size += part.size
        if group:
            yield group

    def pause(self, move: int, units: Iterable[int], marked: bool) -> None:
        """Rows of these units wait from now on; `marked`: their old owner is sent a marker."""
        earlier = self.skew.pause(move, units)
        awaiting = set().union(*(self._paused[other].awaiting for other in earlier))
        self._paused[move] = _Paused(awaiting | {move} if marked else awaiting)

    def echo(self, move: int) -> None:
        """The marker is back: all results that were to come before this movement are here."""
        for paused in self._paused.values():
            paused.awaiting.discard(move)
        self._release()

    def arrived(self, move: int, worker: int) -> None:
        """The units are where they are to be."""
        if move in self._paused:
            self._paused[move].worker = worker
            self._release()

    def _release(self) -> None:
        """Let go of rows whose units have arrived and whose earlier results are all here."""
        for move, paused in list(self._paused.items()):
            if paused.worker is not None and not paused.awaiting:
                del self._paused[move]
                self.skew.release(move, paused.worker)


def _cut(piece: Piece) -> Iterator[Piece]:
    step = max(1, piece.rows.num_rows * FRAME_BYTES // max(1, piece.size))
    if step >= piece.rows.num_rows:
        yield piece
        return
    for start in range(0, piece.rows.num_rows, step):
        yield piece.cut(start, step)
