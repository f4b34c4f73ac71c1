"""Regions on a worker: instances of keyed operators with their state, which units have left, and statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evenflow.errors import EvenflowError, ProtocolError
from evenflow.model.messages import REPORT_S, ConsumerReport
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import Units
from evenflow.runtime.worker.rows.instances import Answer, Instance, Instances, answers, let_go, operator_of
from evenflow.runtime.worker.saving.repeats import RepeatedAttempt
from evenflow.state.paging.paged import Paged

SIZES_S = 1.0
"""Seconds between measurements of the size of state."""
SIZED = 4096
"""Units whose state is measured in one measurement, at most."""


@dataclass(slots=True)
class LocalRegion:
    """What one worker has of a keyed region or a graph."""

    operator: str
    units: int
    feeders: int = 0
    instances: dict[str, Instance] = field(default_factory=dict)
    away: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    """By evaluation, marks the units that have left this worker: rows for them are refused."""
    repeats: dict[str, RepeatedAttempt] = field(default_factory=dict)
    """By evaluation, the attempt that is repeated."""
    active: npt.NDArray[np.bool_] = field(init=False)
    """Marks the units that had rows, or arrived, since their state was last measured."""
    seen: list[Units] = field(default_factory=list)
    busy_s: float = 0.0
    rows: int = 0
    bytes: int = 0
    reported: float = 0.0
    report_s: float = REPORT_S
    waited_s: float = 0.0
    measured: float = 0.0
    counted: dict[str, dict[str, int]] = field(default_factory=dict)
    """By evaluation, the operator's counters as they were last reported, or when state was loaded."""

    def __post_init__(self) -> None:
        self.active = np.zeros(self.units, np.bool_)

    @property
    def paged(self) -> list[Paged]:
        """The instances whose state may be on disk."""
        return [state for state in self.instances.values() if isinstance(state, Paged)]

    def mark_away(self, evaluation: str, units: int | list[int]) -> None:
        """Refuse rows of these units from now on."""
        if evaluation not in self.away:
            self.away[evaluation] = np.zeros(self.units, np.bool_)
        self.away[evaluation][units] = True

    def mark_here(self, units: list[int]) -> None:
        """Take rows of these units again, in all evaluations."""
        for gone in self.away.values():
            gone[units] = False

    def mark_active(self, units: list[int]) -> None:
        """Measure the state of these units next time."""
        self.active[units] = True

    def add_rows(self, units: Units, size: int) -> None:
        """Count rows that were applied: the unit of each, and the bytes of all."""
        self.seen.append(units)
        self.rows += len(units)
        self.bytes += size

    def add_service(self, seconds: float) -> None:
        """Count time spent on rows."""
        self.busy_s += seconds

    def begin_report(self, now: float, waited_s: float) -> None:
        """The next report begins now; the worker has had nothing to do for `waited_s` so far."""
        self.reported, self.waited_s = now, waited_s

    def news(self, name: str, now: float, waited_s: float, memory: tuple[int, int, int]) -> ConsumerReport:
        """The report since the last one; resets the counters. State is measured every SIZES_S, and at the end."""
        counts = np.bincount(np.concatenate(self.seen)) if self.seen else np.zeros(0, np.int64)
        units = np.flatnonzero(counts).astype(np.int32)
        self.active[units] = True
        sized = self._due(now) if now - self.measured >= SIZES_S or not self.feeders else units[:0]
        budget, resident, spilled = memory
        on_disk, pending = self._on_disk()
        news = ConsumerReport(
            region=name,
            seconds=now - self.reported,
            idle_s=waited_s - self.waited_s,
            busy_s=self.busy_s,
            rows=self.rows,
            bytes=self.bytes,
            units=units,
            unit_rows=counts[units],
            sized=sized,
            sizes=self._sizes(sized),
            on_disk=on_disk,
            pending=pending,
            memory=budget,
            resident=resident,
            spilled=spilled,
            counts=self._newly_counted(),
        )
        self.seen, self.busy_s, self.rows, self.bytes = [], 0.0, 0, 0
        self.begin_report(now, waited_s)
        return news

    def _due(self, now: float) -> Units:
        """The units whose state is to be measured now."""
        for gone in self.away.values():
            self.active[gone] = False
        sized = np.flatnonzero(self.active)[:SIZED].astype(np.int32)
        self.active[sized] = False
        self.measured = now
        return sized

    def _sizes(self, units: Units) -> npt.NDArray[np.int64]:
        sizes = np.zeros(len(units), np.int64)
        for instance in self.instances.values():
            try:
                sizes += instance.sizes(units)
            except BaseException:  # the user's code: a size that cannot be told must not end a worker full of state
                return np.zeros(len(units), np.int64)
        return np.maximum(sizes, 0)

    def _on_disk(self) -> tuple[Units, npt.NDArray[np.int64]]:
        """The units whose state is on disk, and bytes of the rows that wait for each."""
        away = np.zeros(self.units, np.bool_)
        for state in self.paged:
            away |= ~state.resident
        units = np.flatnonzero(away).astype(np.int32)
        pending = np.zeros(len(units), np.int64)
        for state in self.paged:
            pending += state.pending_of(units)
        return units, pending

    def _newly_counted(self) -> dict[str, int]:
        """The instances' counters since the last call."""
        sums: dict[str, int] = {}
        for evaluation in self.instances:
            before = self.counted.get(evaluation, {})
            self._count_from_here(evaluation)
            for name, count in self.counted[evaluation].items():
                was = count if evaluation in self.repeats else before.get(name, 0)  # rows of then have been counted
                sums[name] = sums.get(name, 0) + count - was
        return sums

    def _count_from_here(self, evaluation: str) -> None:
        """Let reports leave out what an instance has counted so far."""
        state = self.instances[evaluation]
        try:
            counts = operator_of(state).tallies()
            self.counted[evaluation] = {str(name): int(count) for name, count in counts.items()}
        except Exception:  # the user's code: counts that cannot be told must not end a worker full of state
            self.counted.setdefault(evaluation, {})

    def use(self, evaluation: str, instance: Instance, repeat: RepeatedAttempt | None) -> None:
        """Go on with loaded state, whose rows have been counted before, and repeat an attempt, if any."""
        self.drop(evaluation)
        self.instances[evaluation] = instance
        self._count_from_here(evaluation)
        if repeat is not None:
            self.repeats[evaluation] = repeat

    def end_repeat(self, evaluation: str) -> None:
        """The attempt is repeated: rows that come from now on have not been counted."""
        del self.repeats[evaluation]
        self._count_from_here(evaluation)

    def drop(self, evaluation: str) -> None:
        """Drop the state of an evaluation, its repeat and its counters."""
        let_go(self.instances.pop(evaluation, None))
        self.repeats.pop(evaluation, None)
        self.counted.pop(evaluation, None)


class LocalRegions(dict[str, LocalRegion]):
    """The keyed regions and graphs of one worker, by name."""

    def __init__(
        self, code: Callable[[str], Hosted | None], instances: Instances, give: Callable[[list[Answer]], None]
    ) -> None:
        super().__init__()
        self.code = code
        self.give = give
        """Sends answers to their feeders."""
        self._instances = instances

    def hosted(self, region: LocalRegion) -> Hosted:
        """The region's operator; raises if its code is not here yet."""
        hosted = self.code(region.operator)
        if hosted is None:
            raise ProtocolError(f"operator {region.operator} is not here yet")
        self.check_units(region.operator, region.units)
        return hosted

    def check_units(self, operator: str, units: int) -> None:
        """Refuse a number of units that is not the operator's own; passes while the operator's code is not here."""
        hosted = self.code(operator)
        if isinstance(hosted, Hosted) and hosted.units != units:
            raise ProtocolError(f"a feeder of operator {operator} speaks of {units} units: it has {hosted.units}")

    def instance_of(self, region: LocalRegion, evaluation: str) -> Instance:
        """The instance with the state of an evaluation; a fresh one if there is none."""
        instance = region.instances.get(evaluation)
        if instance is None:
            instance = region.instances[evaluation] = self._instances.fresh(self.hosted(region))
        return instance

    def receiving(self, name: str, operator: str) -> LocalRegion:
        """The region to which units or loaded state come, made if it is not known; needs the operator's code."""
        if name not in self:
            hosted = self.code(operator)
            if not isinstance(hosted, Hosted):
                raise EvenflowError(f"operator {operator} could not be loaded on this worker")
            self[name] = LocalRegion(operator, hosted.units)
        if not self[name].instances:
            self[name].operator = operator
        return self[name]

    def settle(self, name: str, units: list[int]) -> None:
        """Process and answer the rows that wait for these units, if their state is on disk."""
        for state in self[name].paged if name in self else ():
            if state.pending_rows:
                self.give(answers(self.hosted(self[name]), state.settle(units)))

    def drop(self, name: str, evaluation: str) -> None:
        """Drop the state of an evaluation, and the region if nobody uses it then."""
        region = self.get(name)
        if region is not None:
            region.drop(evaluation)
            region.away.pop(evaluation, None)
            if not region.instances and not region.feeders:
                del self[name]

    def set_memory(self, budget: int) -> None:
        """Give more or less memory to the state of all regions; with an error nothing has changed."""
        pool = self._instances.pool
        if pool is not None:
            pool.resize(budget)

    def memory(self) -> tuple[int, int, int]:
        """Budget, bytes in memory, bytes on disk, of all regions."""
        pool = self._instances.pool
        spilled = sum(state.spilled_bytes for region in self.values() for state in region.paged)
        return (pool.budget or 0, pool.held, spilled) if pool is not None else (0, 0, spilled)
