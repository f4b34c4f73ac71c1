"""Aggregates over the rows of one stream: the last ones of a key, or all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.columns import locked, nullable, numbers, validity
from evenflow.operators.compiled import readable
from evenflow.operators.rings import COUNT, MAX, MEAN, MIN, STD, SUM, Rings, Totals
from evenflow.rules.clock import Counter, Numbers
from evenflow.rules.expressions import Compiled
from evenflow.rules.frame import Intake, Part
from evenflow.rules.grouped import Grouped
from evenflow.rules.groups import mixed
from evenflow.rules.views import EVERYTHING, LENGTH, Window

NO_TIMES = locked(np.empty(0, np.int64))
HOW = {"count": COUNT, "sum": SUM, "avg": MEAN, "min": MIN, "max": MAX, "stddev": STD}


def result_type(name: str) -> pa.DataType:
    """The type of an aggregate, whatever it is of."""
    return pa.int64() if name == "count" else pa.float64()


def finished(name: str, out: npt.NDArray[Any], known: npt.NDArray[np.bool_]) -> pa.Array:
    """An aggregate as a column."""
    return pa.array(out.astype(np.int64)) if name == "count" else nullable(out, known)


def argument(
    name: str, value: Compiled | None, columns: Any, rows: int, where: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The numbers that an aggregate is of, and which count; all if empty."""
    array = None if value is None else value.evaluate(columns, rows)
    plain = array is None or name == "count"
    values = locked(np.zeros(rows)) if plain else numbers(array)
    valid = locked(np.empty(0, np.bool_)) if array is None else validity(array)
    if where is not None:
        valid = locked(where & valid if len(valid) else where)
    return values, valid


@dataclass(frozen=True)
class Sliding:
    """The rows that aggregates are over, and how they are kept apart."""

    intake: Intake
    window: Window
    label: str
    where: Compiled | None
    inner: tuple[Compiled, ...]
    """What std:groupwin splits the window by."""
    groups: tuple[Compiled, ...]
    """What GROUP BY splits its rows by."""
    alone: bool
    """Whether all rows of a key come here: then its latest time is known without a clock."""
    reached: Numbers | None
    """How far each key's window has come, where it is split into groups that come and go."""

    def passing(self, part: Part) -> npt.NDArray[np.bool_] | None:
        """Which rows pass WHERE; None for all."""
        if self.where is None:
            return None
        condition = self.where
        return part.frame.once(("where", self.label), lambda: locked(condition.holds(part.columns, part.count)))

    def keys(self, part: Part, grouped: bool) -> npt.NDArray[np.int64]:
        """The keys of the windows, or of the groups in them."""
        by = [*self.inner, *self.groups] if grouped else self.inner
        return part.frame.once(
            ("keys", self.label, grouped),
            lambda: mixed(part.of(part.frame.keys), [each.evaluate(part.columns, part.count) for each in by]),
        )

    def homes(self, part: Part) -> npt.NDArray[np.int64]:
        """The keys by which it is known how far the windows have come."""
        return self.keys(part, False) if self.window.kind == LENGTH else part.of(part.frame.keys)

    def times(self, part: Part) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The times of the rows, and the latest of their keys; their numbers, if rows leave by these."""
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
    """One aggregate of a window, for each of its groups."""

    def __init__(self, name: str, value: Compiled | None, rows: Sliding) -> None:
        self.name, self.value, self.rows = name, value, rows
        how, window = HOW[name], rows.window
        self.state: Any
        if window.kind == EVERYTHING:
            self.state = Totals(how)
        elif rows.reached is not None:  # in a window of rows, a group loses them by their numbers: these are the times
            self.state = Grouped(how, window.span or window.rows, rows.reached)
        else:
            self.state = Rings(how, window.rows, window.span)

    def push(self, part: Part) -> pa.Array:
        """The aggregate after each row."""
        frame, rows = part.frame, self.rows
        values, valid = argument(self.name, self.value, part.columns, part.count, rows.passing(part))
        units, keys = part.of(frame.units), rows.keys(part, True)
        if isinstance(self.state, Totals):
            return finished(self.name, *self.state.push(units, keys, values, valid))
        given = [units, keys, values]
        push = self.state.push
        if isinstance(self.state, Grouped):
            given, push = [*given, rows.homes(part)], self.state.enter
        times, latest = rows.times(part)
        behind = latest is not times and not np.array_equal(latest, times)
        if behind:
            given, valid = _doubled(given, valid)
            times = readable(np.stack([latest, times], axis=1).ravel(), np.int64)
        out, known = push(*given, valid, times)
        if behind:
            out, known = np.ascontiguousarray(out[1::2]), known[1::2]
        return finished(self.name, out, known)


def _doubled(given: list[npt.NDArray[Any]], valid: npt.NDArray[np.bool_]) -> tuple[list[npt.NDArray[Any]], Any]:
    """Where rows are behind the latest time of their key: before each comes one without a value, which tells it."""
    present = np.zeros((len(given[0]), 2), np.bool_)
    present[:, 1] = valid if len(valid) else True
    return [locked(np.repeat(each, 2)) for each in given], locked(present.ravel())
