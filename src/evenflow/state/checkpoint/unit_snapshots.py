"""Unit snapshots: the states of some units in one blob, each of which can be read by itself.

A blob is a header (magic, version, bytes and checksum of the index, checksum of the header itself), the index, and the
states. A state is its pickle (protocol 5) and the buffers that the pickle leaves out, each padded with zeros to a
multiple of 64; its checksum covers the padding and is seeded with the unit. Unpickling runs code: anyone who can write
to a checkpoint can run code in the cluster, unless the checkpoint has a key (`sealed`).
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import xxhash

from evenflow.errors import StoreError
from evenflow.state.store.base import Part, corrupt, mark_of

MAGIC = b"EVUN"
VERSION = 1
HEADER = struct.Struct("<4sB3xQQ")
"""Magic, version, bytes of the index, checksum of the index; the checksum of the header follows."""
CHECKSUM = struct.Struct("<Q")
INDEX_AT = HEADER.size + CHECKSUM.size
ALIGN = 64
FIRST = 64 * 1024
"""Bytes of the first read, which most often has the whole index."""
RUN = 8 * 1024 * 1024
"""Adjacent units are read together up to this many bytes: an array that lives on keeps all of them in memory."""

_ENTRY = np.dtype([("unit", "<i8"), ("offset", "<u8"), ("buffers", "<u8"), ("checksum", "<u8")])
_LENGTH = np.dtype("<u8")

UnitState: TypeAlias = Any
"""A unit's state as its operator gives it: a user's value, which can be pickled."""
Get = Callable[[int, int], Part]
"""Reads bytes of a blob, given the start and the length: `functools.partial(store.get, name)`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where the state of one unit is."""

    unit: int
    offset: int
    """In bytes from the end of the index."""
    lengths: tuple[int, ...]
    """Bytes of the pickle, then of each of its buffers."""
    checksum: int

    @property
    def nbytes(self) -> int:
        """Bytes of the state, with padding."""
        return sum(_padded(length) for length in self.lengths)


@dataclass(frozen=True, slots=True)
class Index:
    """The index of a snapshot."""

    start: int
    """The byte at which the states begin."""
    entries: dict[int, Entry]
    """By unit, where its state is."""


def pack_units(states: Mapping[int, UnitState], *, copy: bool = False, name: str = "") -> list[Part]:
    """The parts of a snapshot, to be put under `name`: under another name it cannot be read.

    Arrays are not copied: the parts are views of the states' own memory. With `copy=True` they are, so that the states
    may change before the parts are put; otherwise the snapshot would be a mixture, and fail its checksums.
    """
    entries: list[Entry] = []
    parts: list[Part] = []
    offset = 0
    for unit in sorted(states):
        views = [view if not copy else memoryview(bytes(view)) for view in _pickled(unit, states[unit])]
        digest = xxhash.xxh3_64(seed=unit)
        for view in views:
            for piece in (view, bytes(_padded(view.nbytes) - view.nbytes)):
                if len(piece):
                    digest.update(piece)
                    parts.append(piece)
        entry = Entry(unit, offset, tuple(view.nbytes for view in views), digest.intdigest())
        entries.append(entry)
        offset += entry.nbytes
    index = _index_bytes(entries)
    head = HEADER.pack(MAGIC, VERSION, len(index), xxhash.xxh3_64_intdigest(index))
    return [head + CHECKSUM.pack(xxhash.xxh3_64_intdigest(head, seed=mark_of(name))) + index, *parts]


def read_index(get: Get, name: str = "") -> Index:
    """Read the index of a snapshot, and no state."""
    first = memoryview(get(0, FIRST))
    if first.nbytes < INDEX_AT:
        raise corrupt(name, 0, f"it has {first.nbytes} bytes, fewer than a header")
    magic, version, length, checksum = HEADER.unpack_from(first)
    if magic != MAGIC:
        raise corrupt(name, 0, f"it starts with {bytes(magic)!r}, not {MAGIC!r}")
    sums = [xxhash.xxh3_64_intdigest(first[: HEADER.size], seed=mark) for mark in (0, mark_of(name))]
    if CHECKSUM.unpack_from(first, HEADER.size)[0] not in sums:
        raise corrupt(name, 0, "its header fails its checksum, or is of another blob")
    if version > VERSION:
        raise StoreError(f"blob {name} has version {version}, this evenflow reads up to {VERSION}: install a newer")
    end = INDEX_AT + length
    index = first[INDEX_AT:end] if end <= first.nbytes else memoryview(get(INDEX_AT, length))
    if index.nbytes != length or xxhash.xxh3_64_intdigest(index) != checksum:
        raise corrupt(name, INDEX_AT, f"its index of {length} bytes fails its checksum, or is cut off")
    return Index(end, {entry.unit: entry for entry in _entries(index)})


def load_units(get: Get, units: Iterable[int], name: str = "", index: Index | None = None) -> dict[int, UnitState]:
    """The states of units, as far as the snapshot has them; arrays in them are writable if they were before."""
    known = read_index(get, name) if index is None else index
    wanted = [known.entries[unit] for unit in set(units) & known.entries.keys()]
    return {entry.unit: _unpickled(entry, state, name) for entry, state in _states(get, known.start, wanted, name)}


def check_units(get: Get, name: str = "") -> Index:
    """Read a whole snapshot and check it; nothing is unpickled."""
    index = read_index(get, name)
    for _ in _states(get, index.start, list(index.entries.values()), name):
        pass
    return index


def renamed_units(content: Part, name: str, new: str) -> list[Part]:
    """The parts of a snapshot that is to be put under another name; it is checked first."""
    view = memoryview(content).cast("B")
    check_units(lambda start, length: view[start : start + length], name)
    head = view[: HEADER.size]
    return [head, CHECKSUM.pack(xxhash.xxh3_64_intdigest(head, seed=mark_of(new))), view[INDEX_AT:]]


def _pickled(unit: int, state: UnitState) -> list[memoryview]:
    buffers: list[pickle.PickleBuffer] = []
    try:
        body = pickle.dumps(state, protocol=5, buffer_callback=buffers.append)
        return [memoryview(body), *(buffer.raw() for buffer in buffers)]
    except BaseException as error:  # pickling runs the user's code: anything may be raised
        raise StoreError(f"the state of unit {unit} cannot be pickled: {type(error).__name__}: {error}") from error


def _unpickled(entry: Entry, state: memoryview, name: str) -> UnitState:
    pieces, at = [], 0
    for length in entry.lengths:
        pieces.append(state[at : at + length])
        at += _padded(length)
    try:
        return pickle.loads(pieces[0], buffers=pieces[1:])
    except Exception as error:  # the bytes passed their checksum, so the code has changed
        raise StoreError(
            f"the state of unit {entry.unit} in blob {name} cannot be unpickled: {type(error).__name__}: {error}; "
            "have the code here that wrote it"
        ) from error


def _states(get: Get, start: int, entries: list[Entry], name: str) -> Iterator[tuple[Entry, memoryview]]:
    """The bytes of each state, checked and writable."""
    for run in _runs(sorted(entries, key=lambda entry: entry.offset)):
        first = run[0].offset
        length = sum(entry.nbytes for entry in run)
        content = memoryview(get(start + first, length))
        if content.readonly:
            content = memoryview(bytearray(content))
        for entry in run:
            state = content[entry.offset - first : entry.offset - first + entry.nbytes]
            if state.nbytes != entry.nbytes:
                raise corrupt(name, start + entry.offset, f"it ends in the middle of unit {entry.unit}")
            if xxhash.xxh3_64_intdigest(state, seed=entry.unit) != entry.checksum:
                raise corrupt(name, start + entry.offset, f"unit {entry.unit} fails its checksum")
            yield entry, state


def _runs(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Entries that are adjacent, in lists of up to RUN bytes."""
    run: list[Entry] = []
    for entry in entries:
        if run and (
            run[-1].offset + run[-1].nbytes != entry.offset or entry.offset + entry.nbytes - run[0].offset > RUN
        ):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _index_bytes(entries: list[Entry]) -> bytes:
    """The number of entries, a row each, all lengths, and zeros so that the states begin at a multiple of 64."""
    rows = [(entry.unit, entry.offset, len(entry.lengths), entry.checksum) for entry in entries]
    lengths = [length for entry in entries for length in entry.lengths]
    index = CHECKSUM.pack(len(entries)) + np.array(rows, _ENTRY).tobytes() + np.array(lengths, _LENGTH).tobytes()
    return index + bytes(-(INDEX_AT + len(index)) % ALIGN)


def _entries(index: memoryview) -> Iterator[Entry]:
    (count,) = CHECKSUM.unpack_from(index)
    table = np.frombuffer(index, _ENTRY, count, CHECKSUM.size)
    total = int(table["buffers"].sum())
    lengths = np.frombuffer(index, _LENGTH, total, CHECKSUM.size + table.nbytes).tolist()
    at = 0
    for unit, offset, buffers, checksum in table.tolist():
        yield Entry(unit, offset, tuple(lengths[at : at + buffers]), checksum)
        at += buffers


def _padded(length: int) -> int:
    return length + -length % ALIGN
