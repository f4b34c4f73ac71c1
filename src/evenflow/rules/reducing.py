"""Aggregates of values that come in groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.compiled import compiled, readable
from evenflow.operators.rings import _combine, _result
from evenflow.rules.cells import HOW, argument, finished
from evenflow.rules.expressions import Compiled

Groups = npt.NDArray[np.int64]


class Reduction:
    """One aggregate for each of `count` groups, to which values come bit by bit."""

    def __init__(self, name: str, value: Compiled | None, count: int) -> None:
        self.name, self.value = name, value
        self.totals = np.zeros((count, 3))

    def add(self, groups: Groups, columns: Any, rows: int) -> None:
        """Take in rows, each of the group that is told."""
        values, valid = argument(self.name, self.value, columns, rows, None)
        _add(HOW[self.name], readable(groups, np.int64), values, valid, self.totals)

    def result(self) -> pa.Array:
        """The aggregates of the groups."""
        out, known = np.empty(len(self.totals)), np.empty(len(self.totals), np.bool_)
        _finish(HOW[self.name], self.totals, out, known)
        return finished(self.name, out, known)


@compiled
def _add(how, groups, values, valid, totals):  # type: ignore[no-untyped-def]
    for row in range(len(groups)):
        if len(valid) == 0 or valid[row]:
            total = totals[groups[row]]
            value = values[row]
            total[0], total[1], total[2] = _combine(how, total[0], total[1], total[2], 1.0, value, value - value)


@compiled
def _finish(how, totals, out, known):  # type: ignore[no-untyped-def]
    for group in range(len(totals)):
        out[group], known[group] = _result(how, totals[group, 0], totals[group, 1], totals[group, 2])
