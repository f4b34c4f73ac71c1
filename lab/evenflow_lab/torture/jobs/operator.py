"""The operator of the jobs: it counts and averages by key, and tells the hooks of every point that it comes to."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import pyarrow as pa

from evenflow.operators.keyed import KeyedOperator, Keys, Units
from evenflow_lab.torture.faults import clock, spill
from evenflow_lab.torture.faults.hooks import hooks_of
from evenflow_lab.torture.jobs.rows import WINDOW

AT_ONCE = 25
"""The rows between two pauses."""
LOADER = "evenflow.runtime.worker.saving.loader"


@dataclass(frozen=True, slots=True)
class Slowly:
    """Passes rows on unchanged, a few at a time, with a pause before each few."""

    pause_s: float

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function for `mapInArrow`."""
        for batch in batches:
            for start in range(0, batch.num_rows, AT_ONCE):
                time.sleep(self.pause_s)
                yield batch.slice(start, AT_ONCE)


class Counted(KeyedOperator):
    """Adds `nth`, the number of the row among those of its key, and `mean`, of the last WINDOW values of its key.

    A row that is lost, applied twice or applied to older state shows in every later row of its key.
    """

    adds: ClassVar[bool] = True

    def __init__(self, folder: str = "", ballast: int = 0) -> None:
        self._folder = folder
        self._ballast = ballast
        self._states: dict[int, dict[int, tuple[int, list[float], bytes]]] = {}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return rows.append(pa.field("nth", pa.int64())).append(pa.field("mean", pa.float64()))

    def warm_up(self, rows: pa.Schema) -> None:
        """Make the worker's disk and clock faulty: this is the first call on a worker."""
        if self._folder:
            spill.install(hooks_of(Path(self._folder)))
            clock.install(hooks_of(Path(self._folder)), "worker")

    def process(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        if loading():
            self._reach("restore")
        counts, means = [], []
        values = rows.column("v").to_pylist()
        for unit, key, value in zip(units.tolist(), keys.tolist(), values, strict=True):
            states = self._states.setdefault(unit, {})
            count, last, ballast = states.get(key) or (0, [], bytes(self._ballast))
            last = [*last, value][-WINDOW:]
            states[key] = count + 1, last, ballast
            counts.append(count + 1)
            means.append(sum(last) / len(last))
        out = rows.append_column("nth", pa.array(counts, pa.int64()))
        return out.append_column("mean", pa.array(means, pa.float64()))

    def extract(self, unit: int) -> Any:
        self._reach("extract")
        return self._states.pop(unit, None)

    def install(self, unit: int, state: Any) -> None:
        self._reach("restore" if loading() else "install")
        if unit in self._states:
            raise AssertionError(f"unit {unit} is here already")
        self._states[unit] = state

    def snapshot(self, unit: int) -> Any:
        self._reach("snapshot")
        return self._states.get(unit)

    def size(self, unit: int) -> int:
        return sum(60 + 8 * len(last) + len(ballast) for _, last, ballast in self._states.get(unit, {}).values())

    def _reach(self, point: str) -> None:
        if self._folder:
            hooks_of(Path(self._folder)).reach(point)


def loading() -> bool:
    """Whether the loader is among the callers: state is being loaded."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != LOADER:
        frame = frame.f_back
    return frame is not None
