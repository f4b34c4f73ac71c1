"""Several inputs whose rows come as one: how far each of them is, and what time that makes it.

Every input has a progress of its own: its latest time so far, less the lateness. Time is the least of them (policy
"min"), so a row of an input that is read more slowly than the others is not late for that. An input that has not had a
row yet holds time back, until it counts as idle. With policy "max" time is the greatest of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import FunctionError
from evenflow.operators.columns import EVER, microseconds
from evenflow.operators.keyed import Units

Longs = npt.NDArray[np.int64]
Policy: TypeAlias = Literal["min", "max"]
FAR = np.iinfo(np.int64).max
Reached: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""The progress of one unit, as it is stored: by input the time that it has reached, and when it last had rows."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of an operator, told apart by a column: their names, or their numbers from 0 on."""

    column: str
    names: tuple[str, ...]
    idle: int | None = None
    """Microseconds without a row, by the clock of the driver, after which an input holds time back no more."""
    policy: Policy = "min"

    @property
    def _listed(self) -> str:
        return ", ".join(f"'{name}'" for name in self.names)

    def numbers(self, column: pa.Array) -> npt.NDArray[np.int64]:
        """The number of each row's input."""
        if pa.types.is_integer(column.type):
            least, most = pc.less(column, 0), pc.greater_equal(column, len(self.names))
            strange = column.filter(pc.fill_null(pc.or_(least, most), True))
            if len(strange):
                raise FunctionError(
                    f"column '{self.column}' is {strange[0].as_py()} in a row; inputs are 0 to {len(self.names) - 1}, "
                    f"for {self._listed}: give `inputs` a name for each number, or filter such rows out"
                )
            given: npt.NDArray[np.int64] = column.to_numpy().astype(np.int64)
            return given
        found = pc.index_in(column, pa.array(self.names, column.type))
        if found.null_count:
            other = column.filter(pc.is_null(found))[0].as_py()
            raise FunctionError(f"column '{self.column}' is {other!r} in a row; inputs are {self._listed}")
        numbers: npt.NDArray[np.int64] = found.to_numpy().astype(np.int64)
        return numbers

    def latest(self, column: pa.Array, times: pa.Array, name: str) -> Longs:
        """The latest time of each input among some rows; EVER where it has none. `name` is that of the time's column.

        Times that are null are left out: they are refused where the rows are.
        """
        found = np.full(len(self.names), EVER, np.int64)
        ends = pc.min_max(column)
        if not column.null_count and ends["min"] == ends["max"]:  # as most often: a partition is of one input
            last = pc.max(times)
            if last.is_valid:
                found[self.numbers(column[:1])[0]] = microseconds(pa.repeat(last, 1), name)[0]
            return found
        if times.null_count:
            column, times = column.filter(times.is_valid()), times.drop_null()
        np.maximum.at(found, self.numbers(column), microseconds(times, name))
        return found


def _without_pauses(seen: Longs, wall: int, idle: int) -> Longs:
    """When inputs last had rows, as if no more than half of `idle` had passed since the micro-batch before.

    It may be that nothing ran meanwhile, so that no input could have had rows. Each micro-batch has rows of some input,
    so the latest time at which one had rows is that of the micro-batch before.
    """
    last = seen.max(axis=1, keepdims=True)
    pause = wall - np.where(last == EVER, wall, last)
    return np.where(seen == EVER, EVER, seen + np.maximum(0, pause - idle // 2))


class InputProgress:
    """How far each input is, by unit: all units are told the same, and each keeps it as part of its own state."""

    def __init__(self, inputs: Inputs, units: int) -> None:
        self._inputs = inputs
        width = len(inputs.names)
        self.reached = np.full((units, width), EVER, np.int64)
        """The latest time of the input less the lateness, in microseconds."""
        self.seen = np.full((units, width), EVER, np.int64)
        """When the input last had rows by the clock of the driver, or when its unit was first told the time.

        With an idle time, pauses between micro-batches count as half of it at most: they move what is here.
        """

    def advance(self, units: Units, told: Longs, wall: int) -> Longs:
        """Tell units what inputs have reached in a micro-batch that began at `wall`; the time of each unit then.

        `told` has EVER for an input that had no rows.
        """
        had = told > EVER
        reached = self.reached[units] = np.maximum(self.reached[units], told)
        before = self.seen[units]
        if self._inputs.idle is not None:
            before = _without_pauses(before, wall, self._inputs.idle)
        seen = self.seen[units] = np.where(had | (before == EVER), np.maximum(before, wall), before)
        if self._inputs.policy == "max":
            return np.asarray(reached.max(axis=1))
        if self._inputs.idle is not None:
            idle = ~had & (wall - seen >= self._inputs.idle)
            reached = np.where(idle, FAR, reached)
        return np.asarray(reached.min(axis=1))

    def look(self, unit: int) -> Reached:
        """The progress of a unit."""
        return tuple(self.reached[unit].tolist()), tuple(self.seen[unit].tolist())

    def extract(self, unit: int) -> Reached:
        """Take out the progress of a unit."""
        taken = self.look(unit)
        self.reached[unit] = self.seen[unit] = EVER
        return taken

    def install(self, unit: int, reached: Reached) -> None:
        """Put in the progress of a unit; if there were other inputs when it was stored, it begins anew."""
        if len(reached[0]) == len(self._inputs.names):
            self.reached[unit], self.seen[unit] = reached
