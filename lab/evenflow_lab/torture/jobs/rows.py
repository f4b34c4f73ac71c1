"""The input rows of a job, and the output that is expected for them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow_lab.torture.schedule import Job, Schedule

SCHEMA = "id long, k long, v double, at timestamp"
WINDOW = 4
"""The rows of a key in the rolling mean."""
SPAN_S = 2
"""The seconds of a window in event time."""
GAP_US = 20_000
"""The event time from one row to the next."""
START_US = 1_700_000_000_000_000
DAY_US = 86_400_000_000
CLOSING = 2
"""Further batches after the last, each with one row of another key, days later: they end all windows before."""

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class InputRows:
    """Input rows by column. The last batch has one row of every key, so its output shows the final state."""

    ids: Longs
    keys: Longs
    values: Floats
    batches: Longs


def source_names(job: Job) -> tuple[str, ...]:
    """The sources of a job; those of a graph have names."""
    return tuple("ab"[: job.sources]) if job.kind == "graph" or job.pairs_s else ("",)


def inputs_of(schedule: Schedule) -> dict[str, InputRows]:
    """The input rows of each source."""
    return {name: rows_of(schedule, number) for number, name in enumerate(source_names(schedule.job))}


def rows_of(schedule: Schedule, source: int = 0) -> InputRows:
    """All input rows of a schedule's job; values are multiples of 1/8, so that their sums are exact."""
    job = schedule.job
    random = np.random.default_rng((schedule.seed, source) if source else schedule.seed)
    drawn = np.concatenate([random.integers(0, job.keys, job.batches * job.rows), np.arange(job.keys)])
    batches = np.concatenate([np.repeat(np.arange(job.batches), job.rows), np.full(job.keys, job.batches)])
    if job.windows or job.pairs_s:
        drawn = np.append(drawn, np.full(CLOSING, job.keys))
        batches = np.append(batches, job.batches + 1 + np.arange(CLOSING))
    values = random.integers(0, 8000, len(drawn)) / 8.0
    return InputRows(np.arange(len(drawn)), drawn.astype(np.int64), values, batches)


def times(job: Job, rows: InputRows) -> Longs:
    """The event time of each row, in microseconds."""
    late: Longs = START_US + rows.ids * GAP_US + np.maximum(0, rows.batches - job.batches) * DAY_US
    return late


def lateness_s(job: Job) -> float:
    """A lateness with which no row is late, although files of the next batch may come before a row."""
    return 2 * (job.rows + job.keys) * GAP_US / 1e6


def windowed(job: Job, rows: InputRows) -> tuple[Longs, Longs, Longs, Floats]:
    """For each window of each key: its first row, its key, the sum of `nth` and the average of `mean`."""
    nth, mean = reference(rows.keys, rows.values)
    mine = rows.keys < job.keys
    which = np.stack([rows.keys[mine], times(job, rows)[mine] // (SPAN_S * 1_000_000)])
    _, first, place, count = np.unique(which, axis=1, return_index=True, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    sums = np.bincount(place, nth[mine], len(first)).astype(np.int64)
    return rows.ids[mine][first], rows.keys[mine][first], sums, np.bincount(place, mean[mine], len(first)) / count


def write(rows: InputRows, job: Job, folder: Path) -> None:
    """Write one file for each partition of each batch; their modification times tell Spark their order."""
    folder.mkdir(parents=True)
    partitions, at = job.partitions, times(job, rows)
    for batch in range(int(rows.batches[-1]) + 1):
        for partition in range(partitions):
            mine = (rows.batches == batch) & (rows.keys % partitions == partition)
            path = folder / f"{batch:03}-{partition}.parquet"
            pq.write_table(table(rows, at, mine), path)
            moment = 1_700_000_000 + batch * partitions + partition
            os.utime(path, (moment, moment))


def table(rows: InputRows, at: Longs, mine: npt.NDArray[np.bool_]) -> pa.Table:
    """Some of the rows, whose event times are `at`."""
    columns = {"id": rows.ids[mine], "k": rows.keys[mine], "v": rows.values[mine]}
    return pa.table(columns | {"at": pa.array(at[mine], pa.timestamp("us", "UTC"))})


def reference(keys: Longs, values: Floats) -> tuple[Longs, Floats]:
    """The expected `nth` and `mean` of each row: those of one worker without faults."""
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    start = np.repeat(first, np.diff(np.append(first, len(keys))))
    place = np.arange(len(keys))
    low = np.maximum(start, place - WINDOW + 1)
    sums = np.concatenate([[0.0], np.cumsum(values[order])])
    nth, mean = np.empty(len(keys), np.int64), np.empty(len(keys))
    nth[order] = place - start + 1
    mean[order] = (sums[place + 1] - sums[low]) / (place + 1 - low)
    return nth, mean
