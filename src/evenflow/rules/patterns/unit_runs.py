"""The runs of all keys through one pattern, by unit: their memory, their timers, and how units move."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import chain
from typing import TypedDict

import numpy as np
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.keyed import Units
from evenflow.rules.patterns.runs import PatternSetting, Run
from evenflow.rules.patterns.states import Env, Frozen
from evenflow.rules.patterns.waiting import LATEST, Longs

RUN_BYTES, LEAF_BYTES, ENDED_BYTES = 1500, 700, 100
"""Bytes of memory, roughly: of a key's run, of each atom that waits, and of a key whose pattern has ended."""


class FrozenRuns(TypedDict):
    """What a unit takes along when it moves; row numbers in runs count among the `count` rows in `rows`."""

    runs: dict[int, Frozen]
    rows: pa.RecordBatch
    count: int


class UnitRuns:
    """By unit and key, the run of the key's pattern; None where the pattern has ended for good."""

    def __init__(self, setting: PatternSetting) -> None:
        self._setting, self._kept = setting, setting.waiting.kept
        self._units: dict[int, dict[int, Run | None]] = {}
        self._weights: dict[int, int] = {}
        """Bytes of each unit."""
        self._alarms: dict[int, list[tuple[int, int]]] = {}
        """Of units that have been told the time: heaps of (deadline, key)."""

    def pass_time(self, units: Units, now: int) -> None:
        """No row with a time before `now` (microseconds) will come for these units: let timers end."""
        for unit in units.tolist():
            known = self._units.get(unit)
            if known is None:
                self._alarms.pop(unit, None)
                continue
            alarms = self._alarms.get(unit)
            if alarms is None:
                alarms = self._alarms[unit] = []
                for run in known.values():
                    if run is not None:
                        self._set_alarm(run, run.deadline())
            each_row = self._kept.row_bytes + LEAF_BYTES if alarms and alarms[0][0] <= now else 0
            while alarms and alarms[0][0] <= now:
                run = known.get(heappop(alarms)[1])
                if run is not None:
                    run.alarm = LATEST
                    fresh, following = run.lapse(now)
                    if self._weigh(run, fresh, each_row):
                        self._set_alarm(run, following)

    def _leave(self, runs: list[Run]) -> None:
        """End a frame: forget keys whose run is as it began, and keep the rows that the other runs have taken."""
        taken: list[int] = []
        each_row = self._kept.row_bytes + LEAF_BYTES
        for run in runs:
            if self._weigh(run, run.fresh(), each_row):
                taken += run.taken
                self._set_alarm(run, run.deadline())
            run.exit()
        self._kept.end(taken, self._needed)

    def _weigh(self, run: Run, fresh: bool, each_row: int) -> bool:
        """Update the bytes of a run; forget it if it is `fresh`, that is, as it began. Returns whether it goes on."""
        weight = 0
        if run.child is None:
            self._units[run.unit][run.key] = None
            weight = ENDED_BYTES
        elif fresh:
            run.quit(run)
            del self._units[run.unit][run.key]
            if not self._units[run.unit]:
                del self._units[run.unit]
        else:
            weight = RUN_BYTES + each_row * (len(run.leaves) + run.stored)
        self._weights[run.unit] = self._weights.get(run.unit, 0) + weight - run.weight
        run.weight = weight
        return run.child is not None and not fresh

    def _set_alarm(self, run: Run, deadline: int) -> None:
        """Wake a run at its next deadline, if its unit is told the time."""
        alarms = self._alarms.get(run.unit)
        if alarms is not None and deadline < run.alarm:
            run.alarm = deadline
            heappush(alarms, (run.alarm, run.key))

    def extract(self, unit: int) -> FrozenRuns | None:
        """Remove a unit's state and return it; None if there is none."""
        state = self.snapshot(unit)
        for run in self._units.pop(unit, {}).values():
            if run is not None:
                run.quit(run)
        self._weights.pop(unit, None)
        self._alarms.pop(unit, None)
        return state

    def snapshot(self, unit: int) -> FrozenRuns | None:
        """A unit's state as `extract` returns it: numbers, tuples, lists and dicts, and a record batch of kept rows."""
        if unit not in self._units:
            return None
        numbers: dict[int, int] = {-1: -1}

        def hold(env: Env) -> Env:
            return tuple([numbers.setdefault(number, len(numbers) - 1) for number in env[0]]), env[1]

        runs = {key: None if run is None else run.freeze(hold) for key, run in self._units[unit].items()}
        return {"runs": runs, "rows": self._kept.rows(list(numbers)[1:]), "count": len(numbers) - 1}

    def install(self, unit: int, state: FrozenRuns) -> None:
        """Add the state that another copy's `extract` returned for this unit."""
        if unit in self._units:
            raise InvalidArgument(f"unit {unit} is installed but has matches under way here: extract it first")
        base = self._kept.add(state["rows"], state["count"])

        def hold(env: Env) -> Env:
            return tuple([number if number < 0 else base + number for number in env[0]]), env[1]

        known = self._units[unit] = dict.fromkeys(state["runs"])
        each_row = self._kept.row_bytes + LEAF_BYTES
        self._weights[unit] = 0
        for key, frozen in state["runs"].items():
            weight = ENDED_BYTES
            if frozen is not None:
                run = known[key] = Run(self._setting, unit, key)
                run.thaw(frozen, hold)
                run.weight = weight = RUN_BYTES + each_row * (len(run.leaves) + run.stored)
            self._weights[unit] += weight

    def sizes(self, units: Units) -> Longs:
        """Bytes of state of each unit, roughly."""
        return np.array([self._weights.get(unit, 0) for unit in units.tolist()], np.int64)

    def _needed(self) -> set[int]:
        """The numbers of all rows in matches under way."""
        needed: set[int] = set()

        def hold(env: Env) -> Env:
            needed.update(env[0])
            return env

        for run in chain.from_iterable(known.values() for known in self._units.values()):
            if run is not None:
                run.freeze(hold)
        return needed
