"""JSON messages in frames; numpy arrays travel in them as compressed bytes."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

from evenflow.errors import ProtocolError
from evenflow.runtime.frames import MAX_BODY, Frame, Kind

SMALL = 16 * 1024
"""Arrays up to this many bytes are not worth compressing."""


def control(message: Mapping[str, Any]) -> Frame:
    """A message to or from the controller."""
    return Frame(Kind.CONTROL, json.dumps(message, default=_pack).encode())


def parse(frame: Frame) -> dict[str, Any]:
    """The message in a frame's body."""
    try:
        message = json.loads(bytes(frame.body), object_hook=_unpack)
    except (ValueError, zlib.error) as error:
        raise ProtocolError(f"a {frame.kind.name} frame does not hold JSON: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError(f"a {frame.kind.name} frame holds {type(message).__name__}, not an object")
    return message


def _pack(value: Any) -> Any:
    if type(value).__module__ != "numpy" or not hasattr(value, "dtype"):
        raise TypeError(f"{type(value).__name__} does not go into a message")
    if value.ndim == 0:
        return value.item()
    level = 1 if value.nbytes > SMALL else 0
    return {"array": value.dtype.str, "bytes": base64.b64encode(zlib.compress(value.tobytes(), level)).decode()}


def _unpack(value: dict[str, Any]) -> Any:
    if value.keys() != {"array", "bytes"}:
        return value
    import numpy as np

    data = zlib.decompressobj().decompress(base64.b64decode(value["bytes"]), MAX_BODY)
    return np.frombuffer(data, np.dtype(value["array"]))
