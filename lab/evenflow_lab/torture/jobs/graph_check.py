"""Compares the rows at the endpoints of a graph with those of a plain evaluation in one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from evenflow.graph.reference import evaluate
from evenflow_lab.torture.jobs.check import Verdict, committed, counted, differences, falling, inconsistent, summed
from evenflow_lab.torture.jobs.graph_drawing import TWO_ENDS, draw_graph, plan_of
from evenflow_lab.torture.jobs.rows import InputRows, inputs_of, rows_of, table, times
from evenflow_lab.torture.schedule import Job, Schedule, place_of

OUTPUT = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
"""The columns that are compared."""


def verdict(schedule: Schedule, folder: Path) -> Verdict:
    """Compare what all queries have written for all endpoints, each in a folder of its name."""
    outs = [folder / place_of("out", number) for number in range(schedule.job.queries)]
    return summed([_verdict(schedule, out) for out in outs])


def _verdict(schedule: Schedule, out: Path) -> Verdict:
    orderly = draw_graph(schedule).orderly
    found = []
    for name, want in expected(schedule).items():
        got = committed(out / name, OUTPUT)
        found.append(compare(want, got, schedule.job if name in orderly else None))
    if schedule.job.sink == "skips":
        counts, means = (committed(out / name, OUTPUT) for name in TWO_ENDS)
        found.append(compare_two(rows_of(schedule), counts, means))
    return summed(found)


def compare_two(rows: InputRows, counts: pa.Table, means: pa.Table) -> Verdict:
    """Compare two endpoints of one node, which counts racing rows: `v` is the count, or the mean.

    Both must be of the same evaluation: the means are those of the order that the counts tell.
    """
    want = Counter(zip(rows.ids.tolist(), rows.keys.tolist(), strict=True))
    found = [differences(want, counted(got.select(["id", "k"]))) for got in (counts, means)]
    both = [dict(zip(got["id"].to_pylist(), got["v"].to_pylist(), strict=True)) for got in (counts, means)]
    ids = np.array(sorted(both[0].keys() & both[1].keys() & set(rows.ids.tolist())), np.int64)
    nth, mean = (np.array([one[each] for each in ids.tolist()]) for one in both)
    return summed([*found, Verdict(wrong=inconsistent(rows, ids, nth.astype(np.int64), mean))])


def expected(schedule: Schedule) -> dict[str, pa.Table]:
    """The rows of each endpoint without faults."""
    found = evaluate(plan_of(draw_graph(schedule)), batches(schedule))
    return {name: rows.select(OUTPUT.names) for name, rows in found.items() if name not in TWO_ENDS}


def compare(want: pa.Table, got: pa.Table, in_order: Job | None = None) -> Verdict:
    """Compare rows; if a job is given, rows of the same file and batch must come in the order of their ids."""
    found = differences(*(counted(rows.select(OUTPUT.names)) for rows in (want, got)))
    return found if in_order is None else replace(found, out_of_order=_disordered(got, in_order))


def batches(schedule: Schedule) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The input, batch by batch."""
    inputs = inputs_of(schedule)
    for batch in range(schedule.job.batches + 1):
        for name, rows in inputs.items():
            whole = table(rows, times(schedule.job, rows), rows.batches == batch)
            yield from ((name, each) for each in whole.to_batches())


def _disordered(rows: pa.Table, job: Job) -> int:
    """How often a row comes after a later one of its file."""
    ids, keys = rows["id"].to_numpy(), rows["k"].to_numpy()
    batches = np.minimum(ids // job.rows, job.batches)
    return falling(batches * job.partitions + keys % job.partitions, np.arange(len(ids)), ids)
