"""JSON messages in frames."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evenflow.errors import ProtocolError
from evenflow.runtime.frames import Frame, Kind


def control(message: Mapping[str, Any]) -> Frame:
    """A message to or from the controller."""
    return Frame(Kind.CONTROL, json.dumps(message).encode())


def parse(frame: Frame) -> dict[str, Any]:
    """The message in a frame's body."""
    try:
        message = json.loads(bytes(frame.body))
    except ValueError as error:
        raise ProtocolError(f"a {frame.kind.name} frame does not hold JSON: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError(f"a {frame.kind.name} frame holds {type(message).__name__}, not an object")
    return message
