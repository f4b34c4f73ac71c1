"""JSON messages in frames; numpy arrays travel in them as compressed bytes.

Whatever a body holds, `parse` gives a message or raises `ProtocolError`; so do the readers of a message's fields.
Nobody takes a field for what it should be without asking.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from evenflow.errors import ProtocolError
from evenflow.runtime.wire.frames import Frame, Kind

SMALL = 16 * 1024
"""Arrays up to this many bytes are not worth compressing."""
ARRAY_BYTES = 32 * 1024 * 1024
"""All arrays of one message together, unpacked: a million units have 12 MB of numbers and counts."""
LARGEST = 2**63 - 1

T = TypeVar("T")


class Message(dict[str, Any]):
    """What a frame says; the readers refuse fields that are missing, or not of their kind."""

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        return self._field(name, default, lambda value: isinstance(value, str), "a text")

    def whole(self, name: str, default: int | None = None, most: int = LARGEST) -> int:
        """A whole number from 0 to `most`."""
        return int(self._field(name, default, lambda value: _is_whole(value, most), f"a whole number up to {most}"))

    def real(self, name: str, default: float | None = None) -> float:
        """A number, and not an endless one."""
        return float(self._field(name, default, _is_real, "a number"))

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false."""
        return self._field(name, default, lambda value: isinstance(value, bool), "true or false")

    def wholes(self, name: str, default: list[int] | None = None) -> list[int]:
        """A list of whole numbers."""
        return self._field(name, default, lambda value: _all(value, _is_whole), "a list of whole numbers")

    def texts(self, name: str, default: list[str] | None = None) -> list[str]:
        """A list of texts."""
        return self._field(name, default, lambda value: _all(value, lambda each: isinstance(each, str)), "texts")

    def array(self, name: str) -> Any:
        """An array of whole numbers from 0 on."""
        return self._field(name, None, _is_array, "an array of whole numbers")

    def counts(self, name: str, default: dict[str, int] | None = None) -> dict[str, int]:
        """Whole numbers by name; those of an operator may fall."""
        return self._field(name, default, lambda value: _is_mapping(value, _is_integer), "whole numbers by name")

    def objects(self, name: str) -> list[Message]:
        """A list of objects."""
        found: list[dict[str, Any]] = self._field(
            name, None, lambda value: _all(value, lambda each: isinstance(each, dict)), "objects"
        )
        return [Message(each) for each in found]

    def _field(self, name: str, default: T | None, fits: Callable[[Any], bool], what: str) -> T:
        value = self.get(name, default)
        if value is None or not fits(value):
            said = f"has {name}={value!r:.100}" if name in self else f"has no {name}"
            raise ProtocolError(f"a message '{str(self.get('type', ''))[:50]}' {said}: it must be {what}")
        return value  # type: ignore[no-any-return]


def control(message: Mapping[str, Any]) -> Frame:
    """A message to or from the controller."""
    return Frame(Kind.CONTROL, packed(message))


def packed(message: Mapping[str, Any]) -> bytes:
    """A message as it stands in a frame's body."""
    return json.dumps(message, default=_pack).encode()


def parse(frame: Frame) -> Message:
    """The message in a frame's body."""
    return parsed(frame.body, f"a {frame.kind.name} frame")


def parsed(body: bytes | bytearray | memoryview, what: str) -> Message:
    """The message in a body, which is that of `what`."""
    room = _Room(ARRAY_BYTES)
    try:
        message = json.loads(bytes(body), object_hook=room.unpack)
    except (ValueError, TypeError, zlib.error, RecursionError) as error:
        raise ProtocolError(f"{what} does not hold JSON: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError(f"{what} holds {type(message).__name__}, not an object")
    return Message(message)


def _pack(value: Any) -> Any:
    if type(value).__module__ != "numpy" or not hasattr(value, "dtype"):
        raise TypeError(f"{type(value).__name__} does not go into a message")
    if value.ndim == 0:
        return value.item()
    level = 1 if value.nbytes > SMALL else 0
    return {"array": value.dtype.str, "bytes": base64.b64encode(zlib.compress(value.tobytes(), level)).decode()}


class _Room:
    """How many bytes the arrays of a message may still take."""

    def __init__(self, left: int) -> None:
        self._left = left

    def unpack(self, value: dict[str, Any]) -> Any:
        """An array, if that is what an object stands for."""
        if value.keys() != {"array", "bytes"}:
            return value
        import numpy as np

        kind = np.dtype(value["array"])
        if kind.kind not in "biuf":
            raise ValueError(f"arrays of {value['array']!r:.50} do not go into a message")
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b64decode(value["bytes"]), self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"its arrays take more than {ARRAY_BYTES} bytes")
        if not reader.eof:
            raise ValueError("an array is cut off")
        return np.frombuffer(data, kind)


def _is_whole(value: Any, most: int = LARGEST) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST


def _is_real(value: Any) -> bool:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300
    return fits and math.isfinite(value)


def _all(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(fits, value))


def _is_mapping(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(fits, value.values()))


def _is_array(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u") and (not len(value) or value.min() >= 0)
