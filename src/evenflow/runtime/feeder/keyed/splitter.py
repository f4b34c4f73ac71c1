"""The keyed splitter: which rows go to a worker next, and which wait because their units are being moved.

Rows of a unit that moves wait until it has arrived, and until all results of its earlier rows are here: the feeder
sends a marker after these rows to the old owner, which sends it back after the results. Nothing here touches a socket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from evenflow.runtime.feeder.frame_size import FRAME_BYTES, FrameSize
from evenflow.runtime.feeder.keyed.skew import ChunkPiece, SkewBuffer
from evenflow.runtime.feeder.link import DEPTH, Link

WHOLE_ROWS = 12_000
"""As long as Spark gives rows, frames wait until they have as many, or as many as are worth a frame by their cost:
a worker spends as much on a frame of 3,000 cheap rows as on the rows themselves."""


@dataclass(slots=True)
class _Paused:
    """A movement this feeder knows of."""

    awaiting: set[int]
    """Movements whose marker is not back: until it is, results of the units' rows may be on their way from old owners,
    and new ones must not be sent any."""
    worker: int | None = None
    """Where the units are now, once it is known."""


class KeyedSplitter:
    """Holds the rows of one feeder that are not sent yet (`skew`), and sends them over its connections (`links`)."""

    def __init__(
        self,
        links: Mapping[int, Link],
        skew: SkewBuffer,
        size: FrameSize,
        frame_bytes: int = FRAME_BYTES,
        seed: str = "",
        longest_s: float = 0.0,
    ) -> None:
        self._hurried = False
        self._random = Random(seed)
        self._drawn: Link | None = None
        """Where rows that anybody may take go next, once they make a frame."""
        self._links = links
        self._skew = skew
        self._size = size
        self._frame_bytes = frame_bytes
        self._longest_s = longest_s
        """Seconds of work that a frame may be if many rows wait for its worker."""
        self._paused: dict[int, _Paused] = {}

    def hurry(self, hurried: bool = True) -> None:
        """Give out frames that are not whole from now on, since no more rows come; or, if False, whole ones only."""
        self._hurried = hurried

    def frames(self) -> Iterator[tuple[Link, list[ChunkPiece]]]:
        """Frames that can be sent now: to each worker with room, rows of its units; the caller counts them as sent."""
        if self._skew.anybody:
            while (drawn := self._draw()) is not None and (most := self._ready(drawn)):
                self._drawn = None
                yield from self._frames_of(drawn, most)
            return
        for link in list(self._links.values()):
            while _room(link) and (most := self._ready(link)):
                yield from self._frames_of(link, most)

    def _draw(self) -> Link | None:
        """A worker with room, drawn by how empty its queue is (flux §2.4), the same until it has got its frame."""
        free = [link for link in self._links.values() if _room(link)]
        if self._drawn not in free:
            self._drawn = self._random.choices(free, [_room(link) for link in free])[0] if free else None
        return self._drawn

    def _ready(self, link: Link) -> int:
        """Rows of the next frame for a worker, at most; 0 if too few wait to make one."""
        waiting = self._skew.waiting(link.worker)
        backlog = waiting // len(self._links) if self._skew.anybody else waiting
        most = self._size.rows(len(self._links), link.worker, backlog, self._longest_s)
        return 0 if waiting < (1 if self._hurried else min(most, WHOLE_ROWS)) else most

    def _frames_of(self, link: Link, most: int) -> Iterator[tuple[Link, list[ChunkPiece]]]:
        for pieces in self._grouped(self._skew.retrieve(link.worker, most)):
            yield link, pieces

    def _grouped(self, pieces: list[ChunkPiece]) -> Iterator[list[ChunkPiece]]:
        """The pieces in groups of about `frame_bytes` at most; a larger piece is cut."""
        group: list[ChunkPiece] = []
        size = 0
        for piece in pieces:
            step = max(1, piece.rows.num_rows * self._frame_bytes // max(1, piece.size))
            parts = range(0, piece.rows.num_rows, step)
            for part in (piece.cut(start, step) for start in parts) if len(parts) > 1 else (piece,):
                if group and size + part.size > self._frame_bytes:
                    yield group
                    group, size = [], 0
                group.append(part)
                size += part.size
        if group:
            yield group

    def pause(self, move: int, units: Iterable[int], marked: bool) -> None:
        """Rows of these units wait from now on; `marked`: their old owner is sent a marker."""
        earlier = self._skew.pause(move, units)
        awaiting = set().union(*(self._paused[other].awaiting for other in earlier))
        self._paused[move] = _Paused(awaiting | {move} if marked else awaiting)

    def echo(self, move: int) -> None:
        """The marker is back: all results that were to come before this movement are here."""
        for paused in self._paused.values():
            paused.awaiting.discard(move)
        self._release()

    def arrived(self, move: int, worker: int) -> None:
        """The units of a movement are at `worker` now."""
        if move in self._paused:
            self._paused[move].worker = worker
            self._release()

    def _release(self) -> None:
        """Let go of rows whose units have arrived and whose earlier results are all here."""
        for move, paused in list(self._paused.items()):
            if paused.worker is not None and not paused.awaiting:
                del self._paused[move]
                self._skew.release(move, paused.worker)


def _room(link: Link) -> int:
    """Frames that a worker may be sent now."""
    return max(0, DEPTH - len(link.under_way)) if link.open else 0
