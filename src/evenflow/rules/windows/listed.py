"""Aggregates that look through the values in a window: count(distinct), first, last, prev, min and max of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.compiled import compiled, readable
from evenflow.rules.expressions.code import Compiled, Values
from evenflow.rules.expressions.frame import FramePart
from evenflow.rules.expressions.gathered import one_array
from evenflow.rules.windows.cells import Reduced, Sliding
from evenflow.rules.windows.groups import mixed
from evenflow.rules.windows.memory import Memory, Seen
from evenflow.rules.windows.reducing import Reduction

Longs = npt.NDArray[np.int64]
DISTINCT, FIRST, LAST, MIN_TEXT, MAX_TEXT, PREVIOUS = "distinct", "first", "last", "min", "max", "prev"
PASSES, GROUP = "passes", "group"
"""Names of kept columns: whether a row passes WHERE, and its group. The columns of values are called by number."""


@dataclass(frozen=True)
class ListedAggregate:
    """An aggregate of a value; PREVIOUS is the value of the row that is `offset` rows before, in the window."""

    name: str
    value: Compiled
    offset: int = 1

    @property
    def type(self) -> pa.DataType:
        """The type of the result."""
        return pa.int64() if self.name == DISTINCT else self.value.type

    def taken(self, columns: Values, rows: int) -> pa.Array:
        """The values as they are kept: for DISTINCT their hashes, equal where GROUP BY takes values for equal."""
        values = self.value.evaluate(columns, rows)
        if self.name != DISTINCT:
            return values
        nothing = values.is_null().to_numpy(zero_copy_only=False)
        return pa.array(mixed(np.zeros(rows, np.int64), [values]), mask=nothing)


class Collection:
    """A listed aggregate for each of `count` groups; rows can be added in several calls, in their order."""

    def __init__(self, aggregate: ListedAggregate, count: int) -> None:
        self.aggregate, self.count = aggregate, count
        self.groups = np.empty(0, np.int64)
        self.values: pa.Array | None = None

    def add(self, groups: Longs, columns: Values, rows: int) -> None:
        """Add rows, each to its group."""
        self.put(groups, self.aggregate.taken(columns, rows))

    def put(self, groups: Longs, values: pa.Array) -> None:
        """Add values from `taken`; keeps only those of each group that the result can still need."""
        if not len(groups):
            return
        if self.values is not None:
            groups, values = np.concatenate([self.groups, groups]), pa.concat_arrays([self.values, values])
        match self.aggregate.name:
            case "first" | "prev":
                index = np.unique(groups, return_index=True)[1]
            case "last":
                index = len(groups) - 1 - np.unique(groups[::-1], return_index=True)[1]
            case "distinct":
                index = _distinct(groups, values)
            case name:
                found = pa.table({"group": groups, "value": values}).group_by("group").aggregate([("value", name)])
                self.groups, self.values = found["group"].to_numpy(), one_array(found[f"value_{name}"])
                return
        self.groups, self.values = groups[index], values.take(pa.array(index))

    def result(self) -> pa.Array:
        """The aggregates of the groups."""
        if self.aggregate.name == DISTINCT:
            return pa.array(np.bincount(self.groups, minlength=self.count))
        if self.values is None:
            return pa.nulls(self.count, self.aggregate.type)
        return spread(self.values, self.groups, self.count)


def _distinct(groups: Longs, values: pa.Array) -> Longs:
    """The places of values that are not null, one for each value of a group."""
    known = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    groups, codes = groups[known], pc.fill_null(values, 0).to_numpy()[known]
    order = np.lexsort((codes, groups))
    groups, codes = groups[order], codes[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(groups) != 0) | (codes[1:] != codes[:-1])
    found: Longs = known[order[first]]
    return found


def spread(values: pa.Array, places: Longs, count: int) -> pa.Array:
    """An array of `count` values with these values at these places, and null elsewhere."""
    index = np.full(count, -1, np.int64)
    index[places] = np.arange(len(places))
    return values.take(pa.array(index, mask=index < 0))


def reduction(aggregate: Reduced | ListedAggregate, count: int) -> Reduction | Collection:
    """An aggregate for each of `count` groups that end with the call."""
    return Collection(aggregate, count) if isinstance(aggregate, ListedAggregate) else Reduction(aggregate, count)


class Listing:
    """ListedAggregate aggregates over the rows of a sliding window. Each row looks through its window."""

    def __init__(self, aggregates: Mapping[str, ListedAggregate], rows: Sliding) -> None:
        self.aggregates, self.rows = dict(aggregates), rows
        self.state = Memory(rows.window.rows, rows.window.span)
        self.state.columns |= {str(number) for number in range(len(self.aggregates))}
        self.state.columns |= {PASSES} if rows.where is not None else set()
        self.state.columns |= {GROUP} if rows.groups else set()

    def push(self, part: FramePart) -> dict[str, pa.Array]:
        """The aggregates after each row; null for rows that do not pass WHERE."""
        frame, rows = part.frame, self.rows
        homes, groups, passing = rows.keys(part, False), rows.keys(part, True), rows.passing(part)
        taken = [each.taken(part.columns, part.count) for each in self.aggregates.values()]
        kept: dict[str, pa.Array] = {str(number): values for number, values in enumerate(taken)}
        kept |= {GROUP: pa.array(groups)} if rows.groups else {}
        kept |= {PASSES: pa.array(passing)} if passing is not None else {}
        times, latest = part.of(frame.times), part.of(frame.latest)
        units = part.of(frame.units)
        seen = self.state.enter(units, homes, homes, None, pa.record_batch(kept), times, latest, itself=True)
        places = np.arange(part.count) if passing is None else np.flatnonzero(passing)
        found = {name: Collection(each, len(places)) for name, each in self.aggregates.items()}
        if any(each.name != PREVIOUS for each in self.aggregates.values()):
            for which, numbers, table in self.state.pairs(seen, places):
                self._put(found, which, numbers, table, groups[places])
        for number, (name, each) in enumerate(self.aggregates.items()):
            if each.name == PREVIOUS:
                found[name].put(*self._previous(seen, places, number, each.offset))
        return {name: spread(each.result(), places, part.count) for name, each in found.items()}

    def _put(
        self, found: Mapping[str, Collection], which: Longs, numbers: Longs, table: pa.Table, groups: Longs
    ) -> None:
        """Add the rows of windows that pass WHERE and are of the same group."""
        same = np.ones(len(which), np.bool_)
        if PASSES in table.column_names:
            same &= one_array(table[PASSES]).to_numpy(zero_copy_only=False)[numbers]
        if GROUP in table.column_names:
            same &= table[GROUP].to_numpy()[numbers] == groups[which]
        index = pa.array(numbers[same])
        for number, (name, each) in enumerate(self.aggregates.items()):
            if each.name != PREVIOUS:
                found[name].put(which[same], one_array(table[str(number)]).take(index))

    def _previous(self, seen: Seen, places: Longs, number: int, offset: int) -> tuple[Longs, pa.Array]:
        """The rows that have a row `offset` rows before them in their window, and the values of these."""
        state = self.state
        before = _before(state.lists, seen, readable(places, np.int64), offset, state.most, state.span)
        which = np.flatnonzero(before >= 0)
        if not len(which):
            return which, pa.nulls(0, list(self.aggregates.values())[number].type)
        return which, one_array(state.table(before[which])[str(number)])


@compiled
def _before(lists, seen, places, offset, most, span):  # type: ignore[no-untyped-def]
    """The number of the row that is `offset` before each row in its window; -1 if there is none."""
    _, _, older, clock = lists
    _, _, bounds, cuts = seen
    found = np.full(len(places), -1, np.int64)
    for which in range(len(places)):
        row = places[which]
        own = bounds[row] - 1
        number, steps = own, 0
        if offset >= most or (span and clock[own] <= cuts[row]):
            continue
        while steps < offset and number >= 0:
            number = older[number]
            if number >= 0 and number < own:  # the list is sorted by time: it may hold rows that came later
                steps += 1
        if number >= 0 and not (span and clock[number] <= cuts[row]):
            found[which] = number
    return found
