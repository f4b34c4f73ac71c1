"""The codec of messages: msgpack in frames. Arrays travel as raw bytes, large ones compressed.

Any bytes give a message or `ProtocolError`, which names the message and the field. See `evenflow.model.messages`.
"""

from __future__ import annotations

import struct
import zlib
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.msgpack import Ext

from evenflow.errors import ProtocolError
from evenflow.model.messages import (
    Batches,
    Counts,
    MarkedUnits,
    Message,
    Opening,
    OperatorFailed,
    RowsDurable,
    Table,
    ToController,
    ToFeeder,
    ToWorker,
    Units,
)
from evenflow.runtime.wire.frames import Frame, Kind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SMALL = 16 * 1024
"""Arrays up to this many bytes are not worth compressing."""
ARRAY_BYTES = 32 * 1024 * 1024
"""All arrays of one message together, unpacked: a million units have 12 MB of numbers and counts."""
BODY_BYTES = ARRAY_BYTES + 4 * 1024 * 1024
"""No message has a larger body: its arrays, even if they do not compress, and 4 MB for the rest. The limit is tight
because lists and tables take more than ten times their bytes once they are objects."""
CODES = {"<i4": 1, "<i8": 2}
"""The code of the msgpack extension that holds an array, by the array's dtype as numpy calls it."""
SIZE = struct.Struct("<Q")
"""In front of an array's data: its bytes, unpacked. The data are compressed if they have another size. Eight bytes
keep numbers aligned."""

T = TypeVar("T", bound=msgspec.Struct)
Body = bytes | bytearray | memoryview
_DTYPES: dict[object, str] = {Units: "<i4", Counts: "<i8", Batches: "<i8"}
"""The dtypes of arrays, by the type of the field."""
_REFUSED = (msgspec.DecodeError, ValueError, RecursionError, MemoryError)


class _Tag(msgspec.Struct):
    type: str = ""


class Reader(Generic[T]):
    """Decodes one kind of message, or one of several.

    In a field whose type msgspec does not know it would decode anything, and nested lists take 70 times their bytes.
    So arrays are decoded as msgpack extensions, which cannot nest (`_wire_class`), and then made into arrays.
    """

    def __init__(self, kinds: type[T]) -> None:
        classes: tuple[type[T], ...] = get_args(kinds) or (kinds,)
        self._kinds = {_wire_class(cls): cls for cls in classes}
        self._decoder = msgspec.msgpack.Decoder(Union[tuple(self._kinds)])  # noqa: UP007

    def read(self, frame: Frame) -> T:
        """The message in a frame's body."""
        return self.decode(frame.body, f"a {frame.kind.name} frame")

    def decode(self, body: Body, what: str) -> T:
        """The message in a body, which errors call `what`."""
        size = memoryview(body).nbytes
        if size > BODY_BYTES:
            raise ProtocolError(f"{what} has {size} bytes, over the limit of {BODY_BYTES} bytes for a message")
        try:
            found = self._decoder.decode(body)
            cls = self._kinds[type(found)]
            return found if type(found) is cls else _Unpacker().message(found, cls)
        except _REFUSED as error:
            raise ProtocolError(f"{what} {_described(body, error)}") from None


class _Unpacker:
    """Makes the arrays of one message, which have a limit together."""

    def __init__(self) -> None:
        self._left = ARRAY_BYTES

    def message(self, found: Any, cls: type[T]) -> T:
        """The message of this class whose arrays are still extensions in `found`."""
        fields = {name: getattr(found, name) for name in found.__struct_fields__}
        for name, kind in _array_fields(cls).items():
            value = fields[name]
            try:
                if isinstance(value, dict):
                    fields[name] = {key: self._array(each, kind) for key, each in value.items()}
                else:
                    fields[name] = self._array(value, kind)
            except ValueError as error:
                raise ValueError(f"{error} - at `$.{name}`") from None
        return cls(**fields)

    def _array(self, value: Ext, kind: object) -> npt.NDArray[np.integer]:
        import numpy as np

        dtype = _DTYPES[kind]
        if value.code != CODES[dtype]:
            found = next((each for each, code in CODES.items() if code == value.code), f"extension {value.code}")
            raise ValueError(f"it holds '{found}', not '{dtype}'")
        data = memoryview(value.data)
        if len(data) < SIZE.size:
            raise ValueError("an array has no size")
        (size,) = SIZE.unpack_from(data)
        self._left -= size
        if self._left < 0:
            raise ValueError(f"its arrays take more than {ARRAY_BYTES} bytes")
        made = np.frombuffer(_unpacked(data[SIZE.size :], size), dtype)
        if kind is not Batches and len(made) and made.min() < 0:
            raise ValueError("units and counts are whole numbers from 0 on")
        return made


def packed(message: msgspec.Struct) -> bytes:
    """A message as it stands in a frame's body. `TypeError` if an array has another dtype than its field."""
    for name, kind in _array_fields(type(message)).items():
        value = getattr(message, name)
        for array in value.values() if isinstance(value, dict) else (value,):
            if array.dtype.str != _DTYPES[kind]:
                where = f"{type(message).__name__}.{name}"
                raise TypeError(f"{where} holds '{array.dtype.str}', not '{_DTYPES[kind]}'")
    try:
        return _ENCODER.encode(message)
    except UnicodeEncodeError:  # lone surrogates, in the text of a user's error
        return _ENCODER.encode(_printable(message))


def control(message: Message) -> Frame:
    """A message to or from the controller."""
    return Frame(Kind.CONTROL, packed(message))


def _pack(value: object) -> Ext | float:
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()  # type: ignore[no-any-return]
    if not isinstance(value, np.ndarray) or value.dtype.str not in CODES:
        raise TypeError(f"{type(value).__name__} does not go into a message")
    data = value.tobytes()
    small = zlib.compress(data, 1) if len(data) > SMALL else data
    return Ext(CODES[value.dtype.str], SIZE.pack(len(data)) + min(small, data, key=len))


def _unpacked(data: memoryview, size: int) -> Body:
    if len(data) == size:
        return data
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError(f"an array cannot be unpacked: {error}") from None
    if len(found) != size or not reader.eof:
        raise ValueError(f"an array has not the {size} bytes that it should have")
    return found


@cache
def _array_fields(cls: type) -> dict[str, object]:
    """The fields that are arrays, or tables of arrays: which kind of array."""
    found = {field.name: _array_kind(field.type) for field in msgspec.structs.fields(cls)}
    return {name: kind for name, kind in found.items() if kind is not None}


def _array_kind(kind: Any) -> object:
    if kind in _DTYPES:
        return kind
    table = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return _array_kind(get_args(table)[1]) if get_origin(table) is dict else None


def _wire_class(cls: type) -> type:
    """The class with extensions in place of arrays; itself if it has none."""
    arrays = _array_fields(cls)
    if not arrays:
        return cls
    fields: list[Any] = []
    for field in msgspec.structs.fields(cls):
        kind = field.type
        if field.name in arrays:
            kind = Ext if kind in _DTYPES else Table[str, Ext]
        default: Any = {"default": field.default, "default_factory": field.default_factory}
        fields.append((field.name, kind, msgspec.field(**default)))
    tag = cls.__struct_config__.tag  # type: ignore[attr-defined]
    return msgspec.defstruct(cls.__name__, fields, tag=tag, forbid_unknown_fields=True)


def _printable(value: object) -> object:
    """Without lone surrogates."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list() | tuple():
            return [_printable(each) for each in value]
        case dict():
            return {_printable(key): _printable(each) for key, each in value.items()}
        case msgspec.Struct():
            names = value.__struct_fields__
            return msgspec.structs.replace(value, **{name: _printable(getattr(value, name)) for name in names})
    return value


def _described(body: Body, error: Exception) -> str:
    """Says what is wrong with a body."""
    why = str(error)[:300]
    try:
        kind = msgspec.msgpack.decode(body, type=_Tag).type[:50]
    except _REFUSED:
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
MARKED = Reader(MarkedUnits)
ENDED = Reader(RowsDurable)
FAILURE = Reader(OperatorFailed)
