"""Aggregates of groups that are complete within one evaluation of a rule; nothing is kept afterwards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.compiled import readable
from evenflow.operators.windows.combining import add_groups, tell_all, width
from evenflow.rules.expressions.code import Values
from evenflow.rules.windows.cells import Reduced

Groups = npt.NDArray[np.int64]


class Reduction:
    """One aggregate for each of `count` groups; rows can be added in several calls."""

    def __init__(self, aggregate: Reduced, count: int) -> None:
        self.aggregate = aggregate
        words = aggregate.measure.words
        self.totals = np.zeros((count, width(aggregate.how, words)), np.int64 if words else np.float64)

    def add(self, groups: Groups, columns: Values, rows: int) -> None:
        """Add rows, each to its group."""
        values, valid = self.aggregate.argument(columns, rows, None)
        add_groups(self.aggregate.how, readable(groups, np.int64), values, valid, self.totals)

    def result(self) -> pa.Array:
        """The aggregates of the groups."""
        count, known = len(self.totals), np.empty(len(self.totals), np.bool_)
        out = np.empty_like(self.totals) if self.aggregate.measure.words else np.empty(count)
        tell_all(self.aggregate.how, self.totals, out, known)
        return self.aggregate.measure.column(out, known)
