"""Compares the output of a job with the output without faults."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow_lab.torture.jobs.rows import InputRows, inputs_of, reference, rows_of, times, windowed
from evenflow_lab.torture.schedule import Schedule, place_of

WRITTEN = "_SUCCESS"
"""The file that Spark leaves in a folder of which all is written."""
COLUMNS = ("id", "k", "nth", "mean")
OUTPUT = pa.schema(list(zip(COLUMNS, (pa.int64(), pa.int64(), pa.int64(), pa.float64()), strict=True)))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The differences from the reference, in rows; all but `rows` should be 0."""

    rows: int = 0
    lost: int = 0
    """Rows that did not come out."""
    doubled: int = 0
    """Rows that came out more than once, or were never in the input."""
    out_of_order: int = 0
    """Rows counted before an earlier row of their key; if order was asked for, also rows that came out before one."""
    wrong: int = 0
    """Rows with another count or mean than without faults: the state was wrong."""

    @property
    def good(self) -> bool:
        """Whether the output is the same as without faults."""
        return not (self.lost or self.doubled or self.out_of_order or self.wrong)


def verdict(schedule: Schedule, folder: Path) -> Verdict:
    """Compare every output of each query of a job with its reference."""
    outs = [folder / place_of("out", number) for number in range(schedule.job.queries)]
    return summed([_verdict(schedule, [committed(out / place) for place in schedule.job.writes]) for out in outs])


def _verdict(schedule: Schedule, written: list[pa.Table]) -> Verdict:
    """Compare what one query has written; if it was written twice, both must have the same rows."""
    job = schedule.job
    if job.pairs_s:
        return summed([differences(pairs(schedule), counted(output)) for output in written])
    rows = rows_of(schedule)
    if job.windows:
        return summed([compare_windows(windowed(job, rows), output) for output in written])
    each = [compare(rows, output, job.ordered, job.racing) for output in written]
    agree = [differences(counted(written[0]), counted(output)) for output in written[1:]]
    return summed([*each, *(replace(found, rows=0) for found in agree)])


def summed(verdicts: list[Verdict]) -> Verdict:
    """The verdict on several outputs together."""
    fields = Verdict.__dataclass_fields__
    return Verdict(**{name: sum(getattr(each, name) for each in verdicts) for name in fields})


def counted(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    """How often each row is there."""
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def differences(wanted: Counter[tuple[Any, ...]], came: Counter[tuple[Any, ...]]) -> Verdict:
    """Compare rows that are known by their values.

    A row that comes too often was doubled. One that never should have come was wrong, in the place of one that did not.
    """
    missing, more = (wanted - came).total(), came - wanted
    wrong = sum(count for row, count in more.items() if row not in wanted)
    return Verdict(wanted.total(), max(0, missing - wrong), more.total() - wrong, 0, wrong)


def pairs(schedule: Schedule) -> Counter[tuple[Any, ...]]:
    """The results of a join: pairs of rows of a key whose times are less than its window apart."""
    job, (left, right) = schedule.job, inputs_of(schedule).values()
    reach = job.pairs_s * 1_000_000
    found: Counter[tuple[Any, ...]] = Counter()
    for key in range(job.keys):
        one, other = (np.flatnonzero(side.keys == key) for side in (left, right))
        apart = np.abs(times(job, left)[one][:, None] - times(job, right)[other][None, :])
        for a, b in np.argwhere(apart < reach).tolist():
            i, j = one[a], other[b]
            found[int(left.ids[i]), key, int(right.ids[j]), float(left.values[i] + right.values[j])] += 1
    return found


def compare_windows(want: tuple[Any, Any, Any, Any], output: pa.Table) -> Verdict:
    """Compare windows with the reference; a window is identified by its first row."""
    ids, keys, nth, mean = (output[name].to_numpy() for name in COLUMNS)
    place = np.searchsorted(want[0][order := np.argsort(want[0])], ids)
    known = (place < len(order)) & (want[0][order[np.minimum(place, len(order) - 1)]] == ids)
    there = order[place[known]]
    times = np.bincount(there, minlength=len(order))
    right = (keys[known] == want[1][there]) & (nth[known] == want[2][there])
    right &= np.isclose(mean[known], want[3][there], rtol=1e-12)
    return Verdict(len(order), int((times == 0).sum()), _again(times, known), 0, int((~right).sum()))


def compare(rows: InputRows, output: pa.Table, ordered: bool = False, racing: bool = False) -> Verdict:
    """Compare rows with the reference; with `ordered` the rows of a key must be in order in `output`, too.

    If rows were `racing`, any row of a key may be the nth; then all of its rows must fit together.
    """
    ids, keys, nth = (output[name].to_numpy() for name in ("id", "k", "nth"))
    mean = output["mean"].to_numpy()
    known = (ids >= 0) & (ids < len(rows.ids))
    times = np.bincount(ids[known], minlength=len(rows.ids))
    counts, means = reference(rows.keys, rows.values)
    place = ids[known]
    if racing:
        wrong = inconsistent(rows, place, nth[known], mean[known]) + int((keys[known] != rows.keys[place]).sum())
        return Verdict(len(rows.ids), int((times == 0).sum()), _again(times, known), 0, wrong)
    right = (keys[known] == rows.keys[place]) & (nth[known] == counts[place]) & (mean[known] == means[place])
    return Verdict(
        rows=len(rows.ids),
        lost=int((times == 0).sum()),
        doubled=_again(times, known),
        out_of_order=falling(keys, nth, ids) + (falling(keys, np.arange(len(ids)), ids) if ordered else 0),
        wrong=int((~right).sum()),
    )


def _again(times: np.ndarray, known: np.ndarray) -> int:
    return int((times[times > 1] - 1).sum()) + int((~known).sum())


def inconsistent(rows: InputRows, ids: np.ndarray, nth: np.ndarray, mean: np.ndarray) -> int:
    """How many rows have a count or a mean other than in the order that the counts of their key tell."""
    order = np.lexsort((nth, rows.keys[ids]))
    counts, means = reference(rows.keys[ids][order], rows.values[ids][order])
    return int(((counts != nth[order]) | (means != mean[order])).sum())


def falling(keys: np.ndarray, by: np.ndarray, ids: np.ndarray) -> int:
    """How often a row comes after a later row of its key, when the rows are sorted by `by`."""
    order = np.lexsort((ids, by, keys))
    same = np.diff(keys[order]) == 0
    return int((same & (np.diff(ids[order]) < 0)).sum())


def committed(sink: Path, schema: pa.Schema = OUTPUT) -> pa.Table:
    """The rows that a streaming query has committed to a folder, batch by batch, by Spark's own log."""
    batches = sorted((path for path in sink.glob("[0-9]*") if (path / WRITTEN).exists()), key=lambda p: int(p.name))
    if batches:  # written by a function for each batch
        return _read([str(file) for batch in batches for file in sorted(batch.glob("*.parquet"))], schema)
    log = sink / "_spark_metadata"
    numbered = {int(path.name.partition(".")[0]): path for path in log.glob("[0-9]*")} if log.is_dir() else {}
    for path in log.glob("*.compact"):
        numbered[int(path.stem)] = path
    compacted = max((number for number, path in numbered.items() if path.suffix == ".compact"), default=-1)
    files: list[str] = []
    for number in sorted(numbered):
        if number >= compacted:
            entries = map(json.loads, numbered[number].read_text().splitlines()[1:])
            files += [entry["path"] for entry in entries if entry["action"] == "add"]
    return _read([unquote(urlparse(file).path) for file in files], schema)


def _read(files: list[str], schema: pa.Schema) -> pa.Table:
    tables = [pq.ParquetFile(file).read(columns=schema.names).cast(schema) for file in files]
    return pa.concat_tables([schema.empty_table(), *tables])
