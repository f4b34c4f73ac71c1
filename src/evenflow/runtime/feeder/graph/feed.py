"""The settings of a graph's feeder, and how rows of several sources and endpoints travel through Spark.

Through Spark all sources go as one DataFrame: the number of the source, then for each source a struct of its columns
that is null in rows of the others, then the partition. With one source, its columns are as they are. Results come back
in the same way, by endpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.graph.build.plan import GraphPlan
from evenflow.runtime.wire.settings import Settings


@dataclass(frozen=True, slots=True)
class GraphFeed:
    """Everything a feeder of a graph needs to know, picklable."""

    settings: Settings
    region: str
    operator: str
    plan: GraphPlan
    """With routers for operators (`graph.routers`)."""
    streaming: bool
    mark: str = ""
    """Tells this use of a graph from all others in the plan: see `stages`."""
    together: bool = False
    """Whether results of all endpoints come in one DataFrame; otherwise there is one endpoint."""
    window_rows: int = 500_000
    window_bytes: int = 16 * 1024 * 1024
    """Rows and bytes on their way through the graph, at most, counting the rows that operators made from them."""
    arrival: str = ""
    """Of emulated sources: the column with the second at which a row arrives."""

    def rows_of(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Streams and their rows in what Spark gives."""
        width, sources = batch.num_columns - 1, self.plan.sources
        if len(sources) == 1:
            yield 0, self._named(0, batch.columns[:width])
            return
        which = batch.column(0).to_numpy()
        for source in np.unique(which).tolist():
            column = batch.column(1 + source)
            if (which != source).any():
                column = column.filter(pa.array(which == source))
            yield source, self._named(source, column.flatten())

    def _named(self, source: int, columns: list[pa.Array]) -> pa.RecordBatch:
        schema = self.plan.streams[source].schema
        whole = [
            one if one.type == field.type else one.cast(field.type) for one, field in zip(columns, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(whole, schema=schema)

    def results(self, endpoint: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Results of an endpoint as Spark gets them."""
        if not self.together:
            return rows
        columns: list[pa.Array] = [pa.array(np.full(rows.num_rows, endpoint, np.int32))]
        for number, other in enumerate(self.plan.endpoints):
            fields = self.plan.streams[other.stream].schema
            kind = pa.struct([field.with_name(f"f{place}") for place, field in enumerate(fields)])
            if number == endpoint:
                columns.append(pa.StructArray.from_arrays(rows.columns, fields=list(kind)))
            else:
                columns.append(pa.nulls(rows.num_rows, kind))
        return pa.RecordBatch.from_arrays(columns, names=[f"c{number}" for number in range(len(columns))])

    def arrivals(self, rows: pa.RecordBatch) -> np.ndarray | None:
        """The seconds at which rows arrive; None if they are here."""
        if not self.arrival:
            return None
        seconds: np.ndarray = pc.cast(rows.column(self.arrival), pa.float64()).to_numpy(zero_copy_only=False)
        return seconds
