"""Schedules of faults come from their seed alone, and the checker sees all that can be wrong with an output."""

import base64
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow.state.store.opening import open_store
from evenflow.testing import check_operator
from evenflow.torture import damage, hooks, store, view
from evenflow.torture.check import COLUMNS, Verdict, committed, compare, compare_windows
from evenflow.torture.drawing import draw
from evenflow.torture.operator import Counted
from evenflow.torture.report import ScheduleOutcome, TortureReport
from evenflow.torture.rows import InputRows, reference, rows_of, windowed, write
from evenflow.torture.schedule import COMMIT, DAMAGES, MOMENTS, WORKER_POINTS, Fault, Job, Schedule, from_json

SEEDS = range(300)


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
        *DAMAGES,
    }
    assert {fault.victim for fault in faults} == {"", "worker", "feeder", "executor", "driver", "checkpoint"}
    assert {fault.point for fault in faults} == {"", *WORKER_POINTS, *COMMIT}
    assert {fault.moment for fault in faults} == {"", *MOMENTS}
    jobs = [draw(seed).job for seed in SEEDS]
    assert {job.executors for job in jobs} == {0, 2}
    assert {job.sink for job in jobs} == {"files", "peeks"}
    assert {job.store for job in jobs} == {"disk", "s3"}
    assert {bool(job.packs) for job in jobs} == {bool(job.crews) for job in jobs} == {False, True}
    assert {job.order_by for job in jobs} == {job.windows for job in jobs} == {False, True}
    assert {job.racing for job in jobs} == {bool(job.stall_s) for job in jobs} == {False, True}


def test_schedules_make_sense():
    for schedule in map(draw, SEEDS):
        for fault in schedule.faults:
            assert fault.batch < schedule.job.batches
            assert fault.victim != "executor" or schedule.job.executors
            assert fault.point not in COMMIT or fault.victim == "driver" or fault.kind in ("full", *DAMAGES)
            assert fault.kind != "freeze" or schedule.job.store == "s3", "a disk has locks that outlive a freeze"
        kinds = [fault.kind for fault in schedule.faults]
        assert "flip" not in kinds or "kill" in kinds[kinds.index("flip") :]
        assert not {*kinds} & {*DAMAGES} or any(fault.victim == "driver" for fault in schedule.faults)


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


# -- what came out


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
    """Any row of a key may be the nth, but one of them must be."""
    given = rows(1, 2, 1, 1)
    swapped = output(given, nth={0: 3, 3: 1})
    assert compare(given, swapped, racing=True) == Verdict(4)
    assert not compare(given, swapped).good
    assert compare(given, output(given, nth={0: 2}), racing=True) == Verdict(4, wrong=1)
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


# -- how faults strike


@pytest.fixture
def run(tmp_path):
    """A run's folder, given its faults."""

    def make(*faults):
        (tmp_path / hooks.DONE).mkdir()
        (tmp_path / hooks.SCHEDULE).write_text(Schedule(1, draw(1).job, faults).to_json())
        return hooks.Hooks(tmp_path)

    return make


def test_a_fault_strikes_once_and_not_too_early(run):
    known = run(Fault("kill", "worker", "extract", nth=3))
    struck = []
    for time in range(1, 6):
        known.reach("extract", lambda number, _fault, time=time: known.claim(number) and struck.append(time))
        known.reach("install", lambda *_: struck.append("elsewhere"))
    assert struck == [3]
    assert known.done(0)
    assert not hooks.Hooks(known.folder).claim(0), "another process strikes again"


def test_a_full_store(run):
    known = run(Fault("full", point="log", nth=2, seconds=3600))
    faulty = store.FaultyStore(known.folder / hooks.STATE, known)
    faulty.put("r/q/log/0.1.0.5.0", [b"a"])
    with pytest.raises(store.StoreError, match="no space left"):
        faulty.put("r/q/log/0.1.0.5.1", [b"a"])
    with pytest.raises(store.StoreError, match="no space left"):
        faulty.put("r/q/task/0.1.0", [b"a"])
    assert known.store_full
    assert not known.spill_full
    assert bytes(faulty.get("r/q/log/0.1.0.5.0")) == b"a"


def test_a_store_that_fails(run):
    known = run(Fault("fails", share=0.5))
    faulty = store.FaultyStore(known.folder / hooks.STATE, known)
    failed = 0
    for _ in range(100):
        try:
            faulty.names()
        except store.StoreError:
            failed += 1
    assert 20 < failed < 80


def test_a_bit_is_flipped_and_flipped_back(run):
    known = run(Fault("flip", point="log", share=0.5))
    faulty = store.FaultyStore(known.folder / hooks.STATE, known)
    faulty.put("r/q/log/0.1.0.5.0", [b"abcdef"])
    assert bytes(faulty.get("r/q/log/0.1.0.5.0")) == b"abclef"
    assert store.flip_back(known.folder, "blob r/q/log/9.9.9.9.9 is damaged at byte 1") == []
    assert store.flip_back(known.folder, "blob r/q/log/0.1.0.5.0 is damaged at byte 1") == ["0.1.0.5.0"]
    assert bytes(faulty.get("r/q/log/0.1.0.5.0")) == b"abcdef"
    assert store.flip_back(known.folder, "blob r/q/log/0.1.0.5.0 is damaged at byte 1") == []


@pytest.mark.parametrize("kind", DAMAGES)
def test_blobs_are_damaged_once_a_driver_is_gone_and_put_back(run, kind):
    known = run(Fault(kind, point="log", share=0.9))
    where, names = str(known.folder / hooks.STATE), ("r/q/log/0.1.0.5.0", "r/q/log/1.1.0.5.0")
    with store.open_store(where) as there:
        for name in names:
            there.put(name, [name.encode()])
        damage.strike(known, where)
        assert not known.done(0), "there was no driver before"
        (known.folder / hooks.BEGUN).write_text("1\n2\n")
        damage.strike(known, where)
        assert damage.names(known.folder) == [names[1]]
        left = {name: bytes(there.get(name)) for name, _ in there.names("r/q")}
        assert left.get(names[1]) == {"vanish": None, "cut": b"r/q/log/", "stale": names[0].encode()}[kind]
        assert damage.restore(known.folder, where, f"blob {names[0]} is missing") == []
        assert damage.restore(known.folder, where, f"blob {names[1]} is missing") == [f"{kind} 1.1.0.5.0"]
        assert bytes(there.get(names[1])) == names[1].encode()


@pytest.mark.parametrize(("kind", "place"), [("vanish", "r/q/epoch/3"), ("cut", "r/q/epoch/3~2.0a1b2c3d.7")])
def test_a_manifest_is_put_back_by_the_name_that_errors_tell(tmp_path, kind, place):
    """What drivers put is stored with the claim it was put under; messages leave that out."""
    stored, where = "r/q/epoch/3~2.0a1b2c3d.7", str(tmp_path / "state")
    told = {"name": stored, "kind": kind, "content": base64.b64encode(b"all of it").decode()}
    (tmp_path / damage.NOTE.format(0)).write_text(json.dumps(told))
    assert damage.names(tmp_path) == ["r/q/epoch/3"]
    assert damage.restore(tmp_path, where, "blob r/q/epoch/4 is missing") == []
    assert damage.restore(tmp_path, where, "blob r/q/epoch/3 is missing") == [f"{kind} 3~2.0a1b2c3d.7"]
    with open_store(where) as store:
        assert bytes(store.get(place)) == b"all of it"
