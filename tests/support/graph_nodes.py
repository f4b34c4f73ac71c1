"""Tiny operators for graphs in the simulated world, pure Python, and the note they take of the rows that they see.

All streams have the same columns: the task whose row it is, an id that rises with the place among the task's rows, a
key, and a value in which every operator leaves its trace. Results do not depend on the order of rows: windows of joins
never end.
"""

import copy
from collections import defaultdict

import numpy as np
import pyarrow as pa

from evenflow.graph.nodes.operator import NodeOperator
from tests.support.keyed_actors import Brittle, Trouble

SCHEMA = pa.schema([("task", pa.int64()), ("id", pa.int64()), ("key", pa.int64()), ("value", pa.int64())])
WIDE = 2**61 - 1
SEEN = defaultdict(list)
"""By world, region and node: side and rows, in the order in which the node got them, wherever it was."""


def trace(*values):
    """A number that stands for some others."""
    found = 7
    for value in values:
        found = (found * 1_000_003 + int(value)) % WIDE
    return found


class Noted(NodeOperator):
    """An operator that takes notes; `place` says where, and is None for plain evaluations."""

    def __init__(self, name, place):
        self.name, self.place = name, place
        self.latest = None
        """The copy that was made last: that of a plain evaluation, if there is one."""

    def process(self, side, rows, units, keys):
        given = [tuple(row.values()) for row in rows.to_pylist()]
        if self.place is not None:
            SEEN[*self.place, self.name] += [(side, row) for row in given]
        made = self.make(side, given, units.tolist())
        columns = zip(*made, strict=True) if made else [()] * len(SCHEMA)
        return pa.RecordBatch.from_arrays([pa.array(column, pa.int64()) for column in columns], schema=SCHEMA)

    def fresh(self):
        self.latest = made = copy.copy(self)
        made.state, made.latest = {}, None
        return made


class Keep(Noted):
    """A filter: leaves out one in `least` rows."""

    kind = "filter"

    def __init__(self, name, place, least):
        super().__init__(name, place)
        self.least = least

    def make(self, _side, rows, _units):
        return [row for row in rows if trace(row[3]) % self.least]


class Mark(Noted):
    """A map: each row `times` times, 0 to 2. With two inputs, it gives the rows of both."""

    kind = "map"

    def __init__(self, name, place, times):
        super().__init__(name, place)
        self.times = times

    def make(self, side, rows, _units):
        return [
            (task, number, key, trace(value, len(self.name), side, time))
            for task, number, key, value in rows
            for time in range(self.times)
        ]


class Lanes(Mark):
    """An ordered map: any unit takes any frame; an `OrderNode` is behind it."""

    kind = "ordered map"
    lanes = True

    def __init__(self, name, place, times, units):
        super().__init__(name, place, times)
        self.units = units


class Stateful(Noted):
    """State by unit and key; units are those of a keyed operator, or there is one."""

    stateful = True

    def __init__(self, name, place, units, fails=None):
        super().__init__(name, place)
        self.units = units
        self.fails = fails
        self.state = {}

    def keys(self, _side, rows):
        return rows.column(2)

    def extract(self, unit):
        if self.fails is not None and self.fails.due("extract", unit):
            raise Trouble("extract fails")
        state = self.state.pop(unit, None)
        return state if state is None or self.fails is None or unit != self.fails.unit else Brittle(state, self.fails)

    def install(self, unit, state):
        if self.fails is not None and self.fails.due("install", unit):
            raise Trouble("install fails")
        assert unit not in self.state, f"unit {unit} of {self.name} is here already"
        self.state[unit] = state.counts if isinstance(state, Brittle) else state

    def sizes(self, units):
        return np.array([100 * len(self.state.get(unit, ())) for unit in units.tolist()], np.int64)


class Collect(Stateful):
    """A keyed operator: gives each row on, and keeps it."""

    kind = "keyed"

    def make(self, side, rows, units):
        for row, unit in zip(rows, units, strict=True):
            self.state.setdefault(unit, {}).setdefault(row[2], []).append((side, *row[1:]))
        return rows


class Pairs(Stateful):
    """A join: each row with all rows of its key from the other side, whenever they came."""

    kind = "join"

    def make(self, side, rows, units):
        made = []
        for row, unit in zip(rows, units, strict=True):
            kept = self.state.setdefault(unit, {}).setdefault(row[2], [])
            for other, number, _, value in list(kept):
                if other != side:
                    left, right = ((row[1], row[3]), (number, value))[:: -1 if side else 1]
                    made.append((row[0], max(row[1], number), row[2], trace(*left, *right)))
            kept.append((side, *row[1:]))
        return made


class Number(Stateful):
    """A keyed operator whose results depend on the order of rows: which row of its key each one is."""

    kind = "keyed"

    def make(self, side, rows, units):
        made = []
        for row, unit in zip(rows, units, strict=True):
            kept = self.state.setdefault(unit, {}).setdefault(row[2], [])
            kept.append((side, *row[1:]))
            made.append((*row[:3], len(kept)))
        return made
