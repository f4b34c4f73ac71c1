"""Frames: a fixed header and a body, encoded and decoded without any I/O.

Both ends of a connection count its frames. The count seeds the checksum together with a number that the two drew from
their handshake, so a frame that was changed, replayed, dropped, put out of order or recorded on another connection
does not pass; the decoder raises on the first one and must then be thrown away with its connection.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import xxhash

from evenflow.errors import ProtocolError

MAGIC = b"EVFL"
VERSION = 2
START = MAGIC + bytes([VERSION])
"""The beginning of every header."""
HEADER = struct.Struct("<5sBHIIIQ")
"""magic and version, kind, flags, body length, part, micros, sequence; the checksum of header and body follows."""
CHECKSUM = struct.Struct("<Q")
HEADER_BYTES = HEADER.size + CHECKSUM.size
MAX_BODY = 256 * 1024 * 1024
"""No frame has a larger body: a corrupt length must not make a peer allocate without bound."""
FIRST_BODY = 8 * 1024 * 1024
"""Room that a header is given for its body at once: as much as rows and results take, so that these are never copied.
More comes as bytes come: then the room is at most twice what has arrived, whatever the header says."""
MORE, TOLD, TAKEN = 1, 2, 4
"""The flags of a header: `Frame.more`, `Frame.told` and `Frame.taken`."""

_WRAP = (1 << 64) - 1


class Kind(IntEnum):
    """What a frame is for."""

    CONTROL = 1
    """A message, between the controller and its peers."""
    CODE = 2
    """A pickled operator, from the controller to a worker."""
    OPEN = 3
    """A feeder opens an operator on a worker: a message; the Arrow schema of its rows follows as SCHEMA."""
    SCHEMA = 4
    DATA = 5
    """Rows from a feeder: one Arrow record batch."""
    RESULT = 6
    """Rows back from a worker, under the sequence of the DATA frame they answer."""
    ERROR = 7
    """A message: why a worker could not process the DATA frame of this sequence."""
    MARKER = 8
    """From a feeder to a worker and back: all that went before it on this connection is through. Sequence: the move."""
    STATE = 9
    """Units on their way from one worker to another. Sequence: the move; `part`: which part of them."""
    END = 10
    """From a feeder to a worker: these were all its rows. Back, a message, when they are durable: where they are."""
    DRAIN = 11
    """From a feeder to a worker: no more rows come until all have been answered."""
    FLOW = 12
    """Rows of a graph, from a feeder or a worker to a worker (`wire.flows`). Sequence: the frame's id; `part`: its root
    frame at the feeder. On RESULT of a graph, sequence is the root frame and `part` the endpoint."""
    DONE = 13
    """From a worker to a feeder: a FLOW frame has been processed. Sequence: its root frame; the body (`wire.flows`) is
    its id XOR the ids of the frames that it caused."""
    FLUSH = 14
    """To a worker or a feeder and back: all that went before it on this connection is there; with `part` 1, it has been
    served. Sequence: the move, or 0 from a feeder that begins; `told`: it is the answer."""
    PROBE = 15
    """From a worker to another and back, at once: how long that takes. Sequence: a number; `told`: it is the answer."""


_KINDS = {int(kind): kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class Frame:
    """What a connection carries: a message, rows, code or state."""

    kind: Kind
    body: bytes | bytearray | memoryview = b""
    sequence: int = 0
    micros: int = 0
    """On RESULT: how long the worker took, in microseconds."""
    part: int = 0
    """On STATE: the number of the part that the body is, or is a piece of."""
    more: bool = False
    """Whether further frames of the same sequence follow."""
    told: bool = False
    """On RESULT of a keyed operator: whether the last column tells from which row of the frame each comes."""
    taken: bool = False
    """On RESULT of a keyed operator: the rest of the frame waits for state on disk; the next frame may be sent."""


class Encoder:
    """Turns frames into bytes for one direction of one connection."""

    def __init__(self, seed: int = 0, limit: int = MAX_BODY) -> None:
        self._seed = seed
        self._limit = limit

    def encode(self, frame: Frame) -> tuple[bytes, memoryview]:
        """The header and the body, to be sent one after the other."""
        body = memoryview(frame.body).cast("B")
        if body.nbytes > self._limit:
            raise ProtocolError(f"a frame of {body.nbytes} bytes is over the limit of {self._limit} bytes")
        head = HEADER.pack(
            START,
            frame.kind,
            MORE * frame.more | TOLD * frame.told | TAKEN * frame.taken,
            body.nbytes,
            frame.part,
            min(frame.micros, 0xFFFFFFFF),
            frame.sequence,
        )
        checksum = _checksum(head, body, self._seed)
        self._seed = (self._seed + 1) & _WRAP
        return head + CHECKSUM.pack(checksum), body


class Decoder:
    """Turns the bytes of one direction of one connection into frames.

    The caller reads into `target()`, does not keep it, and says with `received(n)` how much came. Memory held is one
    header, and of one body FIRST_BODY or at most twice what has come of it.
    """

    def __init__(self, seed: int = 0, limit: int = MAX_BODY) -> None:
        self._seed = seed
        self._limit = limit
        self._count = 0
        self._head = bytearray(HEADER_BYTES)
        self._body = bytearray()
        self._length = 0
        self._fields: tuple[int, ...] = ()
        self._reading_body = False
        self._target = memoryview(self._head)

    def target(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._target

    def received(self, count: int) -> Frame | None:
        """Note `count` bytes written to `target()`; give the frame if that completed one."""
        self._target = self._target[count:]
        if not self._missing() and not self._reading_body:
            self._begin_body()
        elif not self._missing() and len(self._body) < self._length:
            self._grow()
        return self._finish() if self._reading_body and not self._missing() else None

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames completed by `data`, for callers that have bytes rather than a socket."""
        view = memoryview(data)
        while view.nbytes:
            count = min(view.nbytes, self._target.nbytes)
            self._target[:count] = view[:count]
            view = view[count:]
            frame = self.received(count)
            if frame is not None:
                yield frame

    @property
    def clean(self) -> bool:
        """Whether the bytes so far end on a frame's edge."""
        return not self._reading_body and self._target.nbytes == HEADER_BYTES

    def _missing(self) -> int:
        return self._target.nbytes

    def _begin_body(self) -> None:
        start, kind, flags, length, *rest = HEADER.unpack_from(self._head)
        if start != START:
            raise self._refused(start)
        if kind not in _KINDS or flags & ~(MORE | TOLD | TAKEN):
            raise ProtocolError(f"frame {self._count} has kind {kind} and flags {flags:#x}, which do not exist")
        if length > self._limit:
            raise ProtocolError(f"frame {self._count} announces {length} bytes, over the limit of {self._limit} bytes")
        self._fields = (kind, flags, *rest)
        self._length = length
        self._body = bytearray(min(length, FIRST_BODY))
        self._target = memoryview(self._body)
        self._reading_body = True

    def _refused(self, start: bytes) -> ProtocolError:
        """Why a header that begins in another way is not read."""
        if not start.startswith(MAGIC):
            return ProtocolError(f"frame {self._count} starts with {start[: len(MAGIC)]!r}, not {MAGIC!r}")
        return ProtocolError(
            f"frame {self._count} has version {start[-1]}, this side speaks {VERSION}: "
            "install the same evenflow on the driver and on every executor"
        )

    def _grow(self) -> None:
        """Make room for as much again as has come."""
        filled = len(self._body)
        self._target.release()  # it keeps the body where it is
        self._body += bytes(min(filled, self._length - filled))
        self._target = memoryview(self._body)[filled:]

    def _finish(self) -> Frame:
        expected = _checksum(memoryview(self._head)[: HEADER.size], self._body, self._seed)
        if CHECKSUM.unpack_from(self._head, HEADER.size)[0] != expected:
            raise ProtocolError(
                f"frame {self._count} fails its checksum: its bytes were changed, or it was replayed or left out"
            )
        kind, flags, part, micros, sequence = self._fields
        frame = Frame(
            kind=_KINDS[kind],
            body=self._body,
            sequence=sequence,
            micros=micros,
            part=part,
            more=bool(flags & MORE),
            told=bool(flags & TOLD),
            taken=bool(flags & TAKEN),
        )
        self._seed = (self._seed + 1) & _WRAP
        self._count += 1
        self._target = memoryview(self._head)
        self._reading_body = False
        return frame


def _checksum(head: bytes | memoryview, body: bytearray | memoryview, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(body, seed=xxhash.xxh3_64_intdigest(head, seed=seed))
