"""JSON in frames."""

import base64
import zlib

import numpy as np
import pytest

from evenflow.errors import ProtocolError
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import ARRAY_BYTES, Message, control, parse


def test_round_trip():
    message = {"type": "weights", "weights": {"0": 1000}, "reason": "ü", "none": None}
    assert parse(control(message)) == message
    assert control(message).kind is Kind.CONTROL


def test_bombs_are_not_unpacked():
    """A small body must not become gigabytes: arrays of one message have a limit together."""
    one = {"array": "<i8", "bytes": base64.b64encode(zlib.compress(bytes(ARRAY_BYTES // 2 + 8))).decode()}
    assert len(parse(control({"a": one}))["a"]) == ARRAY_BYTES // 16 + 1
    with pytest.raises(ProtocolError, match=f"its arrays take more than {ARRAY_BYTES} bytes"):
        parse(control({"a": one, "b": one}))


@pytest.mark.parametrize(
    ("reader", "message", "said"),
    [
        ("text", {"type": "t"}, "a message 't' has no x: it must be a text"),
        ("text", {"x": 5}, "has x=5: it must be a text"),
        ("whole", {"x": True}, "whole number"),
        ("whole", {"x": -1}, "whole number"),
        ("whole", {"x": 2**63}, "whole number"),
        ("whole", {"x": 1.0}, "whole number"),
        ("real", {"x": float("inf")}, "has x=inf: it must be a number"),
        ("real", {"x": 10**400}, "it must be a number"),
        ("flag", {"x": 1}, "true or false"),
        ("wholes", {"x": [1, "2"]}, "a list of whole numbers"),
        ("texts", {"x": "ab"}, "texts"),
        ("array", {"x": [1, 2]}, "an array of whole numbers"),
        ("array", {"x": np.array([1.5])}, "an array of whole numbers"),
        ("array", {"x": np.array([3, -1])}, "an array of whole numbers"),
        ("counts", {"x": {"a": "b"}}, "whole numbers by name"),
        ("objects", {"x": [{}, 1]}, "objects"),
    ],
)
def test_fields_are_what_they_must_be(reader, message, said):
    with pytest.raises(ProtocolError, match=said):
        getattr(Message(message), reader)("x")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "a CONTROL frame does not hold JSON"),
        (b"{", "a CONTROL frame does not hold JSON"),
        (b"\xff\xfe", "a CONTROL frame does not hold JSON"),
        (b"[1]", "a CONTROL frame holds list, not an object"),
        (b"null", "a CONTROL frame holds NoneType, not an object"),
        (b"[" * 100_000, "a CONTROL frame does not hold JSON"),
        (b'{"a": {"array": "<i8", "bytes": 5}}', "does not hold JSON"),
        (b'{"a": {"array": "O", "bytes": ""}}', "arrays of 'O' do not go into a message"),
        (b'{"a": {"array": "nonsense", "bytes": ""}}', "does not hold JSON"),
        (b'{"a": {"array": 7, "bytes": ""}}', "does not hold JSON"),
        (b'{"a": {"array": "<i8", "bytes": "eJwD"}}', "does not hold JSON.*cut off"),
    ],
)
def test_nonsense(body, message):
    with pytest.raises(ProtocolError, match=message):
        parse(Frame(Kind.CONTROL, bytearray(body)))
