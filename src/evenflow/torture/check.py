"""Compares the output of a job with the output without faults."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.torture.rows import InputRows, reference, rows_of, windowed
from evenflow.torture.schedule import Schedule

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


def verdict(schedule: Schedule, sink: Path) -> Verdict:
    """Compare the output of a job with its reference."""
    job, rows, output = schedule.job, rows_of(schedule), committed(sink)
    if job.windows:
        return compare_windows(windowed(job, rows), output)
    return compare(rows, output, job.ordered, job.racing)


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

    If rows were `racing`, any row of a key may be the nth: then only the number of rows with each count is compared.
    """
    ids, keys, nth = (output[name].to_numpy() for name in ("id", "k", "nth"))
    mean = output["mean"].to_numpy()
    known = (ids >= 0) & (ids < len(rows.ids))
    times = np.bincount(ids[known], minlength=len(rows.ids))
    counts, means = reference(rows.keys, rows.values)
    place = ids[known]
    if racing:
        wrong = _miscounted(rows.keys, counts, keys[known], nth[known]) + int((keys[known] != rows.keys[place]).sum())
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


def _miscounted(keys: np.ndarray, counts: np.ndarray, got: np.ndarray, nth: np.ndarray) -> int:
    """How many rows have a count that, for their key, is not in the reference, or is there less often."""
    want = Counter(zip(keys.tolist(), counts.tolist(), strict=True))
    return (Counter(zip(got.tolist(), nth.tolist(), strict=True)) - want).total()


def falling(keys: np.ndarray, by: np.ndarray, ids: np.ndarray) -> int:
    """How often a row comes after a later row of its key, when the rows are sorted by `by`."""
    order = np.lexsort((ids, by, keys))
    same = np.diff(keys[order]) == 0
    return int((same & (np.diff(ids[order]) < 0)).sum())


def committed(sink: Path, schema: pa.Schema = OUTPUT) -> pa.Table:
    """The rows that a streaming query has committed to a folder, batch by batch, by Spark's own log."""
    batches = sorted((path for path in sink.glob("[0-9]*") if (path / "_SUCCESS").exists()), key=lambda p: int(p.name))
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
