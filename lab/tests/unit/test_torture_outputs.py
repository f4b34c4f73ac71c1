"""The checker sees all that can be wrong with an output of a torture run."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow_lab.torture.jobs.check import (
    COLUMNS,
    WRITTEN,
    Verdict,
    committed,
    compare,
    compare_windows,
    differences,
    pairs,
    verdict,
)
from evenflow_lab.torture.jobs.rows import InputRows, reference, rows_of, windowed
from evenflow_lab.torture.schedule import Job, Schedule

JOB = Job(batches=2, rows=40, keys=9, partitions=3, workers=2, units=8)


def rows(*keys):
    count = len(keys)
    return InputRows(np.arange(count), np.array(keys), np.arange(count) / 8.0, np.zeros(count, np.int64))


def output(given, order=None, **changed):
    """The right output in some order, but for what is changed by id."""
    nth, mean = reference(given.keys, given.values)
    taken = np.array(range(len(nth)) if order is None else order, np.int64)
    for place, value in changed.get("nth", {}).items():
        nth[place] = value
    return pa.table({"id": taken, "k": given.keys[taken], "nth": nth[taken], "mean": mean[taken]})


def test_nothing_is_wrong():
    given = rows(1, 2, 1, 1)
    assert compare(given, output(given)) == Verdict(rows=4)
    assert compare(given, output(given, [3, 1, 0, 2])) == Verdict(rows=4)
    assert compare(given, output(given)).good


@pytest.mark.parametrize(
    ("order", "verdict"),
    [
        ([0, 1, 2], Verdict(4, lost=1)),
        ([], Verdict(4, lost=4)),
        ([0, 1, 1, 2, 3, 1], Verdict(4, doubled=2)),
        ([0, 0, 1, 2], Verdict(4, lost=1, doubled=1)),
    ],
)
def test_rows_lost_and_doubled(order, verdict):
    given = rows(1, 2, 1, 1)
    assert compare(given, output(given, order)) == verdict
    assert not verdict.good


def test_rows_that_never_went_in():
    given = rows(1, 2)
    strange = pa.table({"id": [5], "k": [1], "nth": [1], "mean": [0.0]})
    assert compare(given, pa.concat_tables([output(given), strange])).doubled == 1


def test_rows_counted_out_of_order():
    given = rows(1, 2, 1, 1)
    assert compare(given, output(given, nth={0: 2, 2: 1})) == Verdict(4, out_of_order=1, wrong=2)


def test_rows_that_came_out_of_order():
    given = rows(1, 2, 1, 1)
    assert compare(given, output(given, [1, 0, 2, 3]), ordered=True) == Verdict(4)
    assert compare(given, output(given, [2, 0, 1, 3]), ordered=True) == Verdict(4, out_of_order=1)


def test_rows_that_race():
    """Any row of a key may be the nth, but one of them must be, and means are those of that order."""
    given = rows(1, 2, 1, 1)
    other = pa.table(
        {"id": [3, 0, 2, 1], "k": [1, 1, 1, 2], "nth": [1, 2, 3, 1], "mean": [0.375, 0.1875, 5 / 24, 0.125]}
    )
    assert compare(given, other, racing=True) == Verdict(4)
    assert not compare(given, other).good
    swapped = output(given, nth={0: 3, 3: 1})
    assert compare(given, swapped, racing=True) == Verdict(4, wrong=3), "counts of one order, means of another"
    assert compare(given, output(given, nth={0: 2}), racing=True).wrong
    assert compare(given, output(given, [0, 1, 2]), racing=True) == Verdict(4, lost=1)


def test_windows():
    """Two keys, rows 20 ms apart, windows of 2 s; the rows that only move time on are in none."""
    job = Job(batches=2, rows=150, keys=2, partitions=2, workers=2, units=8, order_by=True, windows=True)
    given = rows_of(Schedule(1, job, ()))
    want = windowed(job, given)
    counted, _ = reference(given.keys, given.values)
    assert want[2].sum() == counted[given.keys < 2].sum()
    assert sorted(zip(want[0].tolist(), want[1].tolist(), strict=True))[0] == (0, given.keys[0])
    good = pa.table(dict(zip(COLUMNS, want, strict=True)))
    assert compare_windows(want, good) == Verdict(len(want[0]))
    assert compare_windows(want, good.slice(1)) == Verdict(len(want[0]), lost=1)
    assert compare_windows(want, pa.concat_tables([good, good.slice(0, 1)])) == Verdict(len(want[0]), doubled=1)
    off = good.set_column(2, "nth", pa.array(want[2] + 1))
    assert compare_windows(want, off) == Verdict(len(want[0]), wrong=len(want[0]))


def test_state_that_was_lost():
    given = rows(1, 1, 1)
    assert compare(given, output(given, nth={2: 1})).wrong == 1


def test_only_what_the_sink_has_committed_counts(tmp_path):
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for number in range(4):
        pq.write_table(pa.table({"id": [number], "k": [0], "nth": [number + 1], "mean": [0.0]}), tmp_path / f"{number}")
    entry = [json.dumps({"path": f"file://{tmp_path}/{number}", "action": "add"}) for number in range(4)]
    assert committed(tmp_path / "nothing").num_rows == 0
    (log / "0").write_text("v1\n" + entry[0])
    (log / "1.compact").write_text("v1\n" + "\n".join(entry[:2]))
    (log / "2").write_text("v1\n" + entry[3])
    assert committed(tmp_path)["id"].to_pylist() == [0, 1, 3]


def test_two_writes_must_agree(tmp_path):
    """Each is right by itself; but rows of one key have raced, and one write has another order than the other."""
    schedule = Schedule(1, replace(JOB, sink="skips", files=1, batches=1, rows=4, keys=1), ())
    given = rows_of(schedule)
    first = output(given)
    swapped = replace(given, values=given.values[[1, 0, 2, 3, 4]])
    nth, mean = reference(swapped.keys, swapped.values)
    second = pa.table({"id": [1, 0, 2, 3, 4], "k": given.keys, "nth": nth, "mean": mean})
    for place, table in zip(schedule.job.writes, (first, second), strict=True):
        target = tmp_path / "out" / place / "0"
        target.mkdir(parents=True)
        pq.write_table(table, target / "part.parquet")
        (target / WRITTEN).touch()
    found = verdict(schedule, tmp_path)
    assert compare(given, second, racing=True).good
    assert (found.rows, found.lost, found.doubled) == (10, 0, 0)
    assert found.wrong > 0


def test_pairs_are_those_within_the_window():
    """Rows are 20 ms apart, on both sides: with 2 s, each has the 99 before and after it, and the one at its time."""
    job = replace(JOB, pairs_s=2, sources=2, keys=1, rows=150, batches=2)
    found = pairs(Schedule(1, job, ()))
    assert all(abs(left - right) < 100 for left, _, right, _ in found)
    assert sum(left == 150 for left, *_ in found) == 199
    assert differences(found, found) == Verdict(found.total())
