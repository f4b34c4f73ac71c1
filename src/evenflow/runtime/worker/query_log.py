"""The query log: what a worker notes of one query's use of one operator so that it can be rebuilt elsewhere.

Frames are appended, as they came, to a segment in memory after they were applied; full segments go to the blob
writer. Who asks for the end (a feeder whose rows are all applied) is answered when every segment so far is durable.
At the first frame of a batch, units are saved as they were at the end of the batch before: those longest without a
snapshot first, about as many bytes as were logged in that batch, so that what has to be replayed stays about as large
as the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.operators.keyed import Units
from evenflow.runtime.worker.blob_writer import BlobWriter
from evenflow.runtime.worker.instances import State
from evenflow.state.checkpoint.segments import SegmentWriter
from evenflow.state.checkpoint.unit_snapshots import pack_units
from evenflow.state.store.blob_names import log_name, prefix_of, units_name

SEGMENT_BYTES = (1 << 20, 2 << 20, 4 << 20, 8 << 20)
"""How large segments get: small at first, so that little is left to be put when a batch ends."""
CYCLE = 64
"""After at most so many batches every unit that changed has been saved."""
SLICE_BYTES = 32 << 20
"""Saved at the beginning of one batch, at most: rows wait meanwhile."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment was to be put."""

    query_log: QueryLog
    attempt: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Units were to be saved."""

    query_log: QueryLog
    name: str
    epoch: int
    units: npt.NDArray[np.int32]
    size: int


@dataclass(slots=True)
class _Waiting:
    """Somebody who wants to know when all before is durable."""

    who: Any
    segments: int


@dataclass(slots=True)
class QueryLog:
    """One query, one operator, one worker."""

    region: str
    evaluation: str
    writer: str
    """The worker, a dot, and a number that stands for this life of it."""
    blob_writer: BlobWriter
    units: int
    epoch: int = -1
    attempt: int = 0
    durable: int = 0
    """Segments of this attempt that are in the store; they are put in order."""
    error: str = ""
    """Why this attempt cannot become durable."""
    _segments: int = 0
    _open: SegmentWriter | None = None
    _schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    _tenures: list[tuple[int, list[int]]] = field(default_factory=list)
    _waiting: list[_Waiting] = field(default_factory=list)
    _logged: int = 0
    _slice: int = 0
    """Bytes to be saved a batch so that all that was to be saved is in CYCLE batches, however few are left by then."""
    _snapshots: int = 0
    touched: npt.NDArray[np.int64] = field(init=False)
    """By unit, the latest batch in which it had rows."""
    _saved: npt.NDArray[np.int64] = field(init=False)
    """By unit, the batch at whose end it was saved last."""

    def __post_init__(self) -> None:
        self.touched = np.full(self.units, -1, np.int64)
        self._saved = np.full(self.units, -1, np.int64)

    @property
    def _prefix(self) -> str:
        return prefix_of(self.region, query_of(self.evaluation))

    # -- batches

    def resume(self, epoch: int, attempt: int, saved: npt.NDArray[np.int64], touched: npt.NDArray[np.int64]) -> None:
        """State as it was before an attempt has been loaded; rows of earlier attempts are not taken any more."""
        self._begin(epoch, attempt)
        self._tenures = []
        self._saved, self.touched = saved, touched

    def enter(self, epoch: int, attempt: int) -> bool:
        """Rows of an attempt are here; whether they are the first of it."""
        if (epoch, attempt) == (self.epoch, self.attempt):
            return False
        if (epoch, attempt) < (self.epoch, self.attempt):
            raise ProtocolError(
                f"rows of batch {epoch}, attempt {attempt}, came after those of batch {self.epoch}, attempt "
                f"{self.attempt}: they are too late"
            )
        self._begin(epoch, attempt)
        return True

    def _begin(self, epoch: int, attempt: int) -> None:
        self.epoch, self.attempt = epoch, attempt
        self.durable = self._segments = 0
        self.error = ""
        self._open = None
        self._waiting = []

    # -- the log

    def log(self, body: bytes | bytearray | memoryview, schema: pa.Schema, units: Units) -> None:
        """Note rows that have just been applied."""
        if self._open is not None and not self._schema.equals(schema):
            self._close_segment()  # rows, and ticks: a segment has rows of one kind
        if self._open is None:
            self._open, self._schema = SegmentWriter(schema), schema
        for move, arrived in self._tenures:
            self._open.tenure(move, arrived)
        self._tenures = []
        self._open.rows(body)
        self.touched[units] = self.epoch
        if self._open.nbytes >= SEGMENT_BYTES[min(self._segments, len(SEGMENT_BYTES) - 1)]:
            self._close_segment()

    def _close_segment(self) -> None:
        if self._open is None:
            return
        name = log_name(self._prefix, self.epoch, self.attempt, self.writer, self._segments)
        self._logged += self._open.nbytes
        self.blob_writer.put(name, self._open.finish(name), Segment(self, (self.epoch, self.attempt)))
        self._segments += 1
        self._open = None

    def end(self, who: Any) -> None:
        """A feeder's rows are all applied: it is told by `acknowledged` when they are durable."""
        self._close_segment()
        self._waiting.append(_Waiting(who, self._segments))

    def put(self, attempt: tuple[int, int], error: str) -> None:
        """The next segment of an attempt is in the store, or cannot be put there."""
        if attempt == (self.epoch, self.attempt):
            self.durable += not error
            self.error = self.error or error

    def acknowledged(self) -> list[Any]:
        """Those who have waited for something that is durable now, or never will be (`error`)."""
        done = [each for each in self._waiting if self.error or each.segments <= self.durable]
        self._waiting = [each for each in self._waiting if each not in done]
        return [each.who for each in done]

    # -- units

    def arrived(self, move: int, units: list[int], touched: npt.NDArray[np.int64]) -> None:
        """Units have come from elsewhere, where they had rows last in the batches `touched`."""
        self._tenures.append((move, units))
        self.touched[units] = touched
        self._saved[units] = -1

    def save(self, operator: State, epoch: int, away: npt.NDArray[np.bool_] | None = None) -> None:
        """Save some of the units, as they are now at the end of a batch; not those that are `away`."""
        unsaved = (self.touched > self._saved) & (self.touched <= epoch)
        dirty = np.flatnonzero(unsaved if away is None else unsaved & ~away).astype(np.int32)
        logged, self._logged = self._logged, 0
        if not len(dirty):
            self._slice = 0
            return
        dirty = dirty[np.argsort(self._saved[dirty], kind="stable")]
        sizes = np.maximum(operator.sizes(dirty), 1)
        self._slice = max(self._slice, int(sizes.sum()) // CYCLE)
        most = min(SLICE_BYTES, max(logged, self._slice))
        chosen = dirty[: 1 + int(np.searchsorted(np.cumsum(sizes), most))]
        name = units_name(self._prefix, epoch, self.writer, self._snapshots)
        parts = pack_units({int(unit): operator.snapshot(int(unit)) for unit in np.sort(chosen)}, copy=True, name=name)
        self._snapshots += 1
        self._saved[chosen] = epoch
        size = sum(memoryview(part).nbytes for part in parts)
        self.blob_writer.put(name, parts, Snapshot(self, name, epoch, chosen, size))

    def not_saved(self, units: npt.NDArray[np.int32], epoch: int) -> None:
        """A snapshot could not be put, or is not used: its units are as good as not saved, unless saved again since."""
        self._saved[units[self._saved[units] == epoch]] = -1


def query_of(evaluation: str) -> str:
    """The id of the query that an evaluation is."""
    return evaluation.removeprefix("query ")
