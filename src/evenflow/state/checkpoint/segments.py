"""Log segments: rows in the order in which a worker applied them.

A segment is a series of records: the schema, then rows and tenures as they came, then the end. Where rows of another
schema follow, that schema comes first, or, if it came before, its number. A record is a header
(magic, kind, version, bytes of the body, a number), a checksum, and a body padded with zeros to a multiple of 32, so
that Arrow can use the rows in place. A record's position seeds its checksum, so dropped, doubled or swapped records are
found; the last record holds their number, and its seed includes the blob's name, so that a segment under the name of
another is found, too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import xxhash

from evenflow.errors import InvalidArgument, StoreError
from evenflow.state.store.base import Part, corrupt, mark_of

MAGIC = b"EVLG"
VERSION = 2
"""Of schemas that are not the first record; all else has version 1, which earlier readers know."""
HEADER = struct.Struct("<4sBB2xQQ")
"""Magic, kind, version, bytes of the body, number; the checksum of header and body follows."""
CHECKSUM = struct.Struct("<Q")
HEADER_BYTES = HEADER.size + CHECKSUM.size
ALIGN = 32


class RecordKind(IntEnum):
    """What a record holds."""

    SCHEMA = 1
    """The Arrow schema of the rows that follow; without a body, one that came before, by its number in the header."""
    ROWS = 2
    """An Arrow record batch without its schema."""
    TENURE = 3
    """Units (64 bits each) that arrived by a movement, whose number is in the header."""
    END = 4
    """No body; the header has the number of records before it."""


@dataclass(frozen=True, slots=True)
class AppliedRows:
    """Rows that were applied."""

    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Tenure:
    """These units have arrived by movement `move`: their rows from here on were applied after it."""

    move: int
    units: list[int]


class SegmentWriter:
    """Collects the records of one segment. Bodies are not copied: they must not change until the segment is put."""

    def __init__(self, schema: pa.Schema) -> None:
        self.nbytes = 0
        """Bytes of the segment so far."""
        self.records = 0
        """Rows and tenures so far."""
        self._parts: list[Part] = []
        self._count = 0
        self._finished = False
        self._schemas = [schema]
        self._add(RecordKind.SCHEMA, memoryview(schema.serialize()))

    def schema(self, schema: pa.Schema) -> None:
        """The rows that follow have these columns."""
        for number, known in enumerate(self._schemas):
            if known.equals(schema, check_metadata=True):
                self._add(RecordKind.SCHEMA, b"", number, version=VERSION)
                return
        self._add(RecordKind.SCHEMA, memoryview(schema.serialize()), len(self._schemas), version=VERSION)
        self._schemas.append(schema)

    def rows(self, body: Part) -> None:
        """Append a record batch, as serialised by `RecordBatch.serialize`."""
        self._add(RecordKind.ROWS, body)
        self.records += 1

    def tenure(self, move: int, units: list[int]) -> None:
        """Append that units have arrived by movement `move`, a number from 1 on."""
        if move < 1:
            raise InvalidArgument(f"move is {move}: movements are numbered from 1")
        self._add(RecordKind.TENURE, np.asarray(units, "<i8").tobytes(), move)
        self.records += 1

    def finish(self, name: str = "") -> list[Part]:
        """All parts of the segment, to be put under `name`; nothing can be appended afterwards."""
        if not self._finished:
            self._add(RecordKind.END, b"", self._count, mark_of(name))
            self._finished = True
        return self._parts

    def _add(self, kind: RecordKind, body: Part, number: int = 0, mark: int = 0, version: int = 1) -> None:
        if self._finished:
            raise InvalidArgument("the segment is finished: start another")
        view = memoryview(body).cast("B")
        head = HEADER.pack(MAGIC, kind, version, view.nbytes, number)
        padding = -view.nbytes % ALIGN
        self._parts += [head + CHECKSUM.pack(_checksum(head, view, self._count ^ mark)), view]
        if padding:
            self._parts.append(bytes(padding))
        self._count += 1
        self.nbytes += HEADER_BYTES + view.nbytes + padding


def read_segment(content: Part, name: str = "") -> tuple[pa.Schema, Iterator[AppliedRows | Tenure]]:
    """The schema, and an iterator over the records; rows use the memory of `content`.

    Damage raises a `CorruptState` with the blob and the byte when the iterator comes to it: only an iterator that has
    come to its end has checked the whole segment.
    """
    records = _records(memoryview(content).cast("B"), name)
    offset, kind, _, body = next(records, (0, RecordKind.END, 0, memoryview(b"")))
    if kind != RecordKind.SCHEMA:
        raise corrupt(name, offset, f"the first record is of kind {kind}, not a schema")
    schema = _schema(body, offset, name)
    return schema, _contents(records, schema, name)


def renamed_segment(content: Part, name: str, new: str) -> list[Part]:
    """The parts of a segment that is to be put under another name; it is checked first."""
    for _ in read_segment(content, name)[1]:
        pass
    view = memoryview(content).cast("B")
    head = view[-HEADER_BYTES : -CHECKSUM.size]  # of the last record, which has no body
    count = HEADER.unpack(head)[-1]
    return [view[: -CHECKSUM.size], CHECKSUM.pack(_checksum(head, view[:0], count ^ mark_of(new)))]


def _schema(body: memoryview, offset: int, name: str) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(body))
    except (pa.ArrowException, OSError) as error:
        raise corrupt(name, offset, f"its schema cannot be read: {error}") from error


def _contents(
    records: Iterator[tuple[int, int, int, memoryview]], schema: pa.Schema, name: str
) -> Iterator[AppliedRows | Tenure]:
    schemas = [schema]
    for offset, kind, number, body in records:
        if kind == RecordKind.SCHEMA:
            if number >= len(schemas) + bool(body):
                raise corrupt(name, offset, f"it has {len(schemas)} schemas so far, and speaks of number {number}")
            schema = _schema(body, offset, name) if body else schemas[number]
            schemas += [schema] if body else []
        elif kind == RecordKind.ROWS:
            try:
                yield AppliedRows(pa.ipc.read_record_batch(pa.py_buffer(body), schema))
            except (pa.ArrowException, OSError) as error:
                raise corrupt(name, offset, f"its rows cannot be read: {error}") from error
        elif kind == RecordKind.TENURE:
            yield Tenure(number, np.frombuffer(body, "<i8").tolist())
        else:
            raise corrupt(name, offset, f"there is no kind {kind} of records, or not here")


def _records(view: memoryview, name: str) -> Iterator[tuple[int, int, int, memoryview]]:
    """Offset, kind, number and body of each record but the last, checked."""
    offset = count = 0
    while True:
        body_at = offset + HEADER_BYTES
        if body_at > view.nbytes:
            raise corrupt(name, offset, f"it ends in the middle: record {count} is missing")
        magic, kind, version, length, number = HEADER.unpack_from(view, offset)
        if magic != MAGIC:
            raise corrupt(name, offset, f"record {count} starts with {bytes(magic)!r}, not {MAGIC!r}")
        end = body_at + length + -length % ALIGN
        if end > view.nbytes:
            raise corrupt(name, offset, f"of record {count} {view.nbytes - body_at} bytes of {length} are there")
        body, padding = view[body_at : body_at + length], view[body_at + length : end]
        head = view[offset : offset + HEADER.size]
        sums = {_checksum(head, body, count ^ mark) for mark in ({0, mark_of(name)} if kind == RecordKind.END else {0})}
        if CHECKSUM.unpack_from(view, offset + HEADER.size)[0] not in sums or any(padding):
            raise corrupt(name, offset, f"record {count} fails its checksum, or is of another blob")
        if version > VERSION:
            raise StoreError(f"blob {name} has version {version}, this evenflow reads up to {VERSION}: install a newer")
        if kind == RecordKind.END:
            break
        yield offset, kind, number, body
        offset, count = end, count + 1
    if number != count or end != view.nbytes:
        raise corrupt(name, offset, f"it ends after {count} records of {number}, and {view.nbytes - end} bytes follow")


def _checksum(head: bytes | memoryview, body: memoryview, number: int) -> int:
    return xxhash.xxh3_64_intdigest(body, seed=xxhash.xxh3_64_intdigest(head, seed=number))
