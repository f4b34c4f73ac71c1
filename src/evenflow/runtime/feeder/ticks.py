"""Time passes for all keys: how the tasks of one micro-batch agree on it, by Spark's own means.

    rows ─► mapInArrow(OrderedFeed): rows go to the workers, and wait there       ─► one note for each share of units
         ─► exchange of the notes, a few bytes each: all rows are with the workers, and durable, before anybody goes on
         ─► mapInArrow(TickFeed): a tick for each unit of its share; results come back as those of any row

Notes say what the evaluation is, which units had rows, and the latest time; ticks are part of the same evaluation, with
partitions numbered from FIRST_SHARE. Time is that of the latest row of the micro-batch, of any key, less the lateness.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenflow.errors import ProtocolError
from evenflow.model.messages import KeyedDirectory
from evenflow.model.routing import FIRST_SHARE
from evenflow.operators.columns import microseconds
from evenflow.operators.timed import END, FLUSH, NOW
from evenflow.runtime.feeder.frame_size import FrameSize
from evenflow.runtime.feeder.hashing import KEY
from evenflow.runtime.feeder.keyed import KeyedFeed, KeyedFeeder

KINDS = 2
"""Stages that an evaluation has: that of the rows, that of the ticks."""
NOTE = "share int, evaluation string, latest bigint, rows bigint, units binary"
RELEASED = 50_000
"""Rows that one frame of ticks lets go, about: so much is sorted and processed at a time."""
MOST_AT_ONCE = 64
"""A frame of ticks has one unit in so many at most, where nobody knows how many rows wait."""


@dataclass(frozen=True, slots=True)
class OrderedFeed:
    """What `mapInArrow` is given for the rows: they go to the workers; notes come out."""

    feed: KeyedFeed
    units: int
    shares: int
    time: tuple[int, str] | None
    """Place and name of the column with the time, if rows wait for theirs."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Feed one task's rows, and say so."""
        seen = _Seen(self.units, self.time)
        feeder = RowFeeder(self.feed, seen)
        for _ in feeder.serve(seen.watched(batches)):
            raise ProtocolError(f"region {self.feed.region}: rows were answered that were to wait")
        notes = [pa.array(range(self.shares), pa.int32())]
        for value, kind in (
            (feeder.evaluation, pa.string()),
            (seen.latest, pa.int64()),
            (seen.rows, pa.int64()),
            (np.packbits(seen.units).tobytes(), pa.binary()),
        ):
            notes.append(pa.array([value] * self.shares, kind))
        yield pa.RecordBatch.from_arrays(notes, names=["share", "evaluation", "latest", "rows", "units"])


class _Seen:
    """What a task has seen of its rows."""

    def __init__(self, units: int, time: tuple[int, str] | None) -> None:
        self.units = np.zeros(units, np.bool_)
        self.rows = 0
        self.latest: int | None = None
        self._time = time

    def watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, counted."""
        for batch in batches:
            self.rows += batch.num_rows
            if self._time is not None and batch.num_rows:
                place, name = self._time
                latest = pc.max(batch.column(place))
                if latest.is_valid:  # times that are null are refused where the rows are
                    found = int(microseconds(pa.repeat(latest, 1), name)[0])
                    self.latest = found if self.latest is None else max(found, self.latest)
            yield batch


class RowFeeder(KeyedFeeder):
    """Feeds rows that wait; knows which units they are of."""

    def __init__(self, feed: KeyedFeed, seen: _Seen) -> None:
        super().__init__(feed.settings, feed, pa.ipc.read_schema(pa.py_buffer(feed.schema)))
        self._identity["kinds"] = KINDS
        self._seen = seen

    @property
    def evaluation(self) -> str:
        """What makes the ticks part of the same evaluation, and attempt."""
        own = ("partition", "attempt", "task")
        return json.dumps({name: value for name, value in self._identity.items() if name not in own})

    def _arrivals(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        units, rows = super()._arrivals()
        self._seen.units[units] = True
        return units, rows


@dataclass(frozen=True, slots=True)
class TickFeed:
    """What `mapInArrow` is given for the notes: ticks go to the workers; the results of the rows come out."""

    feed: KeyedFeed
    units: int
    shares: int
    lateness: int | None
    """In microseconds; None if rows do not wait beyond their micro-batch."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send the ticks of the shares that are here."""
        notes = [batch for batch in batches if batch.num_rows]
        if not notes:
            return  # there was not even an empty partition
        told = pa.Table.from_batches(notes)
        shares, evaluations = (set(told.column(name).to_pylist()) for name in ("share", "evaluation"))
        if len(evaluations) != 1:
            raise ProtocolError(f"region {self.feed.region}: notes of {len(evaluations)} evaluations came as one")
        units, now, partition = self._due(told), self._now(told), FIRST_SHARE + min(shares)
        ticks = [] if now is None or not len(units) else [self._ticks(units, now, partition)]
        rows = sum(told.column("rows").to_pylist()) // len(shares)
        size = max(1, RELEASED * self.units // max(1, rows))
        if self.lateness is not None:  # more rows may wait than have come now
            size = min(size, max(1, self.units // MOST_AT_ONCE))
        yield from TickFeeder(self.feed, json.loads(evaluations.pop()), partition, size).serve(ticks)

    def _due(self, told: pa.Table) -> npt.NDArray[np.int64]:
        """The units of these shares that need a tick: all if there is time to tell, else those that had rows."""
        mine = np.isin(np.arange(self.units) % self.shares, told.column("share").to_numpy())
        if self.lateness is None or not self.feed.streaming:
            had = np.zeros(self.units, np.bool_)
            for marks in set(told.column("units").to_pylist()):
                had |= np.unpackbits(np.frombuffer(marks, np.uint8), count=self.units).astype(np.bool_)
            mine &= had
        return np.flatnonzero(mine)

    def _now(self, told: pa.Table) -> int | None:
        """What the ticks say; None if no row has told the time."""
        if not self.feed.streaming:
            return END
        if self.lateness is None:
            return FLUSH
        latest = pc.max(told.column("latest")).as_py()
        return None if latest is None else int(latest) - self.lateness

    def _ticks(self, units: npt.NDArray[np.int64], now: int, partition: int) -> pa.RecordBatch:
        """A row for each unit: the time, a hash that falls on the unit (none for that of null keys), the partition."""
        hashes = pa.array(units, mask=units == self.units - 1)
        times, partitions = pa.repeat(pa.scalar(now, NOW.type), len(units)), pa.repeat(partition, len(units))
        return pa.RecordBatch.from_arrays([times, hashes, partitions], names=[NOW.name, KEY, "partition"])


class TickFeeder(KeyedFeeder):
    """Feeds ticks, `size` a frame. What they cost says nothing of what rows cost, so it is not told."""

    def __init__(self, feed: KeyedFeed, evaluation: dict[str, Any], partition: int, size: int) -> None:
        super().__init__(feed.settings, feed, pa.ipc.read_schema(pa.py_buffer(feed.schema)))
        own = self._identity["stage"]
        self._identity |= evaluation | {"partition": partition, "own_stage": own}
        self._ticks = size

    def _learn(self, directory: KeyedDirectory) -> None:
        super()._learn(directory)
        self._size = _Even(self._ticks)

    def _arrivals(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        units, rows = super()._arrivals()
        return units, np.zeros_like(rows)  # these units change, but no load came with it

    def _report(self, now: float) -> None:
        self._reported = now


class _Even(FrameSize):
    """Frames of one size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._rows = size

    def rows(self, workers: int, worker: int | None = None) -> int:
        return self._rows


def ordered(
    rows: DataFrame,
    feed: KeyedFeed,
    units: int,
    shares: int,
    time: tuple[int, str] | None,
    lateness: int | None,
    declared: StructType,
) -> DataFrame:
    """The results of rows that wait for their time."""
    notes = rows.mapInArrow(OrderedFeed(feed, units, shares, time), NOTE)
    ticks = replace(feed, names=(NOW.name, KEY), key_place=None, reads=None, modulo=False)
    return notes.repartitionById(shares, "share").mapInArrow(TickFeed(ticks, units, shares, lateness), declared)
