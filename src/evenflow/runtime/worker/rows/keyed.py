"""The keyed server: applies the rows of keyed regions to their state, and reports statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import TypeVar

import numpy as np
import pyarrow as pa

from evenflow.errors import ProtocolError
from evenflow.model.messages import REPORT_S, EvaluationOrder, MovementOrder, RowsDiffer
from evenflow.operators.hosted import units_of
from evenflow.operators.keyed import Units
from evenflow.runtime.wire.channel import Channel
from evenflow.runtime.worker.events import MarkerReachedEvent
from evenflow.runtime.worker.moves.label import Part
from evenflow.runtime.worker.moves.unit_mover import UnitMover
from evenflow.runtime.worker.rows.instances import Answer, Instance, Tag, answers, process
from evenflow.runtime.worker.rows.regions import LocalRegion, LocalRegions
from evenflow.runtime.worker.saving.checkpointer import Checkpointer, SendMessage, Stamp
from evenflow.runtime.worker.saving.evaluations import EvaluationStates
from evenflow.runtime.worker.saving.repeats import OtherRows, RepeatedAttempt
from evenflow.state.paging.paged import Paged

T = TypeVar("T")
LEAST_WAIT_S = 0.001
"""The worker waits at least so many seconds for a report: a clock may not show shorter times."""


class KeyedServer:
    """All keyed regions and graphs of one worker, with the state of their evaluations."""

    def __init__(
        self,
        *,
        tell: SendMessage,
        regions: LocalRegions,
        evaluations: EvaluationStates,
        mover: UnitMover,
        checkpointer: Checkpointer | None,
        clock: Callable[[], float],
    ) -> None:
        self.tell = tell
        self.regions = regions
        self.evaluations = evaluations
        self.mover = mover
        self.checkpointer = checkpointer
        self._clock = clock
        self.returning = False
        """Whether the last `rotate` found room for state on disk: the next may, too."""

    @property
    def active(self) -> bool:
        """Whether a feeder is connected."""
        return any(region.feeders for region in self.regions.values())

    @property
    def operators(self) -> set[str]:
        """The operators of all regions."""
        return {region.operator for region in self.regions.values()}

    def close(self) -> None:
        """Drop all state that may have files on disk."""
        for region in self.regions.values():
            for state in region.paged:
                state.close()

    # -- feeders

    def open(
        self, name: str, operator: str, units: int, now: float, waited_s: float, report_s: float = REPORT_S
    ) -> None:
        """A feeder has opened a region, whose statistics are to be sent every `report_s` seconds."""
        self.regions.check_units(operator, units)
        if name not in self.regions:
            self.regions[name] = LocalRegion(operator, units)
        region = self.regions[name]
        if region.units != units:
            raise ProtocolError(f"a feeder of region {name} speaks of {units} units, and there are {region.units}")
        if not region.feeders:
            region.begin_report(now, waited_s)
        region.feeders += 1
        region.report_s = report_s

    def leave(self, name: str, now: float, waited_s: float) -> None:
        """A feeder of a region is gone; after the last one its statistics go out at once."""
        region = self.regions.get(name)
        if region is not None and region.feeders:
            region.feeders -= 1
            if not region.feeders:
                self._send_report(name, region, now, waited_s)
            if not region.feeders and not region.instances:
                del self.regions[name]

    def report(self, now: float, waited_s: float) -> None:
        """Send the statistics of every region that is fed and due for a report."""
        for name, region in self.regions.items():
            if region.feeders and now - region.reported >= region.report_s:
                self._send_report(name, region, now, waited_s)

    def due_in(self, now: float) -> float:
        """Seconds until the next report is due, at least LEAST_WAIT_S if it is not; infinite if no region is fed."""
        dues = (region.report_s - (now - region.reported) for region in self.regions.values() if region.feeders)
        due = min(dues, default=inf)
        return max(due, LEAST_WAIT_S) if due > 0 else 0.0

    def _send_report(self, name: str, region: LocalRegion, now: float, waited_s: float) -> None:
        self.tell(region.news(name, now, waited_s, self.regions.memory()))

    # -- rows

    def process(
        self,
        name: str,
        evaluation: str,
        batch: pa.RecordBatch,
        tag: Tag = None,
        stamp: Stamp | None = None,
        body: Part = b"",
    ) -> list[Answer]:
        """Apply the rows of a frame to the state of an evaluation; returns answers to this and to earlier frames.

        `tag` names the frame in its answers. With a `stamp`, the rows are logged as they came, in `body`.
        """
        hosted = self.regions.hosted(self.regions[name])
        rows, units, keys = hosted.unpacked(batch)
        region, instance = self.enter(name, evaluation, stamp)
        self.check_here(region, name, evaluation, units)
        repeat = region.repeats.get(evaluation)
        if repeat is not None:
            give = partial(repeat.answers, instance, hosted, tag, batch, units)
            found = self._repeated(name, evaluation, repeat, give) or []
        else:
            found = process(instance, hosted, tag, rows, units, keys)
            if self.checkpointer is not None and stamp is not None:
                self.checkpointer.log(name, evaluation, body, hosted.columns_in_log(batch.schema), units)
        region.add_rows(units, batch.nbytes)
        return found

    def logged(self, name: str, evaluation: str, repeat: RepeatedAttempt, units: Units) -> list[pa.RecordBatch] | None:
        """In a repeat, the logged rows of a graph to apply in place of rows of these units; None if the rows differ."""
        return self._repeated(name, evaluation, repeat, partial(repeat.logged, units))

    def _repeated(
        self, name: str, evaluation: str, repeat: RepeatedAttempt, give: Callable[[], list[T]]
    ) -> list[T] | None:
        """The result of `give`; if the rows are not those of the log, the controller is told, and ends the attempt."""
        try:
            return give()
        except OtherRows as differs:
            repeat.failed = True
            epoch, attempt = repeat.stamp
            self.tell(RowsDiffer(region=name, evaluation=evaluation, epoch=epoch, attempt=attempt, why=str(differs)))
            return None

    def enter(self, name: str, evaluation: str, stamp: Stamp | None) -> tuple[LocalRegion, Instance]:
        """The region and the state to which rows of an evaluation are to be applied; raises if they may not be."""
        region = self.regions[name]
        self.evaluations.check_rows(name, evaluation, stamp)
        instance = self.regions.instance_of(region, evaluation)
        repeat = region.repeats.get(evaluation)
        if repeat is not None and repeat.stamp != stamp:  # that batch is over
            region.end_repeat(evaluation)
        if self.checkpointer is not None and stamp is not None:
            self.checkpointer.enter(name, evaluation, region.units, stamp, instance, region.away.get(evaluation))
        return region, instance

    def check_here(self, region: LocalRegion, name: str, evaluation: str, units: Units) -> None:
        """Refuse rows of units that have left this worker."""
        away = region.away.get(evaluation)
        if away is not None and away[units].any():
            raise ProtocolError(f"rows of region {name} came for units that have left this worker")

    def served(self, name: str, seconds: float) -> None:
        """Add service time to a region."""
        self.regions[name].add_service(seconds)

    def blame(self, name: str, batch: pa.RecordBatch) -> str:
        """The unit and key hash of the row that made an operator fail, as far as they can be found."""
        hosted = self.regions.hosted(self.regions[name])
        found = hosted.blame(batch)
        units = np.unique(units_of(batch.column(batch.num_columns - 1), hosted.units))
        if found is None:
            some = f"unit {units[0]}" if len(units) == 1 else f"{len(units)} units, {units[0]} to {units[-1]}"
            return f"rows of {some}; with empty state they do not fail"
        return f"unit {found[0]}, key hash {found[1]}"

    def drain(self, name: str, evaluation: str) -> Iterator[list[Answer]]:
        """Process all rows of an evaluation that wait for state on disk; yields answers part by part."""
        region = self.regions.get(name)
        state = region.instances.get(evaluation) if region is not None else None
        if region is not None and isinstance(state, Paged):
            yield from (answers(self.regions.hosted(region), done) for done in state.draining())

    def rotate(self) -> Iterator[tuple[str, BaseException]]:
        """Bring back state that there is room for, or for which enough rows wait; yields regions that fail."""
        self.returning = False
        for name, region in list(self.regions.items()):
            for state in region.paged:
                if not state.on_disk:
                    continue
                began = self._clock()
                try:
                    self.regions.give(answers(self.regions.hosted(region), state.rotate(began)))
                except BaseException as error:  # the user's code, or a disk that is full
                    yield name, error
                self.served(name, self._clock() - began)
                self.returning |= state.returning

    # -- evaluations

    def obey(self, order: MovementOrder | EvaluationOrder) -> None:
        """Carry out an order about movements, or about the state of an evaluation."""
        if isinstance(order, MovementOrder):
            self.mover.handle(order)
        else:
            self.evaluations.obey(order)

    def mark(self, move: int, feeder: int, name: str = "", units: Sequence[int] = ()) -> None:
        """A feeder's marker has come; that of a graph has no name and units, since no rows wait for state on disk."""
        if name and max(units, default=0) >= self.regions[name].units:
            raise ProtocolError(f"a marker names unit {max(units)} of region {name}: it has {self.regions[name].units}")
        self.mover.handle(MarkerReachedEvent(move, feeder, name, units))

    def end(self, name: str, evaluation: str, stamp: Stamp, feeder: Channel) -> None:
        """A feeder asks to be told when all its rows are durable."""
        assert self.checkpointer is not None
        region = self.regions.get(name)
        instance = region.instances.get(evaluation) if region is not None else None
        repeat = region.repeats.get(evaluation) if region is not None else None
        if repeat is not None and repeat.stamp == stamp:
            self.checkpointer.end_repeat(feeder, repeat.units, repeat.left)
            if not repeat.left:
                repeat.free()
            return
        if region is not None and instance is not None and not self.evaluations.is_dropped(name, evaluation):
            self.checkpointer.idle(name, evaluation, stamp, instance, region.away.get(evaluation))
        self.checkpointer.end(name, evaluation, stamp, feeder)

    def collect(self) -> None:
        """Take units from other workers, and news of the store."""
        self.mover.collect()
        if self.checkpointer is not None:
            self.checkpointer.collect()
        self.evaluations.collect()
