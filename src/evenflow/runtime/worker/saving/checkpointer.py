"""Saving: has segments and unit snapshots of all queries put into the store, and tells feeders when rows are durable.

The query logs decide which blobs are due, and which feeders are told. The checkpointer takes snapshots of the user's
state, and hands blobs to the blob writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.model.messages import (
    CodeWanted,
    LoadState,
    RowsDurable,
    SaveAgain,
    UnitsSaved,
    WorkerMessage,
    WorkerTrouble,
)
from evenflow.operators.keyed import Units
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.worker.limits import LIMITS, WorkerLimits
from evenflow.runtime.worker.rows.instances import Instance
from evenflow.runtime.worker.saving.blob_writer import BlobWriter
from evenflow.runtime.worker.saving.query_log import QueryLog, SegmentPut, SnapshotPut
from evenflow.state.checkpoint.unit_snapshots import pack_units

SendMessage = Callable[[WorkerMessage | CodeWanted], None]
AnswerEnd = Callable[[Channel, RowsDurable], None]
"""Tells a feeder that its rows are durable, or why not."""
Stamp = tuple[int, int]
"""A batch, and the attempt at it."""
Away = npt.NDArray[np.bool_] | None
"""Marks the units that have left this worker: their state is not here to be saved."""
LatestBatches = dict[str, npt.NDArray[np.int64]]
"""By evaluation, for each of some units: the latest batch in which it had rows."""
NO_UNITS = np.zeros(0, np.int32)


class Checkpointer:
    """All query logs of one worker."""

    def __init__(
        self, writer: str, tell: SendMessage, answer: AnswerEnd, blob_writer: BlobWriter, limits: WorkerLimits = LIMITS
    ) -> None:
        self._writer = writer
        """The worker, a dot, and a number that stands for this life of it."""
        self._limits = limits
        self._tell = tell
        self._answer = answer
        self._blob_writer = blob_writer
        self._query_logs: dict[tuple[str, str], QueryLog] = {}

    @property
    def full(self) -> bool:
        """Whether the store is so far behind that no rows should be taken."""
        return self._blob_writer.unsaved >= self._limits.unsaved_bytes

    # -- rows

    def enter(
        self, region: str, evaluation: str, units: int, stamp: Stamp, instance: Instance, away: Away = None
    ) -> None:
        """Rows of an attempt are about to be applied; if they are the first of a batch, save what was before."""
        query_log = self._query_log(region, evaluation, units)
        if query_log.enter(*stamp):
            self._save(query_log, instance, stamp[0] - 1, away)

    def log(
        self, region: str, evaluation: str, body: bytes | bytearray | memoryview, schema: pa.Schema, units: Units
    ) -> None:
        """Rows were applied."""
        self._put(self._query_logs[region, evaluation].log(body, schema, units))

    def idle(self, region: str, evaluation: str, stamp: Stamp, instance: Instance, away: Away) -> None:
        """Save due units at the end of a task that sent no rows here.

        Otherwise logs with rows of units that get no more rows would be needed for ever.
        """
        query_log = self._query_logs.get((region, evaluation))
        if query_log is not None and stamp > query_log.stamp and query_log.enter(*stamp):
            self._save(query_log, instance, stamp[0] - 1, away)

    def end(self, region: str, evaluation: str, stamp: Stamp, feeder: Channel) -> None:
        """A feeder asks to be told when its rows are durable; if it sent none here, it is told at once."""
        query_log = self._query_logs.get((region, evaluation))
        if query_log is None or query_log.stamp != stamp:
            self._answer(feeder, RowsDurable(self._writer, 0, NO_UNITS))
            return
        self._put(query_log.end(feeder))
        self._acknowledge(query_log)

    def end_repeat(self, feeder: Channel, units: Units, left: int) -> None:
        """Tell a feeder that its rows were durable before: they repeat a log; `left` rows have not come again."""
        self._answer(feeder, RowsDurable(self._writer, 0, units, left=left))

    def collect(self) -> None:
        """Pass on the outcomes of the blob writer."""
        for outcome in self._blob_writer.collect():
            match outcome.about:
                case QueryLog() as query_log, (int(epoch), int(attempt)):
                    query_log.segment_put((epoch, attempt), outcome.error)
                    self._acknowledge(query_log)
                case SnapshotPut(query_log=query_log) as snapshot if outcome.error:
                    query_log.not_saved(snapshot.units, snapshot.epoch)
                    self._tell(WorkerTrouble(f"snapshot {snapshot.name}", outcome.error))
                case SnapshotPut() as snapshot:
                    self._report_saved(snapshot)

    def _put(self, segments: Iterable[SegmentPut]) -> None:
        for segment in segments:
            self._blob_writer.put(segment.name, segment.parts, (segment.query_log, segment.stamp))

    def _save(self, query_log: QueryLog, instance: Instance, epoch: int, away: Away) -> None:
        """Save the units that are due, as they are now at the end of a batch."""
        due = query_log.due(epoch, away)
        if not len(due):
            return
        chosen = query_log.choose(due, instance.sizes(due))
        name = query_log.snapshot_name(epoch)
        parts = pack_units({int(unit): instance.snapshot(int(unit)) for unit in np.sort(chosen)}, copy=True, name=name)
        self._blob_writer.put(name, parts, query_log.save(name, epoch, chosen, parts))

    def _acknowledge(self, query_log: QueryLog) -> None:
        for feeder in query_log.acknowledged():
            units = query_log.had_rows()
            self._answer(feeder, RowsDurable(self._writer, query_log.durable, units, query_log.error))

    def _query_log(self, region: str, evaluation: str, units: int) -> QueryLog:
        known = self._query_logs.get((region, evaluation))
        if known is None:
            known = self._query_logs[region, evaluation] = QueryLog(
                region, evaluation, self._writer, units, self._limits
            )
        return known

    # -- movements

    def touched(self, region: str, evaluations: list[str], units: list[int]) -> LatestBatches:
        """By evaluation, the latest batch with rows of each unit."""
        known = {name: self._query_logs.get((region, name)) for name in evaluations}
        return {name: query_log.latest_batches(units) for name, query_log in known.items() if query_log is not None}

    def arrived(
        self, region: str, count: int, move: int, units: list[int], touched: dict[str, npt.NDArray[np.int64]]
    ) -> None:
        """Units have come from elsewhere."""
        for evaluation, batches in touched.items():
            self._query_log(region, evaluation, count).arrived(move, units, batches)

    def gone(self, region: str, units: list[int]) -> None:
        """Units that had come are taken back: they must not be saved from here, not even those without state."""
        for (name, _), query_log in self._query_logs.items():
            if name == region:
                query_log.disown(units)

    # -- loading

    def resume(self, order: LoadState, saved: npt.NDArray[np.int64], touched: npt.NDArray[np.int64]) -> None:
        """State has been loaded: an attempt starts from it."""
        query_log = self._query_log(order.region, order.evaluation, order.count)
        query_log.resume(order.epoch, order.attempt, saved, touched)

    def save_again(self, order: SaveAgain) -> None:
        """A snapshot was reported too late, and is not used: its units are to be saved again."""
        query_log = self._query_logs.get((order.region, order.evaluation))
        if query_log is not None:
            query_log.not_saved(order.units, order.epoch)

    def forget(self, region: str, evaluation: str) -> None:
        """An evaluation is over."""
        self._query_logs.pop((region, evaluation), None)

    def _report_saved(self, snapshot: SnapshotPut) -> None:
        query_log = snapshot.query_log
        self._tell(
            UnitsSaved(
                region=query_log.region,
                evaluation=query_log.evaluation,
                epoch=snapshot.epoch,
                name=snapshot.name,
                units=snapshot.units,
                bytes=snapshot.size,
            )
        )
