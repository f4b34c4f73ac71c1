"""The query log: the rows of one query that a worker has applied to one operator, so that its state can be rebuilt.

After a frame was applied it is appended, as it came, to a segment in memory; finished segments go into the store. When
all rows of a feeder are applied, it is answered as soon as every segment so far is durable.
At the first frame of a batch, units are saved as they were at the end of the batch before: those longest without a
snapshot first, about as many bytes as were logged in that batch, so that what has to be replayed stays about as large
as the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.operators.keyed import Units
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.worker.limits import LIMITS, WorkerLimits
from evenflow.state.checkpoint.segments import SegmentWriter
from evenflow.state.store.base import Part
from evenflow.state.store.blob_names import log_name, prefix_of, units_name


@dataclass(frozen=True, slots=True, eq=False)
class SegmentPut:
    """A segment of the log is to be put into the store."""

    query_log: QueryLog
    stamp: tuple[int, int]
    name: str
    parts: list[Part]


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotPut:
    """A unit snapshot is to be put into the store."""

    query_log: QueryLog
    name: str
    epoch: int
    """The batch whose end the snapshot shows."""
    units: npt.NDArray[np.int32]
    size: int
    """Bytes."""


@dataclass(slots=True)
class _Waiting:
    """A feeder that waits until the first so many segments are durable."""

    feeder: Channel
    segments: int


@dataclass(slots=True)
class QueryLog:
    """One query, one operator, one worker."""

    region: str
    evaluation: str
    writer: str
    """The worker, a dot, and a number that stands for this life of it."""
    units: int
    limits: WorkerLimits = LIMITS
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
    """Bytes to be saved at each batch, so that all units are saved within `limits.cycle` batches."""
    _snapshots: int = 0
    touched: npt.NDArray[np.int64] = field(init=False)
    """By unit, the latest batch in which it had rows."""
    _saved: npt.NDArray[np.int64] = field(init=False)
    """By unit, the batch at whose end it was saved last."""

    def __post_init__(self) -> None:
        self.touched = np.full(self.units, -1, np.int64)
        self._saved = np.full(self.units, -1, np.int64)

    @property
    def stamp(self) -> tuple[int, int]:
        """The batch and the attempt whose rows are logged now."""
        return self.epoch, self.attempt

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
        """Rows of an attempt have come; returns whether they are its first."""
        if (epoch, attempt) == self.stamp:
            return False
        if (epoch, attempt) < self.stamp:
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

    def log(self, body: bytes | bytearray | memoryview, schema: pa.Schema, units: Units) -> list[SegmentPut]:
        """Append rows that have just been applied; returns the segments that are finished now."""
        finished: list[SegmentPut] = []
        if self._open is None:
            self._open = SegmentWriter(schema)
        elif schema is not self._schema and not self._schema.equals(schema, check_metadata=True):
            self._open.schema(schema)  # rows of several inputs, or ticks
        self._schema = schema
        for move, arrived in self._tenures:
            self._open.tenure(move, arrived)
        self._tenures = []
        self._open.rows(body)
        self.touched[units] = self.epoch
        if self._open.nbytes >= self._segment_bytes:
            finished += self._close_segment()
        return finished

    @property
    def _segment_bytes(self) -> int:
        """How large the open segment may get."""
        sizes = self.limits.segment_bytes
        return sizes[min(self._segments, len(sizes) - 1)]

    def _close_segment(self) -> list[SegmentPut]:
        if self._open is None:
            return []
        name = log_name(self._prefix, self.epoch, self.attempt, self.writer, self._segments)
        self._logged += self._open.nbytes
        finished = SegmentPut(self, self.stamp, name, self._open.finish(name))
        self._segments += 1
        self._open = None
        return [finished]

    def end(self, feeder: Channel) -> list[SegmentPut]:
        """All rows of a feeder are applied; returns the segments that are finished now.

        `acknowledged` names the feeder when its rows are durable.
        """
        finished = self._close_segment()
        self._waiting.append(_Waiting(feeder, self._segments))
        return finished

    def segment_put(self, stamp: tuple[int, int], error: str) -> None:
        """The next segment of an attempt is in the store, or cannot be put there."""
        if stamp == self.stamp:
            self.durable += not error
            self.error = self.error or error

    def had_rows(self) -> npt.NDArray[np.int32]:
        """The units that had rows in this batch."""
        return np.flatnonzero(self.touched == self.epoch).astype(np.int32)

    def acknowledged(self) -> list[Channel]:
        """Feeders whose segments are durable now, or never will be (`error`)."""
        done = [each for each in self._waiting if self.error or each.segments <= self.durable]
        self._waiting = [each for each in self._waiting if each not in done]
        return [each.feeder for each in done]

    # -- units

    def arrived(self, move: int, units: list[int], touched: npt.NDArray[np.int64]) -> None:
        """Units have arrived; `touched` has the latest batch in which each had rows elsewhere."""
        self._tenures.append((move, units))
        self.touched[units] = touched
        self._saved[units] = -1

    def latest_batches(self, units: list[int]) -> npt.NDArray[np.int64]:
        """The latest batch in which each of these units had rows, -1 for none."""
        return self.touched[units]

    def disown(self, units: list[int]) -> None:
        """Do not save these units until they have rows here again."""
        self.touched[units] = -1

    def due(self, epoch: int, away: npt.NDArray[np.bool_] | None = None) -> Units:
        """Units that could be saved at the end of a batch, those longest without a snapshot first; not those `away`."""
        unsaved = (self.touched > self._saved) & (self.touched <= epoch)
        dirty = np.flatnonzero(unsaved if away is None else unsaved & ~away).astype(np.int32)
        if not len(dirty):
            self._slice = self._logged = 0
        return dirty[np.argsort(self._saved[dirty], kind="stable")]

    def choose(self, due: Units, sizes: npt.NDArray[np.int64]) -> Units:
        """The units to save now, of the due units, whose state has these sizes in bytes."""
        logged, self._logged = self._logged, 0
        sizes = np.maximum(sizes, 1)
        self._slice = max(self._slice, int(sizes.sum()) // self.limits.cycle)
        most = min(self.limits.slice_bytes, max(logged, self._slice))
        return due[: 1 + int(np.searchsorted(np.cumsum(sizes), most))]

    def snapshot_name(self, epoch: int) -> str:
        """The name of the next unit snapshot."""
        return units_name(self._prefix, epoch, self.writer, self._snapshots)

    def save(self, name: str, epoch: int, units: Units, parts: Sequence[Part]) -> SnapshotPut:
        """Units are put as a snapshot of the end of a batch: from now on they count as saved."""
        self._snapshots += 1
        self._saved[units] = epoch
        return SnapshotPut(self, name, epoch, units, sum(memoryview(part).nbytes for part in parts))

    def not_saved(self, units: npt.NDArray[np.int32], epoch: int) -> None:
        """A snapshot could not be put, or is not used: its units are due again, unless they were saved since."""
        self._saved[units[self._saved[units] == epoch]] = -1


def query_of(evaluation: str) -> str:
    """The id of the query that an evaluation is."""
    return evaluation.removeprefix("query ")
