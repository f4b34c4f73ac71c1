"""Fuzzed blobs: a damaged blob is refused, with its name in the error, or reads the same as before."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.errors import CorruptState, StoreError
from evenflow.model.checkpoint import BatchLog
from evenflow.state.checkpoint.chain import QueryRecord, note_operators, query_record
from evenflow.state.checkpoint.manifest import Manifest, decode, encode
from evenflow.state.checkpoint.segments import AppliedRows, SegmentWriter, read_segment
from evenflow.state.checkpoint.unit_snapshots import load_units, pack_units, read_index
from evenflow.state.store.claims.generations import Holding, Mark
from evenflow.state.store.layout import check_format, format_bytes
from tests.support.fuzz_wire import Wrong
from tests.support.mutations import bytes_of
from tests.support.state_memory import Memory


def _joined(parts: list[Any]) -> bytes:
    return b"".join(bytes(memoryview(part).cast("B")) for part in parts)


class Blobs:
    """One kind of blob: how it is written and read."""

    kind = "blob"

    def blob(self, draw: random.Random) -> bytes:
        """A new blob with random content."""
        raise NotImplementedError

    def read(self, blob: bytes) -> Any:
        """The content of a blob."""
        raise NotImplementedError

    def case(self, draw: random.Random) -> str:
        """Change a blob: either it is refused, or its content reads the same."""
        whole = self.blob(draw)
        data = bytes_of(draw, whole)
        try:
            found = self.read(data)
        except (CorruptState, StoreError) as error:
            if self.kind not in str(error):
                raise Wrong(f"a refusal does not name the blob: {error}") from None
            return "refused"
        if found != self.read(whole):
            raise Wrong(f"a {self.kind} was changed, and read all the same")
        return "harmless"


class Manifests(Blobs):
    """Manifests of batches and notes of tasks."""

    kind = "manifest"

    def blob(self, draw: random.Random) -> bytes:
        logs = tuple(BatchLog(epoch, 1, {"0.5": draw.randrange(4)}) for epoch in range(draw.randrange(4)))
        names = tuple(f"r/q/units/{number}.0.5.1" for number in range(draw.randrange(3)))
        return encode(Manifest("r", "q", "op", 9, draw.randrange(99), 1, tuple(range(draw.randrange(4))), names, logs))

    def read(self, blob: bytes) -> Any:
        return decode(blob, self.kind)


class Claims(Blobs):
    """Claims, with the limits of what counts of the claims before."""

    kind = "evenflow.claims/7.00ff"

    def blob(self, draw: random.Random) -> bytes:
        counts = {Mark(number, f"{draw.randrange(256):02x}"): draw.randrange(99) for number in range(draw.randrange(4))}
        about = {"owner": "o", "host": "h", "pid": draw.randrange(9999), "since": 1.5, "beat": 2.5}
        return Holding(about, draw.choice((None, counts)), draw.random() < 0.5).encode(Mark(7, "00ff"))

    def read(self, blob: bytes) -> Any:
        store = Memory()
        store.put(self.kind, [blob])
        return Holding.read(store, Mark(7, "00ff"))


class Lists(Blobs):
    """Lists of the operators of a query."""

    kind = "evenflow.queries/q"

    def blob(self, draw: random.Random) -> bytes:
        store = Memory()
        known = {f"operator {number}": draw.randrange(99) for number in range(draw.randrange(1, 4))}
        note_operators(store, "q", QueryRecord(known, without_us=((0, draw.randrange(99)),)))
        return store.blobs[self.kind]

    def read(self, blob: bytes) -> Any:
        store = Memory()
        store.put(self.kind, [blob])
        return query_record(store, "q")


class Formats(Blobs):
    """Format files."""

    kind = "evenflow.json"

    def blob(self, draw: random.Random) -> bytes:
        return format_bytes()

    def read(self, blob: bytes) -> Any:
        check_format(blob, "here")


class Segments(Blobs):
    """Segments of query logs."""

    kind = "segment"

    def blob(self, draw: random.Random) -> bytes:
        schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
        writer = SegmentWriter(schema)
        for _ in range(draw.randrange(3)):
            values = [draw.randrange(100) for _ in range(draw.randrange(1, 6))]
            arrays = [pa.array(values, pa.int64()), pa.array([str(value) for value in values])]
            writer.rows(memoryview(pa.RecordBatch.from_arrays(arrays, schema=schema).serialize()))
            if draw.random() < 0.3:
                writer.tenure(draw.randrange(1, 9), [1, 2])
        return _joined(writer.finish())

    def read(self, blob: bytes) -> Any:
        _, records = read_segment(bytearray(blob), self.kind)
        return [record.batch.to_pydict() if isinstance(record, AppliedRows) else record for record in records]


class Snapshots(Blobs):
    """Unit snapshots."""

    kind = "snapshot"

    def blob(self, draw: random.Random) -> bytes:
        units = draw.sample(range(9), draw.randrange(1, 4))
        return _joined(pack_units({unit: {"n": draw.randrange(99), "a": np.arange(unit)} for unit in units}))

    def read(self, blob: bytes) -> Any:
        def get(start: int, length: int, whole: bytes = blob) -> bytearray:
            return bytearray(whole[start : start + length])

        index = read_index(partial(get), self.kind)
        states = load_units(get, index.entries, self.kind, index)
        return {unit: (state["n"], state["a"].tolist()) for unit, state in states.items()}
