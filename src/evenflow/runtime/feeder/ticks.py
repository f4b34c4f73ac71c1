"""Ticks: how the tasks of one micro-batch agree on the time, which passes for all keys, by means of Spark.

    rows ─► mapInArrow(RowTask): rows go to the workers, and wait there       ─► one note for each share of units
         ─► exchange of the notes, a few bytes each: all rows are with the workers, and durable, before anybody goes on
         ─► mapInArrow(TickTask): a tick for each unit of its share; results come back as those of any row

Notes say what the evaluation is, which units had rows, and the latest time of each input; ticks are part of the same
evaluation, with partitions numbered from FIRST_SHARE. Of one input, time is that of the latest row of the micro-batch,
of any key, less the lateness. Of several, ticks say that of each, and units keep how far each is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from evenflow.errors import ProtocolError
from evenflow.model.messages import FeederReport
from evenflow.model.routing import FIRST_SHARE
from evenflow.operators.columns import microseconds
from evenflow.operators.time.inputs import Inputs
from evenflow.operators.time.timed import END, FLUSH, NEVER, NOW, tick_fields
from evenflow.runtime.feeder.connections import EvaluationIdentity, Identity
from evenflow.runtime.feeder.frame_size import FrameSize
from evenflow.runtime.feeder.hashing import KEY
from evenflow.runtime.feeder.keyed.feed import KeyedFeed
from evenflow.runtime.feeder.keyed.feeder import KeyedFeeder
from evenflow.runtime.feeder.keyed.skew import Arrivals
from evenflow.runtime.feeder.latency_counter import LatencyCounter
from evenflow.runtime.feeder.task import REAL, Environment

KINDS = 2
"""Stages of an evaluation: that of the rows, and that of the ticks."""
OWN = ("partition", "attempt", "task")
"""The parts of a task's identity that are its own, not the evaluation's."""
NOTE = "share int, evaluation string, latest string, rows bigint, units binary, arrived string"
BEGUN = "begun"
"""The column of a note that says when the micro-batch began, in microseconds: the same when it runs again."""
RELEASED = 50_000
"""Rows that one frame of ticks releases, about: they are sorted and processed at one time."""
MOST_ARRIVALS = 64
"""Times of arrival that a note has, at most."""
MOST_AT_ONCE = 64
"""Where it is not known how many rows wait, a frame of ticks has at most one in so many of the units."""


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """The column by which time goes, and which input a row is of."""

    place: int
    name: str
    inputs: Inputs | None = None
    input_place: int = 0

    def latest(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """The latest time among rows, of each input; NEVER if it has none."""
        column = rows.column(self.place)
        if self.inputs is not None:
            return self.inputs.latest(rows.column(self.input_place), column, self.name)
        last = pc.max(column)  # times that are null are refused where the rows are
        return microseconds(pa.repeat(last, 1), self.name) if last.is_valid else np.full(1, NEVER)


@dataclass(frozen=True, slots=True)
class RowTask:
    """The function for `mapInArrow` over the rows: they go to the workers; notes come out."""

    feed: KeyedFeed
    units: int
    shares: int
    clock: TimeColumn | None
    """Where rows have their time, if ticks tell it."""

    def __call__(self, batches: Iterable[pa.RecordBatch], environment: Environment = REAL) -> Iterator[pa.RecordBatch]:
        """Feed one task's rows, and say so."""
        seen = _Seen(self.units, self.clock, environment.wall)
        around = replace(environment, identity=lambda: environment.identity() | {"kinds": KINDS})
        feeder = KeyedFeeder(self.feed, around, arrivals=seen.marked, results=False)
        for _ in feeder.serve(seen.watched(batches)):
            raise ProtocolError(f"region {self.feed.region}: rows were answered that were to wait")
        evaluation = {name: value for name, value in feeder.identity.items() if name not in OWN}
        notes = [pa.array(range(self.shares), pa.int32())]
        for value, kind in (
            (json.dumps(evaluation), pa.string()),
            (json.dumps(seen.latest), pa.string()),
            (seen.rows, pa.int64()),
            (np.packbits(seen.units).tobytes(), pa.binary()),
            (json.dumps(seen.arrived), pa.string()),
        ):
            notes.append(pa.array([value] * self.shares, kind))
        yield pa.RecordBatch.from_arrays(notes, names=[column.split()[0] for column in NOTE.split(", ")])


class _Seen:
    """Notes of a task's rows as they pass: how many, when they came, their units, and their latest time."""

    def __init__(self, units: int, clock: TimeColumn | None, wall: Callable[[], float]) -> None:
        self.arrived: list[tuple[float, int]] = []
        """When rows came, and how many; if there are many times, neighbours are one, at their mean."""
        self._wall = wall
        self.units = np.zeros(units, np.bool_)
        self.rows = 0
        self._latest: npt.NDArray[np.int64] | None = None
        self._clock = clock

    @property
    def latest(self) -> list[int] | None:
        """The latest time of each input so far; None if no row has told any."""
        return None if self._latest is None else self._latest.tolist()

    def watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, unchanged; their rows and times are noted."""
        for batch in batches:
            self.rows += batch.num_rows
            if batch.num_rows:
                self._arrive(batch.num_rows)
            if self._clock is not None and batch.num_rows:
                found = self._clock.latest(batch)
                self._latest = found if self._latest is None else np.maximum(found, self._latest)
            yield batch

    def _arrive(self, rows: int) -> None:
        self.arrived.append((self._wall(), rows))
        if len(self.arrived) > MOST_ARRIVALS:
            pairs = zip(self.arrived[::2], self.arrived[1::2], strict=False)
            joined = [((a * m + b * n) / (m + n), m + n) for (a, m), (b, n) in pairs]
            self.arrived = joined + self.arrived[2 * len(joined) :]

    def marked(self, arrived: Arrivals) -> Arrivals:
        """Note the units that had rows."""
        self.units[arrived[0]] = True
        return arrived


@dataclass(frozen=True, slots=True)
class TickTask:
    """The function for `mapInArrow` over the notes: ticks go to the workers; the results of the rows come out."""

    feed: KeyedFeed
    units: int
    shares: int
    lateness: int | None
    """Microseconds that a row may be late; None if ticks do not tell the time."""
    inputs: Inputs | None = None
    waits: bool = True
    """Whether rows wait for their time, so that more may be waiting than have come in this micro-batch."""

    def __call__(self, batches: Iterable[pa.RecordBatch], environment: Environment = REAL) -> Iterator[pa.RecordBatch]:
        """Send the ticks of the shares that are here."""
        notes = [batch for batch in batches if batch.num_rows]
        if not notes:
            return  # there was not even an empty partition
        told = pa.Table.from_batches(notes)
        shares, evaluations = (set(told.column(name).to_pylist()) for name in ("share", "evaluation"))
        if len(evaluations) != 1:
            raise ProtocolError(f"region {self.feed.region}: notes of {len(evaluations)} evaluations came as one")
        units, now, partition = self._due(told), self._now(told), FIRST_SHARE + min(shares)
        ticks = [] if not now or not len(units) else [self._ticks(units, now, partition)]
        rows = sum(told.column("rows").to_pylist()) // len(shares)
        size = max(1, RELEASED * self.units // max(1, rows))
        if self.lateness is not None and self.waits:  # more rows may wait than have come now
            size = min(size, max(1, self.units // MOST_AT_ONCE))
        first = told.filter(pc.equal(told.column("share"), 0)).column("arrived").to_pylist()  # each row is told once
        arrived = [(float(at), int(rows)) for note in first for at, rows in json.loads(note)]
        yield from self._feeder(environment, json.loads(evaluations.pop()), partition, size, arrived).serve(ticks)

    def _feeder(
        self,
        environment: Environment,
        evaluation: EvaluationIdentity,
        partition: int,
        size: int,
        arrived: list[tuple[float, int]],
    ) -> KeyedFeeder:
        """A feeder of ticks, `size` a frame. Their cost says nothing about rows, so it is not reported."""

        def identity() -> Identity:
            own = environment.identity()
            return {**own, **evaluation, "partition": partition, "own_stage": own["stage"]}

        around = replace(environment, identity=identity, frame_size=lambda *_: _Even(size))
        return _TickFeeder(self.feed, around, arrived)

    def _due(self, told: pa.Table) -> npt.NDArray[np.int64]:
        """The units of these shares that need a tick: all if rows wait for their time, else those with rows."""
        mine = np.isin(np.arange(self.units) % self.shares, told.column("share").to_numpy())
        if self.lateness is None or not self.feed.streaming:
            had = np.zeros(self.units, np.bool_)
            for marks in set(told.column("units").to_pylist()):
                had |= np.unpackbits(np.frombuffer(marks, np.uint8), count=self.units).astype(np.bool_)
            mine &= had
        return np.flatnonzero(mine)

    def _now(self, told: pa.Table) -> list[int]:
        """The values of a tick, by column; empty if no row had a time."""
        width = len(tick_fields(self.inputs))
        if not self.feed.streaming or self.lateness is None:
            now = FLUSH if self.feed.streaming else END
            return [now] * width
        latest = [found for text in set(told.column("latest").to_pylist()) if (found := json.loads(text)) is not None]
        best = [max(each) for each in zip(*latest, strict=True)]
        reached = [each - self.lateness if each > NEVER else each for each in best]
        if not any(each > NEVER for each in best):
            return []
        if self.inputs is None:
            return reached
        return [max(reached), *reached, max(told.column(BEGUN).to_pylist())]

    def _ticks(self, units: npt.NDArray[np.int64], now: list[int], partition: int) -> pa.RecordBatch:
        """A row for each unit: the time, a hash that falls on the unit (none for that of null keys), the partition."""
        hashes = pa.array(units, mask=units == self.units - 1)
        times = [pa.repeat(pa.scalar(value, NOW.type), len(units)) for value in now]
        names = [field.name for field in tick_fields(self.inputs)]
        partitions = pa.repeat(partition, len(units))
        return pa.RecordBatch.from_arrays([*times, hashes, partitions], names=[*names, KEY, "partition"])


class _TickFeeder(KeyedFeeder):
    """Tells, when all its ticks are answered, how long the rows took that came at these times by the common clock."""

    def __init__(self, feed: KeyedFeed, environment: Environment, arrived: list[tuple[float, int]]) -> None:
        super().__init__(feed, environment, arrivals=_without_load, measured=False)
        self._arrived = arrived

    def _drain(self) -> Iterator[pa.RecordBatch]:
        yield from super()._drain()
        counter, now = LatencyCounter(), self._environment.wall()
        for arrived, rows in self._arrived:
            counter.add(now - arrived, rows)
        if counter:
            self._connections.tell(FeederReport(0.0, 0, {}, latencies=counter.news()))


def _without_load(arrived: Arrivals) -> Arrivals:
    """Units that change although no rows came."""
    units, rows = arrived
    return units, np.zeros_like(rows)


class _Even(FrameSize):
    """Frames of one size, whatever they take."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._rows = size

    def rows(self, workers: int, worker: int | None = None, waiting: int = 0, longest_s: float = 0.0) -> int:
        return self._rows


def ordered(
    rows: DataFrame,
    feed: KeyedFeed,
    *,
    units: int,
    shares: int,
    clock: TimeColumn | None,
    lateness: int | None,
    waits: bool,
    declared: StructType,
) -> DataFrame:
    """The results of rows that wait for their time, or for the end of their micro-batch."""
    inputs = None if clock is None else clock.inputs
    notes = rows.mapInArrow(RowTask(feed, units, shares, clock), NOTE)
    if inputs is not None:
        notes = notes.withColumn(BEGUN, F.unix_micros(F.current_timestamp()))
    ticks = feed.for_ticks([field.name for field in tick_fields(inputs)])
    task = TickTask(ticks, units, shares, lateness, inputs, waits)
    return notes.repartitionById(shares, "share").mapInArrow(task, declared)
