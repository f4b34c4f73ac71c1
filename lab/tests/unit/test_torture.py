"""Schedules of faults and the input come from their seed alone; outcomes are gathered in a report."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow.testing import check_operator
from evenflow_lab.torture import view
from evenflow_lab.torture.drawing import draw
from evenflow_lab.torture.jobs.check import Verdict
from evenflow_lab.torture.jobs.operator import Counted
from evenflow_lab.torture.jobs.rows import reference, rows_of, write
from evenflow_lab.torture.report import ScheduleOutcome, TortureReport
from evenflow_lab.torture.schedule import (
    BLOBS,
    CLOSED,
    COMMIT,
    COPIES,
    DAMAGES,
    MOMENTS,
    SINK,
    WORKER_POINTS,
    Fault,
    Job,
    Schedule,
    ends_driver,
    from_json,
)

SEEDS = range(300)


# -- schedules


@pytest.mark.parametrize("seed", [0, 1, 77])
def test_a_seed_gives_one_schedule(seed):
    assert draw(seed) == draw(seed)
    assert from_json(draw(seed).to_json()) == draw(seed)
    assert draw(seed) != draw(seed + 1)


def test_a_seed_gives_one_input():
    first, second = rows_of(draw(5)), rows_of(draw(5))
    assert first.keys.tolist() == second.keys.tolist()
    assert first.values.tolist() == second.values.tolist()


def test_schedules_have_all_there_is():
    faults = [fault for seed in SEEDS for fault in draw(seed).faults]
    assert {fault.kind for fault in faults} == {
        *("kill", "stop", "slow", "fails", "full", "flip", "lose", "freeze", "rival"),
        *("breaks", "exhaust", "step", "blunder", "pause"),
        *CLOSED,
    }
    assert {fault.victim for fault in faults} == {"", "worker", "feeder", "executor", "driver", "checkpoint", "query"}
    assert {fault.point for fault in faults} == {"", "name", *WORKER_POINTS, *COMMIT, *SINK, *BLOBS, *COPIES}
    assert {fault.moment for fault in faults} == {"", *MOMENTS}
    jobs = [draw(seed).job for seed in SEEDS]
    assert {job.executors for job in jobs} == {0, 2}
    assert {job.sink for job in jobs} == {"files", "peeks", "skips"}
    assert {job.store for job in jobs} == {"disk", "s3", "postgres"}
    assert {job.key for job in jobs} == {job.persists for job in jobs} == {False, True}
    assert {job.queries for job in jobs} == {1, 2}
    assert {(bool(job.pairs_s), bool(job.lag)) for job in jobs} == {(False, False), (True, False), (True, True)}
    assert {bool(job.packs) for job in jobs} == {bool(job.crews) for job in jobs} == {False, True}
    assert {job.order_by for job in jobs} == {job.windows for job in jobs} == {False, True}
    assert {job.racing for job in jobs} == {bool(job.stall_s) for job in jobs} == {False, True}


def test_schedules_make_sense():
    for schedule in map(draw, SEEDS):
        for fault in schedule.faults:
            assert fault.batch < schedule.job.batches
            assert fault.victim != "executor" or schedule.job.executors
            assert fault.point not in COMMIT or fault.victim == "driver" or fault.kind in ("full", *DAMAGES)
            assert fault.point not in SINK or schedule.job.sink == "skips"
            assert fault.point != "format" or schedule.job.store == "disk"
            assert fault.kind != "lose" or schedule.job.workers == 2, "one of two executors remains, with three slots"
            assert fault.kind != "freeze" or schedule.job.store == "s3", "a disk has locks that outlive a freeze"
        kinds = [fault.kind for fault in schedule.faults]
        assert "flip" not in kinds or {"kill", "pause"} & {*kinds[kinds.index("flip") :]}
        assert not {*kinds} & {*CLOSED} or "pause" in kinds or any(map(ends_driver, schedule.faults))
        assert not schedule.job.order_by or schedule.job.persists, "a shuffle is not evaluated again"


# -- what should come out


def test_reference():
    nth, mean = reference(np.array([7, 3, 7, 7, 7, 7]), np.array([1.0, 9.0, 2.0, 3.0, 4.0, 5.0]))
    assert nth.tolist() == [1, 1, 2, 3, 4, 5]
    assert mean.tolist() == [1.0, 9.0, 1.5, 2.0, 2.5, 3.5]


def test_the_operator_says_what_the_reference_says():
    given = rows_of(draw(3))
    batch = pa.record_batch({"v": given.values})
    got = Counted().process(batch, (given.keys % 5).astype(np.int32), given.keys)
    nth, mean = reference(given.keys, given.values)
    assert got["nth"].to_pylist() == nth.tolist()
    assert got["mean"].to_pylist() == mean.tolist()


def test_the_operator_keeps_the_laws():
    given = rows_of(draw(3))
    batch = pa.record_batch({"k": given.keys[:500], "v": given.values[:500]})
    check_operator(Counted(), batch, key="k")


def test_the_last_batch_has_every_key():
    schedule = draw(4)
    given = rows_of(schedule)
    assert given.keys[given.batches == schedule.job.batches].tolist() == list(range(schedule.job.keys))


def test_a_key_is_in_one_partition(tmp_path):
    schedule = Schedule(1, Job(batches=2, rows=40, keys=9, partitions=3, workers=2, units=8), ())
    write(rows_of(schedule), schedule.job, tmp_path / "in")
    files = sorted((tmp_path / "in").iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in files] == [f"{batch:03}-{part}.parquet" for batch in range(3) for part in range(3)]
    tables = [pq.read_table(path) for path in files]
    assert sum(table.num_rows for table in tables) == 2 * 40 + 9
    for place, table in enumerate(tables):
        assert set(np.unique(table["k"].to_numpy() % 3)) <= {place % 3}


def test_report():
    schedule = Schedule(3, draw(3).job, (Fault("kill", "worker"),))
    good = ScheduleOutcome(schedule, Verdict(rows=10), struck=("kill worker",))
    bad = ScheduleOutcome(schedule, Verdict(rows=10, lost=2), hang=True)
    told = TortureReport(3, [good, bad]).to_json()
    assert {name: told[name] for name in ("seed", "faults", "rows", "lost", "doubled", "out_of_order", "hangs")} == {
        "seed": 3,
        "faults": 1,
        "rows": 20,
        "lost": 2,
        "doubled": 0,
        "out_of_order": 0,
        "hangs": 1,
    }
    assert json.loads(json.dumps(told))["schedules"] == 2
    assert TortureReport(3, [good]).good
    assert not TortureReport(3, [good, bad]).good
    assert not TortureReport(3, [good], ["python 17"]).good


def test_a_report_that_is_taken_up_again():
    schedule = Schedule(3, draw(3).job, (Fault("kill", "worker", "restore", nth=2), Fault("stop", "worker", batch=1)))
    good = ScheduleOutcome(schedule, Verdict(rows=10), struck=tuple(map(str, schedule.faults)), refused=("a",))
    report = TortureReport(3, [good, ScheduleOutcome(schedule, Verdict(rows=10, lost=2), hang=True)], ["python 17"])
    assert TortureReport.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert view.markdown(report).splitlines() == [
        "| what struck | schedules | rows | lost | doubled | out of order | wrong | hangs | errors | refused |",
        "|---|---|---|---|---|---|---|---|---|---|",
        "| kill worker at restore | 1 | 10 | 0 | 0 | 0 | 0 | 0 | 0 | 1 |",
        "| nothing | 1 | 10 | 2 | 0 | 0 | 0 | 1 | 0 | 0 |",
        "| stop worker | 1 | 10 | 0 | 0 | 0 | 0 | 0 | 0 | 1 |",
        "| all | 2 | 20 | 2 | 0 | 0 | 0 | 1 | 0 | 1 |",
    ]
