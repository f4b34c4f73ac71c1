"""The operator that joins two DataFrames with different columns: what `Cluster.join` runs on the workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evenflow.operators.aggregates.adding import rehearse, sample
from evenflow.operators.columns import NO_TIMES, microseconds, require_time
from evenflow.operators.conform import one_batch
from evenflow.operators.delegating import Delegating
from evenflow.operators.keyed import Keys, Origin, Units

if TYPE_CHECKING:
    from evenflow.operators.joins.sided_pairs import SidedPairs

SIDE = "__evenflow_side"
"""The column that tells a row's side: 0 left, 1 right. It is the first column, so that among equal rows left ones sort
first."""


class SidedJoin(Delegating):
    """Pairs each row with the rows of its key from the other side that are still in the window, oldest first.

    Rows of both sides come in one schema, `rows`; columns of the other side are null. `left` and `right` tell which
    columns a pair has of either side, and what they are called there. The window is the last `last` rows of the other
    side, or those whose time, in column `time`, is less than `span` microseconds from the row's. Rows stay in such a
    window until `on_time` says that no row can come that would meet them.
    """

    _state: SidedPairs
    inputs = SIDE, ("left", "right")

    def __init__(
        self,
        rows: pa.Schema,
        left: Mapping[str, str],
        right: Mapping[str, str],
        *,
        last: int = 0,
        span: int = 0,
        time: str | None = None,
    ) -> None:
        self.last, self.span, self.time = last, span, time
        self.left = tuple((name, left[name], str(rows.field(name).type)) for name in left)
        self.right = tuple((name, right[name], str(rows.field(name).type)) for name in right)
        if time is not None:
            require_time("join", time, rows.field(time).type)
        from evenflow.operators.joins.sided_pairs import SidedPairs  # numba comes with it: only those who use it pay

        self._kept = tuple([*chosen] or [rows.names[1]] for chosen in (left, right))  # one at least, to count rows by
        plain = [pa.schema([pa.field(name, rows.field(name).type) for name in kept]) for kept in self._kept]
        self._state = SidedPairs(last, span, plain[0], plain[1], told=True)

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """Whether pairs depend on the order of rows: with a window in rows."""
        return not self.span

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([rows.field(name).with_name(called) for name, called, _ in (*self.left, *self.right)])

    def process(self, rows: pa.RecordBatch, units: Units, keys: Keys) -> tuple[pa.RecordBatch, Origin]:
        sides = rows.column(SIDE).to_numpy().astype(np.int32)
        times = NO_TIMES if self.time is None else microseconds(rows.column(self.time), self.time)
        table = pa.Table.from_batches([rows])
        given = [table.select(kept).filter(pa.array(sides == side)) for side, kept in enumerate(self._kept)]
        left, right, origin = self._state.push_both(units, keys, sides, times, *given)
        chosen = (*left.columns[: len(self.left)], *right.columns[: len(self.right)])
        return one_batch(chosen, self.schema(rows.schema)), origin

    def on_time(self, now: int, units: Units) -> None:
        self._state.pass_time(units, now)

    def tallies(self) -> dict[str, int]:
        return self._state.tallies()

    def warm_up(self, rows: pa.Schema) -> None:
        some = sample(rows).take(pa.array([1, 1]))
        sides = pa.array([0, 1], rows.field(SIDE).type)
        rehearse(self, some.set_column(rows.get_field_index(SIDE), rows.field(SIDE), sides))

    def __str__(self) -> str:
        return "join"
