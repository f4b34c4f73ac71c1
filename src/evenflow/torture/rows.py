"""The rows of a job, and what should come of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.torture.schedule import Schedule

SCHEMA = "id long, k long, v double"
WINDOW = 4
"""Rows of a key in the rolling mean."""

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """By column. The last batch has one row of every key, and so tells the state after all others."""

    ids: Longs
    keys: Longs
    values: Floats
    batches: Longs


def rows_of(schedule: Schedule) -> Rows:
    """All rows of a job; values are eighths, so that their sums are exact."""
    job = schedule.job
    random = np.random.default_rng(schedule.seed)
    drawn = np.concatenate([random.integers(0, job.keys, job.batches * job.rows), np.arange(job.keys)])
    batches = np.concatenate([np.repeat(np.arange(job.batches), job.rows), np.full(job.keys, job.batches)])
    values = random.integers(0, 8000, len(drawn)) / 8.0
    return Rows(np.arange(len(drawn)), drawn.astype(np.int64), values, batches)


def write(rows: Rows, partitions: int, folder: Path) -> None:
    """One file for each partition of each batch, in an order that Spark keeps."""
    folder.mkdir(parents=True)
    for batch in range(int(rows.batches[-1]) + 1):
        for partition in range(partitions):
            mine = (rows.batches == batch) & (rows.keys % partitions == partition)
            path = folder / f"{batch:03}-{partition}.parquet"
            pq.write_table(pa.table({"id": rows.ids[mine], "k": rows.keys[mine], "v": rows.values[mine]}), path)
            moment = 1_700_000_000 + batch * partitions + partition
            os.utime(path, (moment, moment))


def reference(keys: Longs, values: Floats) -> tuple[Longs, Floats]:
    """The how manieth of its key each row is, and the mean of its key's last rows, as one worker without faults has."""
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
