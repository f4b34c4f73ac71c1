"""Compares the rows at the endpoints of a graph with those of a plain evaluation in one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from evenflow.graph.reference import evaluate
from evenflow.torture.check import Verdict, committed, falling
from evenflow.torture.graph_drawing import draw_graph, plan_of
from evenflow.torture.rows import inputs_of, table, times
from evenflow.torture.schedule import Job, Schedule

OUTPUT = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
"""The columns that are compared."""


def verdict(schedule: Schedule, sink: Path) -> Verdict:
    """Compare what was written for all endpoints, each in a folder of its name."""
    orderly = draw_graph(schedule).orderly
    found = []
    for name, want in expected(schedule).items():
        got = committed(sink / name, OUTPUT)
        found.append(compare(want, got, schedule.job if name in orderly else None))
    return summed(found)


def expected(schedule: Schedule) -> dict[str, pa.Table]:
    """The rows of each endpoint without faults."""
    found = evaluate(plan_of(draw_graph(schedule)), batches(schedule))
    return {name: rows.select(OUTPUT.names) for name, rows in found.items()}


def compare(want: pa.Table, got: pa.Table, in_order: Job | None = None) -> Verdict:
    """Compare rows; if a job is given, those that one of its files has in one batch must be in the order of ids.

    A row that comes too often was doubled. One that never should have come was wrong, in the place of one that did not.
    """
    wanted, came = _counted(want), _counted(got)
    missing, more = (wanted - came).total(), came - wanted
    wrong = sum(count for row, count in more.items() if row not in wanted)
    return Verdict(
        rows=want.num_rows,
        lost=max(0, missing - wrong),
        doubled=more.total() - wrong,
        out_of_order=_disordered(got, in_order) if in_order is not None else 0,
        wrong=wrong,
    )


def summed(verdicts: list[Verdict]) -> Verdict:
    """The verdict on all endpoints together."""
    fields = Verdict.__dataclass_fields__
    return Verdict(**{name: sum(getattr(each, name) for each in verdicts) for name in fields})


def batches(schedule: Schedule) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The input, batch by batch."""
    inputs = inputs_of(schedule)
    for batch in range(schedule.job.batches + 1):
        for name, rows in inputs.items():
            whole = table(rows, times(schedule.job, rows), rows.batches == batch)
            yield from ((name, each) for each in whole.to_batches())


def _counted(rows: pa.Table) -> Counter[tuple[int, int, float]]:
    return Counter(zip(*(rows[name].to_pylist() for name in OUTPUT.names), strict=True))


def _disordered(rows: pa.Table, job: Job) -> int:
    """How often a row comes after a later one of its file."""
    ids, keys = rows["id"].to_numpy(), rows["k"].to_numpy()
    batches = np.minimum(ids // job.rows, job.batches)
    return falling(batches * job.partitions + keys % job.partitions, np.arange(len(ids)), ids)
