"""The laws that `evenflow.testing.check_operator` checks for operators with `on_time` or `on_end`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.aggregates.adding import column_type
from evenflow.operators.columns import microseconds, require_time
from evenflow.operators.keyed import KeyedOperator, Units, overrides
from evenflow.operators.laws.checker import Trial
from evenflow.operators.laws.runs import bag

TOLD = 6
"""Calls of `on_time` in one run, at most, for each unit."""


class TimeTrial(Trial):
    """Checks the laws for rows, and then the laws for time, with rows in the order of column `time`."""

    def run(self) -> None:
        self._by_time = overrides(self.operator, "on_time")
        if self._by_time and self.time is None:
            raise InvalidArgument(f"{self.name} has on_time: give check_operator the column of the time, time=")
        super().run()
        if not self._by_time and not overrides(self.operator, "on_end"):
            return
        rows, units, keys = self.rows, self.units, self.keys
        times = np.zeros(rows.num_rows, np.int64)
        if self.time is not None:
            require_time(self.name, self.time, column_type(self.name, rows.schema, self.time))
            times = microseconds(rows.column(self.time), self.time)
            order = np.argsort(times, kind="stable")
            self.rows, self.units, self.keys = rows.take(pa.array(order)), units[order], keys[order]
            times = times[order]
        try:
            self._check_time(times)
        finally:
            self.rows, self.units, self.keys = rows, units, keys

    def _check_time(self, times: npt.NDArray[np.int64]) -> None:
        ticks = np.unique(times)[1:]
        if len(ticks) > TOLD:
            ticks = np.sort(self.random.choice(ticks, TOLD, replace=False))
        whole = self._told(times, ticks, lambda: [np.arange(self.count, dtype=np.int32)], 1)
        for _ in range(self.rounds):
            if whole != self._told(times, ticks, self._groups, 1):
                self._fail("time", "its results change with the units that on_time or on_end is told of together")
            if whole != self._told(times, ticks, self._groups, self.copies + 1):
                self._fail("time", "its results change when units are moved between rows and on_time, or on_end")

    def _groups(self) -> list[Units]:
        """All units in random order, cut into groups."""
        shuffled = self.random.permutation(self.count).astype(np.int32)
        cuts = np.sort(self.random.integers(0, self.count + 1, int(self.random.integers(0, 4))))
        return np.split(shuffled, cuts)

    def _told(
        self, times: npt.NDArray[np.int64], ticks: npt.NDArray[np.int64], groups: Callable[[], list[Units]], count: int
    ) -> Counter[str]:
        """All results of `count` copies that get `on_time` at the `ticks` between their rows, and `on_end` at last."""
        copies = [self._copy() for _ in range(count)]
        owner, begun = np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)
        results: Counter[str] = Counter()
        starts = [0, *np.searchsorted(times, ticks).tolist(), len(times)]
        for start, stop, now in zip(starts[:-1], starts[1:], [*ticks.tolist(), None], strict=True):
            self._shuffle(copies, owner, begun)
            for number, copy in enumerate(copies):
                places = np.arange(start, stop)[owner[self.units[start:stop]] == number]
                for batch, _ in self._process(copy, places):
                    results += bag(pa.Table.from_batches([batch]))
            begun[self.units[start:stop]] = True
            self._shuffle(copies, owner, begun)
            begun |= self._by_time
            for units in groups():
                for number, copy in enumerate(copies):
                    results += self._tell(copy, now, units[owner[units] == number])
        return results

    def _tell(self, copy: KeyedOperator, now: int | None, units: Units) -> Counter[str]:
        """The result of a copy's `on_time`, or of its `on_end` if `now` is None."""
        if now is not None and not self._by_time:
            return Counter()
        said: object = copy.on_end(units) if now is None else copy.on_time(now, units)
        if said is None:
            return Counter()
        if not isinstance(said, pa.RecordBatch):
            method = "on_end" if now is None else "on_time"
            self._fail("operator", f"{method} gives {type(said).__name__}: give a pyarrow.RecordBatch, or None")
        return bag(pa.Table.from_batches([said]))
