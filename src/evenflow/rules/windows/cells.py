"""Aggregates over the rows of one stream: the last rows of a key, or all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.aggregates.measures import Measure, measure
from evenflow.operators.columns import NO_TIMES, locked, validity
from evenflow.operators.compiled import readable
from evenflow.operators.windows.combining import COUNT, MAX, MEAN, MIN, STD, SUM
from evenflow.operators.windows.rings import Rings
from evenflow.operators.windows.totals import Numbers, Totals
from evenflow.rules.expressions.code import Compiled, Values
from evenflow.rules.expressions.frame import FramePart, Intake
from evenflow.rules.windows.clock import Counter, KeyNumbers
from evenflow.rules.windows.grouped import Grouped
from evenflow.rules.windows.groups import mixed
from evenflow.rules.windows.views import EVERYTHING, LENGTH, Window

HOW = {"count": COUNT, "sum": SUM, "mean": MEAN, "min": MIN, "max": MAX, "std": STD}
NAMES = {"avg": "mean", "stddev": "std"}
"""Names of aggregates in `measures`, where they differ from those in rules."""


@dataclass(frozen=True)
class Reduced:
    """An aggregate of a value; `value` is None for `count(*)`."""

    measure: Measure
    value: Compiled | None

    @property
    def type(self) -> pa.DataType:
        """The type of the result."""
        return self.measure.type

    @property
    def how(self) -> int:
        """Its number in compiled code."""
        return HOW[self.measure.name]

    def argument(
        self, columns: Values, rows: int, where: npt.NDArray[np.bool_] | None
    ) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """The values, and a mask of those values that count (not null, `where` true); all if it is empty."""
        array = pa.nulls(rows) if self.value is None else self.value.evaluate(columns, rows)
        valid = locked(np.empty(0, np.bool_)) if self.value is None else validity(array)
        if where is not None:
            valid = locked(where & valid if len(valid) else where)
        return self.measure.values(array), valid


def reduced(name: str, what: str, value: Compiled | None, ansi: bool) -> Reduced | None:
    """The aggregate `name` of a value; None if there is none for its type. Messages call it `what`."""
    found = measure(NAMES.get(name, name), pa.null() if value is None else value.type, what, ansi)
    return None if found is None else Reduced(found, value)


@dataclass(frozen=True)
class Sliding:
    """The window that aggregates are over, and how it is split."""

    intake: Intake
    window: Window
    label: str
    where: Compiled | None
    inner: tuple[Compiled, ...]
    """The expressions of std:groupwin: each combination of their values has its own window."""
    groups: tuple[Compiled, ...]
    """The expressions of GROUP BY, which split a window."""
    alone: bool
    """Whether all rows of a key come here: then the ring itself knows the key's latest time."""
    reached: KeyNumbers | None
    """The latest time, or the row count, of each window that is split into groups; groups behind it are dropped."""

    def passing(self, part: FramePart) -> npt.NDArray[np.bool_] | None:
        """Which rows pass WHERE; None means all."""
        if self.where is None:
            return None
        condition = self.where
        return part.frame.once(("where", self.label), lambda: locked(condition.holds(part.columns, part.count)))

    def keys(self, part: FramePart, grouped: bool) -> npt.NDArray[np.int64]:
        """The keys of the windows, or of the groups in them."""
        by = [*self.inner, *self.groups] if grouped else self.inner
        return part.frame.once(
            ("keys", self.label, grouped),
            lambda: mixed(part.of(part.frame.keys), [each.evaluate(part.columns, part.count) for each in by]),
        )

    def homes(self, part: FramePart) -> npt.NDArray[np.int64]:
        """The keys of the windows in `reached`."""
        return self.keys(part, False) if self.window.kind == LENGTH else part.of(part.frame.keys)

    def times(self, part: FramePart) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The times of the rows and the latest times of their keys; row numbers instead where rows leave by number."""
        frame, counter = part.frame, self.reached
        if self.window.kind != LENGTH:
            times = locked(part.of(frame.times))
            return times, times if self.alone else part.of(frame.latest)
        if not isinstance(counter, Counter):
            return NO_TIMES, NO_TIMES
        units = part.of(frame.units)
        numbers = frame.once(("number", self.label), lambda: locked(counter.push(units, self.homes(part))))
        return numbers, numbers


class Cell:
    """One aggregate of a window, for each group of the window."""

    def __init__(self, aggregate: Reduced, rows: Sliding) -> None:
        self.aggregate, self.rows = aggregate, rows
        how, window = aggregate.how, rows.window
        self.state: Totals | Rings
        if window.kind == EVERYTHING:
            self.state = Totals(how)
        elif rows.reached is not None:  # rows of win:length leave a group by their numbers, which serve as times
            self.state = Grouped(how, window.span or window.rows, rows.reached)
        else:
            self.state = Rings(how, window.rows, window.span)

    def push(self, part: FramePart) -> pa.Array:
        """The aggregate after each row."""
        frame, rows, measure = part.frame, self.rows, self.aggregate.measure
        values, valid = self.aggregate.argument(part.columns, part.count, rows.passing(part))
        self.state.use(measure.of, measure.words)
        units, keys = part.of(frame.units), rows.keys(part, True)
        if isinstance(self.state, Totals):
            return measure.column(*self.state.push(units, keys, values, valid))
        homes = rows.homes(part) if isinstance(self.state, Grouped) else keys
        times, latest = rows.times(part)
        behind = latest is not times and not np.array_equal(latest, times)
        if behind:
            units, keys, values, homes = (locked(np.repeat(each, 2, axis=0)) for each in (units, keys, values, homes))
            times = readable(np.stack([latest, times], axis=1).ravel(), np.int64)
            valid = _second(valid, part.count)
        if isinstance(self.state, Grouped):
            out, known = self.state.enter(units, keys, values, homes, valid, times)
        else:
            out, known = self.state.push(units, keys, values, valid, times)
        if behind:
            out, known = np.ascontiguousarray(out[1::2]), known[1::2]
        return measure.column(out, known)


def _second(valid: npt.NDArray[np.bool_], rows: int) -> npt.NDArray[np.bool_]:
    """The mask of values if each row comes twice: first without a value, at its key's latest time, then as it is."""
    present = np.zeros((rows, 2), np.bool_)
    present[:, 1] = valid if len(valid) else True
    return locked(present.ravel())
