"""Bodies of FLOW and DONE frames: rows of a graph on their way, and the answer that a frame of them is processed.

A FLOW frame's body is an Arrow record batch without its schema, then the numbers of the ports that its rows are for,
then a fixed end: the feeder whose rows caused it, their turn, how many rows and how many ports there are. The end comes
last so that Arrow finds the rows at the beginning of the buffer. All rows of a frame descend from rows of one feeder.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from evenflow.errors import ProtocolError
from evenflow.runtime.wire.frames import MAX_BODY, Frame, Kind

END = struct.Struct("<QIII")
"""The feeder, the turn, and how many rows and ports there are."""
PORT = struct.Struct("<I")
MARK = struct.Struct("<Q")
"""The XOR in a DONE frame; the sender's number in a MARKER frame between workers."""
MOST_PORTS = 10_000


class FlowHead(NamedTuple):
    """The content of a FLOW frame."""

    feeder: int
    turn: int
    """The number of its root frame among those of the feeder's source, from 0 on."""
    ports: tuple[int, ...]
    rows: memoryview
    """The record batch, serialised."""
    row_count: int
    """The number of rows that the sender has written down."""


def flow_frame(
    identity: int, root: int, turn: int, feeder: int, ports: Sequence[int], rows: memoryview, count: int
) -> Frame:
    """A frame of rows for these ports, which are all on one worker."""
    tail = struct.pack(f"<{len(ports)}I", *ports) + END.pack(feeder, turn, count, len(ports))
    if rows.nbytes + len(tail) > MAX_BODY:
        raise ProtocolError(f"a frame of {rows.nbytes} bytes of rows is over the limit of {MAX_BODY} bytes")
    return Frame(Kind.FLOW, b"".join((rows, tail)), identity, part=root)


def flow_head(frame: Frame) -> FlowHead:
    """Read the content of a FLOW frame."""
    body = memoryview(frame.body).cast("B")
    if body.nbytes < END.size:
        raise ProtocolError(f"a FLOW frame has {body.nbytes} bytes: too few")
    feeder, turn, count, ports = END.unpack_from(body, body.nbytes - END.size)
    rows = body.nbytes - END.size - ports * PORT.size
    if not 0 < ports <= MOST_PORTS or rows < 0:
        raise ProtocolError(f"a FLOW frame of {body.nbytes} bytes is said to be for {ports} ports")
    return FlowHead(feeder, turn, struct.unpack_from(f"<{ports}I", body, rows), body[:rows], count)


def flow_rows(frame: Frame) -> tuple[int, int]:
    """The feeder of a FLOW frame, and its number of rows; zeros if it cannot be read."""
    size = memoryview(frame.body).nbytes
    feeder, _, count, _ = END.unpack_from(frame.body, size - END.size) if size >= END.size else (0, 0, 0, 0)
    return feeder, count


def done_frame(root: int, mark: int, micros: int) -> Frame:
    """The answer to a processed FLOW frame; `mark` is its id XOR the ids of the frames that it caused."""
    return Frame(Kind.DONE, MARK.pack(mark), root, micros)


def read_mark(frame: Frame) -> int:
    """The number in a DONE or MARKER frame."""
    if memoryview(frame.body).nbytes != MARK.size:
        raise ProtocolError(f"a {frame.kind.name} frame has {memoryview(frame.body).nbytes} bytes, not {MARK.size}")
    return int(MARK.unpack(frame.body)[0])
