"""What FLOW, DONE and MARKER frames hold comes back as it was; what cannot be read is refused."""

import struct

import pytest

from evenflow.errors import ProtocolError
from evenflow.runtime.wire.flows import END, MARK, MOST_PORTS, done_frame, flow_frame, flow_head, flow_rows, read_mark
from evenflow.runtime.wire.frames import MAX_BODY, Frame, Kind


@pytest.mark.parametrize("ports", [(0,), (1, 5, 2), tuple(range(MOST_PORTS))], ids=["one", "some", "all"])
@pytest.mark.parametrize("rows", [b"", b"some rows"], ids=["no rows", "rows"])
@pytest.mark.parametrize(("feeder", "turn"), [(0, 0), (2**64 - 1, 2**32 - 1)])
def test_a_flow_frame_comes_back(ports, rows, feeder, turn):
    frame = flow_frame(2**64 - 1, 9, turn, feeder, ports, memoryview(rows), 7)
    assert (frame.kind, frame.sequence, frame.part) == (Kind.FLOW, 2**64 - 1, 9)
    head = flow_head(frame)
    assert (head.feeder, head.turn, head.ports, bytes(head.rows), head.row_count) == (feeder, turn, ports, rows, 7)
    assert flow_rows(frame) == (feeder, 7)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "has 0 bytes: too few"),
        (bytes(END.size - 1), f"has {END.size - 1} bytes: too few"),
        (END.pack(1, 0, 9, 0), "for 0 ports"),
        (END.pack(1, 0, 9, 1), "for 1 ports"),
        (struct.pack("<I", 0) + END.pack(1, 0, 9, 2), "for 2 ports"),
        (bytes(4 * (MOST_PORTS + 1)) + END.pack(1, 0, 9, MOST_PORTS + 1), f"for {MOST_PORTS + 1} ports"),
        (END.pack(1, 0, 9, 2**32 - 1), "ports"),
    ],
)
def test_a_flow_frame_that_cannot_be_read_is_refused(body, why):
    with pytest.raises(ProtocolError, match=why):
        flow_head(Frame(Kind.FLOW, body))


def test_rows_that_are_too_many_for_a_frame_are_refused():
    rows = memoryview(bytearray(MAX_BODY))
    with pytest.raises(ProtocolError, match="over the limit"):
        flow_frame(1, 1, 0, 1, [0], rows, 1)


@pytest.mark.parametrize("mark", [0, 5, 2**64 - 1])
def test_a_mark_comes_back(mark):
    frame = done_frame(7, mark, 12)
    assert (frame.kind, frame.sequence, frame.micros) == (Kind.DONE, 7, 12)
    assert read_mark(frame) == mark
    assert read_mark(Frame(Kind.MARKER, MARK.pack(mark), 3)) == mark


@pytest.mark.parametrize("body", [b"", bytes(7), bytes(9)])
@pytest.mark.parametrize("kind", [Kind.DONE, Kind.MARKER])
def test_a_mark_that_is_none_is_refused(kind, body):
    with pytest.raises(ProtocolError, match=f"a {kind.name} frame has {len(body)} bytes, not 8"):
        read_mark(Frame(kind, body))
