"""The codec of messages: msgpack in frames. Arrays travel as raw bytes, large ones compressed.

Any bytes give a message or `ProtocolError`, which names the message and the field. See `evenflow.model.messages`.
"""

from __future__ import annotations

import threading
import zlib
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from evenflow.errors import ProtocolError
from evenflow.model.messages import (
    Batches,
    Message,
    Opening,
    OperatorFailed,
    RowsDurable,
    ToController,
    ToFeeder,
    ToWorker,
)
from evenflow.runtime.wire.frames import Frame, Kind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SMALL = 16 * 1024
"""Arrays up to this many bytes are not worth compressing."""
DTYPES = ("<i4", "<i8")
"""What arrays of messages hold, as numpy calls it."""
ARRAY_BYTES = 32 * 1024 * 1024
"""All arrays of one message together, unpacked: a million units have 12 MB of numbers and counts."""

T = TypeVar("T")
Body = bytes | bytearray | memoryview


class PackedArray(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An array on the wire."""

    dtype: str
    size: int
    """In bytes, unpacked; `data` is compressed if it has another size."""
    data: bytes


class _Tag(msgspec.Struct):
    type: str = ""


class _Room(threading.local):
    """How many bytes the arrays of the message that is being decoded may still take."""

    left = 0


class Reader(Generic[T]):
    """Decodes one kind of message, or one of several."""

    def __init__(self, kinds: type[T]) -> None:
        self._decoder = msgspec.msgpack.Decoder(kinds, dec_hook=self._array)
        self._room = _Room()

    def read(self, frame: Frame) -> T:
        """The message in a frame's body."""
        return self.decode(frame.body, f"a {frame.kind.name} frame")

    def decode(self, body: Body, what: str) -> T:
        """The message in a body, which is that of `what`."""
        self._room.left = ARRAY_BYTES
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ProtocolError(f"{what} {_described(body, error)}") from None

    def _array(self, kind: type, value: object) -> npt.NDArray[np.integer]:
        import numpy as np

        try:
            packed = msgspec.convert(value, PackedArray)
        except msgspec.ValidationError as error:
            raise ValueError(f"it is no array: {error}") from None
        if packed.dtype not in DTYPES:
            raise ValueError(f"arrays of '{packed.dtype:.50}' do not go into a message")
        self._room.left -= packed.size
        if packed.size < 0 or self._room.left < 0:
            raise ValueError(f"its arrays take more than {ARRAY_BYTES} bytes")
        found = np.frombuffer(_unpacked(packed), packed.dtype)
        if kind is not Batches and len(found) and found.min() < 0:
            raise ValueError("units and counts are whole numbers from 0 on")
        return found


def packed(message: msgspec.Struct) -> bytes:
    """A message as it stands in a frame's body."""
    try:
        return _ENCODER.encode(message)
    except UnicodeEncodeError:  # lone surrogates, in the text of a user's error
        return _ENCODER.encode(_printable(msgspec.to_builtins(message, builtin_types=(bytes,), enc_hook=_pack)))


def control(message: Message) -> Frame:
    """A message to or from the controller."""
    return Frame(Kind.CONTROL, packed(message))


def _pack(value: object) -> PackedArray | float:
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()  # type: ignore[no-any-return]
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} does not go into a message")
    data = value.tobytes()
    small = zlib.compress(data, 1) if len(data) > SMALL else data
    return PackedArray(value.dtype.str, len(data), small if len(small) < len(data) else data)


def _unpacked(packed: PackedArray) -> bytes:
    if len(packed.data) == packed.size:
        return packed.data
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(packed.data, packed.size + 1)
    except zlib.error as error:
        raise ValueError(f"an array cannot be unpacked: {error}") from None
    if len(data) != packed.size or not reader.eof:
        raise ValueError(f"an array has not the {packed.size} bytes that it should have")
    return data


def _printable(value: object) -> object:
    """Without lone surrogates."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list() | tuple():
            return [_printable(each) for each in value]
        case dict():
            return {_printable(key): _printable(each) for key, each in value.items()}
    return value


def _described(body: Body, error: Exception) -> str:
    """What is wrong with a body."""
    why = str(error)[:300]
    try:
        kind = msgspec.msgpack.decode(body, type=_Tag).type[:50]
    except (msgspec.DecodeError, ValueError, RecursionError):
        kind = ""
    if not kind:
        return f"does not hold a message: {why}"
    if why.endswith("at `$.type`"):
        return f"holds a message '{kind}', which is not known here"
    return f"holds a message '{kind}' that is not right: {why}"


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_pack)
TO_CONTROLLER: Reader[ToController] = Reader(ToController)  # type: ignore[arg-type]
TO_WORKER: Reader[ToWorker] = Reader(ToWorker)  # type: ignore[arg-type]
TO_FEEDER: Reader[ToFeeder] = Reader(ToFeeder)  # type: ignore[arg-type]
OPENING: Reader[Opening] = Reader(Opening)  # type: ignore[arg-type]
ENDED = Reader(RowsDurable)
FAILURE = Reader(OperatorFailed)
