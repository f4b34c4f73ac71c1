"""JSON in frames."""

import pytest

from evenflow.errors import ProtocolError
from evenflow.runtime.frames import Frame, Kind
from evenflow.runtime.messages import control, parse


def test_round_trip():
    message = {"type": "weights", "weights": {"0": 1000}, "reason": "ü", "none": None}
    assert parse(control(message)) == message
    assert control(message).kind is Kind.CONTROL


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "a CONTROL frame does not hold JSON"),
        (b"{", "a CONTROL frame does not hold JSON"),
        (b"\xff\xfe", "a CONTROL frame does not hold JSON"),
        (b"[1]", "a CONTROL frame holds list, not an object"),
        (b"null", "a CONTROL frame holds NoneType, not an object"),
    ],
)
def test_nonsense(body, message):
    with pytest.raises(ProtocolError, match=message):
        parse(Frame(Kind.CONTROL, bytearray(body)))
