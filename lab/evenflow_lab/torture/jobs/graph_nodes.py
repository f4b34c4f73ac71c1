"""What the operators of drawn graphs do. All streams have the columns of the input; each operator leaves its trace.

Results depend on the rows and, where the order of rows is defined, on that; never on how rows are cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.graph.hosted import GraphState
from evenflow.operators.keyed import Keys, Units
from evenflow_lab.torture.faults.hooks import Hooks, hooks_of
from evenflow_lab.torture.jobs.operator import Counted, loading
from evenflow_lab.torture.jobs.rows import SCHEMA, Longs

RIGHT = "id2 long, k long, v2 double, at2 timestamp"
"""The columns of the right side of a join: those of the left side have other names."""
_TIME = pa.timestamp("us", "UTC")
_TYPES = pa.int64(), pa.int64(), pa.float64(), _TIME
ARROW = {
    given: pa.schema(list(zip([part.split()[0] for part in given.split(", ")], _TYPES, strict=True)))
    for given in (SCHEMA, RIGHT)
}
"""Arrow's schemas of the ones that graphs declare, for a plan without Spark."""

_extract, _install = GraphState.extract, GraphState.install
_snapshot, _process = GraphState.snapshot, GraphState.process


@dataclass(frozen=True, slots=True)
class Thinned:
    """A filter: keeps about one row of `of`, by its id."""

    of: int

    def __call__(self, rows: pa.RecordBatch) -> Any:
        """Whether each row is kept."""
        return (_scrambled(rows.column("id").to_numpy()) % self.of) == 0


@dataclass(frozen=True, slots=True)
class Scaled:
    """A map: each row `times` times, with values that tell which one it is."""

    factor: float
    times: int

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, those of one row side by side."""
        place = np.repeat(np.arange(rows.num_rows), self.times)
        values = rows.column("v").to_numpy()[place] * self.factor + np.tile(np.arange(self.times), rows.num_rows)
        return _with(rows.take(pa.array(place)), v=pa.array(values))


@dataclass(frozen=True, slots=True)
class Renamed:
    """A map: the rows with the column names of a join's right side."""

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows."""
        return rows.rename_columns(ARROW[RIGHT].names)


@dataclass(frozen=True, slots=True)
class Paired:
    """A map behind a join: the columns of the input again, with an id that stands for both rows."""

    def __call__(self, pairs: pa.RecordBatch) -> pa.RecordBatch:
        """A row for each pair."""
        left, right = (pairs.column(name).to_numpy() for name in ("id", "id2"))
        values = pc.add(pairs.column("v"), pairs.column("v2"))
        whole = _with(pairs, id=pa.array(_scrambled(left) * 31 + right), v=values)
        return whole.select(ARROW[SCHEMA].names)


@dataclass(frozen=True, slots=True)
class Tallied:
    """A map behind `Counted`: the columns of the input again.

    If the order of rows is not defined, it leaves out which row it was that was the nth of its key.
    """

    ordered: bool

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A row for each."""
        nth = rows.column("nth")
        if self.ordered:
            whole = _with(rows, v=pc.add(rows.column("mean"), pc.cast(nth, pa.float64())))
        else:
            start = pa.array(np.zeros(rows.num_rows, np.int64)).cast(rows.schema.field("at").type)
            whole = _with(rows, id=nth, v=pa.array(np.zeros(rows.num_rows)), at=start)
        return whole.select(ARROW[SCHEMA].names)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A map behind `Counted`: the columns of the input again, with one of the results as the value."""

    column: str

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A row for each."""
        return _with(rows, v=pc.cast(rows.column(self.column), pa.float64())).select(ARROW[SCHEMA].names)


class CountedInGraph(Counted):
    """Counts by key. On a worker it has the whole graph tell the hooks of every point that it comes to."""

    def warm_up(self, rows: pa.Schema) -> None:
        super().warm_up(rows)
        if self._folder:
            install(hooks_of(Path(self._folder)))

    def _reach(self, point: str) -> None:
        """Nothing: the graph does, for all its operators."""


def install(hooks: Hooks) -> None:
    """Have the graphs of this process tell the hooks of the present run where they are."""

    def extract(state: GraphState, unit: int) -> Any:
        hooks.reach("extract")
        return _extract(state, unit)

    def install(state: GraphState, unit: int, given: Any) -> None:
        hooks.reach("restore" if loading() else "install")
        _install(state, unit, given)

    def snapshot(state: GraphState, unit: int) -> Any:
        hooks.reach("snapshot")
        return _snapshot(state, unit)

    def process(state: GraphState, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        hooks.reach("restore")  # only rows of a log come this way
        return _process(state, rows, units, keys)

    for method in (extract, install, snapshot, process):
        setattr(GraphState, method.__name__, method)


def _scrambled(ids: Longs) -> Longs:
    """Numbers from 0 to 2^40 that look random."""
    mixed: Longs = ((ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)).astype(np.int64)
    return mixed


def _with(rows: pa.RecordBatch, **columns: pa.Array) -> pa.RecordBatch:
    """The rows with other values in some columns."""
    arrays = [columns.get(name, rows.column(name)) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)
