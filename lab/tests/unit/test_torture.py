"""Schedules of faults come from their seed alone, and the checker sees all that can be wrong with an output."""

import base64
import json
import re
import threading
from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow.errors import CorruptState, InvalidArgument, SpillError, StateLost, StoreInUse
from evenflow.runtime.feeder.task import REAL
from evenflow.scratch.files import Spill
from evenflow.state.store.claims.claim import claim
from evenflow.state.store.claims.fence import Fence, FencedView
from evenflow.state.store.claims.generations import CLAIMS, NOBODY, Holding, Mark
from evenflow.state.store.disk import DiskStore
from evenflow.state.store.opening import open_store
from evenflow.state.store.sealed import Place
from evenflow.testing import check_operator
from evenflow_lab.torture import view
from evenflow_lab.torture.drawing import draw
from evenflow_lab.torture.faults import blunders, clock, copies, damage, hooks, spill, store
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
from evenflow_lab.torture.jobs.operator import Counted
from evenflow_lab.torture.jobs.renaming import OTHER, Naming, Renaming
from evenflow_lab.torture.jobs.rows import InputRows, reference, rows_of, windowed, write
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
        (tmp_path / hooks.SCHEDULE).write_text(Schedule(1, JOB, faults).to_json())
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


def test_a_full_disk_for_spilled_state(run, tmp_path, monkeypatch):
    known = run(Fault("full", point="spill", nth=2, seconds=3600))
    monkeypatch.setattr(spill, "_present", [])
    spill.install(known)
    there = Spill(tmp_path / "spilled")
    first, second = there.segment(), there.segment()
    first.append([(0, [b"a"])])
    with pytest.raises(SpillError, match="No space left on device"):
        second.append([(1, [b"b"])])
    assert known.spill_full
    assert not known.store_full
    assert [(number, bytes(part)) for number, (part,) in first.read([0])] == [(0, b"a")]


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


JOB = Job(batches=2, rows=40, keys=9, partitions=3, workers=2, units=8)


@pytest.mark.parametrize("kind", DAMAGES)
def test_blobs_are_damaged_once_a_query_was_started_and_put_back(run, kind):
    known = run(Fault(kind, point="log", share=0.9))
    names = ("r/q/log/0.1.0.5.0", "r/q/log/1.1.0.5.0")
    changed = {"vanish": None, "cut": b"r/q/log/", "stale": names[0].encode(), "alter": b"s/q/log/1.1.0.5.0"}
    with store.raw_store(known.folder) as there:
        for name in names:
            there.put(name, [name.encode()])
        damage.strike(known)
        assert not known.done(0), "no query was started before"
        (known.folder / hooks.SPARK).mkdir()
        damage.strike(known)
        assert known.done(0)
        assert damage.refused(known.folder, f"blob {names[1]} is bad")
        assert not damage.refused(known.folder, f"blob {names[0]} is bad")
        left = {name: bytes(there.get(name)) for name, _ in there.names("r/q")}
        assert left.get(names[1]) == changed[kind]
        assert damage.restore(known.folder, f"blob {names[0]} is missing") == []
        assert damage.restore(known.folder, f"blob {names[1]} is missing") == [f"{kind} 1.1.0.5.0"]
        assert bytes(there.get(names[1])) == names[1].encode()


@pytest.mark.parametrize(("kind", "place"), [("vanish", "r/q/epoch/3"), ("cut", "r/q/epoch/3~2.0a1b2c3d.7")])
def test_a_manifest_is_put_back_by_the_name_that_errors_tell(run, kind, place):
    """What drivers put is stored with the claim it was put under; messages leave that out."""
    folder, stored = run().folder, "r/q/epoch/3~2.0a1b2c3d.7"
    told = {"name": stored, "kind": kind, "content": base64.b64encode(b"all of it").decode()}
    (folder / damage.NOTE.format(0)).write_text(json.dumps(told))
    assert damage.restore(folder, "blob r/q/epoch/4 is missing") == []
    assert damage.restore(folder, "blob r/q/epoch/3 is missing") == [f"{kind} 3~2.0a1b2c3d.7"]
    with store.raw_store(folder) as there:
        assert bytes(there.get(place)) == b"all of it"


def test_the_format_file_is_damaged_and_put_back(run):
    known = run(Fault("vanish", point="format"))
    (known.folder / hooks.SPARK).mkdir()
    store.raw_store(known.folder).close()
    file = known.folder / hooks.STATE / "evenflow.json"
    before = file.read_bytes()
    damage.strike(known)
    assert not file.exists()
    assert damage.restore(known.folder, "there is no evenflow.json here") == ["vanish evenflow.json"]
    assert file.read_bytes() == before


def test_of_a_claim_a_number_of_what_counts_is_altered():
    claim = b'{"about": {"pid": 17}, "counts": {"1.a": 20}, "released": false}'
    assert damage.altered(claim, 0.1) == claim.replace(b"20", b"19")
    assert damage.altered(claim, 0.9) == claim.replace(b"20", b"14")
    assert damage.altered(b'{"format": 2, "since": 7}', 0.9) == b'{"format": 2, "since": 1}'
    assert damage.altered(b"{}", 0.5) != b"{}"


def test_a_claim_as_drivers_put_it_is_altered_where_it_counts(run):
    known = run(Fault("alter", point="claim", share=0.1))
    (known.folder / hooks.SPARK).mkdir()
    first, second = Mark(1, "0a"), Mark(2, "0b")
    with store.raw_store(known.folder) as there:
        there.put(f"{CLAIMS}{first}", [Holding({"pid": 17}, {NOBODY: 0}).encode(first)])
        damage.strike(known)
        assert not known.done(0), "it counts nothing yet"
        there.put(f"{CLAIMS}{second}", [Holding({"pid": 18}, {NOBODY: 0, first: 20}).encode(second)])
        damage.strike(known)
        assert known.done(0)
        assert b'"1.0a":19' in bytes(there.get(f"{CLAIMS}{second}"))
        with pytest.raises(CorruptState) as refused:
            Holding.read(there, second)
        assert damage.restore(known.folder, str(refused.value)) == ["alter 2.0b"]
        assert Holding.read(there, second).counts == {NOBODY: 0, first: 20}


@pytest.mark.parametrize("which", ["ours", "spark"])
def test_an_older_copy_comes_back_when_spark_has_gone_on(run, which):
    known = run(Fault("older", point=which))
    spark = known.folder / hooks.SPARK
    (spark / "commits").mkdir(parents=True)
    (spark / "metadata").write_text('{"id": "query-1"}')
    with store.raw_store(known.folder) as there:

        def blobs():
            return [name for name, _ in there.names()]

        there.put("r/q/epoch/0", [b"a"])
        (spark / "commits" / "0").touch()
        damage.strike(known)
        damage.strike(known)
        assert not known.done(0), "the copy is as new as all else"
        there.put("r/q/epoch/1", [b"b"])
        (spark / "commits" / "1").touch()
        damage.strike(known)
        assert known.done(0)
        assert blobs() == ["r/q/epoch/0"] + ["r/q/epoch/1"] * (which == "spark")
        assert (spark / "commits" / "1").exists() == (which == "ours")
        assert damage.restore(known.folder, "query-1 has failed") == []
        assert damage.restore(known.folder, f"query-1: {copies.REFUSALS[0]}") == [f"older {which}"]
        assert blobs() == ["r/q/epoch/0", "r/q/epoch/1"]
        assert (spark / "commits" / "1").exists()
        assert not damage.refused(known.folder, f"query-1: {copies.REFUSALS[0]}")


def test_an_older_copy_of_one_operator_comes_back(run):
    """Its notes lose the names of claims that may be gone by then; those of the others stay as they are."""
    known = run(Fault("older", point="operator"))
    spark = known.folder / hooks.SPARK
    (spark / "commits").mkdir(parents=True)
    (spark / "metadata").write_text('{"id": "query-1"}')
    with store.raw_store(known.folder) as there:
        held = Fence(there, {}, lambda: 0.0)
        for batch in (0, 1):
            for region in ("r", "s")[batch:]:
                held.put(f"{region}/q/begun/{batch}.1", [b"%d" % batch])
            (spark / "commits" / f"{batch}").touch()
            damage.strike(known)
        assert known.done(0)
        assert [name for name, _ in FencedView(there).names()] == ["r/q/begun/0.1", "s/q/begun/0.1"]
        assert "s/q/begun/0.1" in dict(there.names())
        assert damage.restore(known.folder, f"query-1: {copies.REFUSALS[2]}") == ["older operator"]
        assert [name for name, _ in FencedView(there).names()] == ["r/q/begun/0.1", "s/q/begun/0.1", "s/q/begun/1.1"]


def test_no_operator_is_copied_while_claims_cannot_be_read(run):
    """They are damaged, or sealed with a key: the checkpoint is copied as a whole only."""
    known = run(Fault("older", point="operator"))
    commits = known.folder / hooks.SPARK / "commits"
    commits.mkdir(parents=True)
    with store.raw_store(known.folder) as there:
        there.put(f"{CLAIMS}1.09", [b"no claim"])
        for batch in (0, 1):
            (commits / f"{batch}").touch()
            damage.strike(known)
            assert not known.done(0)
    assert (known.folder / copies.OLD.format("ours")).exists()
    assert not (known.folder / copies.OLD.format("operator")).exists()


def test_a_clock_steps_once_its_time_has_come(run, monkeypatch):
    known = run(Fault("step", "driver", seconds=3600.0))
    monkeypatch.setattr(clock.time, "time", hooks.REAL_TIME)
    clock.install(known, "worker")
    assert clock.time.time is hooks.REAL_TIME
    clock.install(known, "driver")
    assert clock.time.time() < hooks.REAL_TIME() + 1800
    known.claim(0)
    assert clock.time.time() > hooks.REAL_TIME() + 1800


class NoLocks(DiskStore):
    """A store in which claims live by their beats."""

    def lock(self, about):
        return None


def test_a_clock_that_steps_reaches_claims_and_tasks(run, tmp_path, monkeypatch):
    """Their clocks were taken when they were imported, before any step."""
    known = run(Fault("step", "driver", seconds=3600.0))
    monkeypatch.setattr(clock.time, "time", hooks.REAL_TIME)
    there = NoLocks(tmp_path / "claimed")
    claim(there, "first")
    with pytest.raises(StoreInUse, match="in use by first"):
        claim(there, "second")
    clock.install(known, "driver")
    known.claim(0)
    claim(there, "second")
    assert REAL.wall() > hooks.REAL_TIME() + 1800


def test_a_store_with_a_key_has_the_faults_below_it(run):
    known = run(Fault("flip", point="log", share=0.0))
    with open_store(Place(str(known.folder / hooks.STATE), b"k" * 32, store.open_faulty)) as faulty:
        faulty.put("r/q/log/0.1.0.5.0", [b"abcdef"])
        with pytest.raises(CorruptState, match=r"not written with this checkpoint_key"):
            faulty.get("r/q/log/0.1.0.5.0")


# -- what sinks keep


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


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_an_operator_has_its_name_again_or_adopts_its_state_once_another_one_is_refused(run, share):
    known = run(Fault("rename", point="name", share=share))
    names = Renaming(known, 0)
    assert names.after("") == Naming(), "it has no state yet"
    commits = known.folder / hooks.SPARK / "commits"
    commits.mkdir(parents=True)
    (commits / "0").touch()
    assert [names.after(""), names.after("a worker was lost")] == [Naming(OTHER), Naming(OTHER)]
    last = Naming() if share else Naming(OTHER, adopting=True)
    assert names.after("query 1 is started without operator 'counted': give it was='counted' beside name=") == last
    assert names.after("a worker was lost") == last
    assert known.done(0)
    assert last.options("a") == ({"name": "a"} if share else {"name": f"a{OTHER}", "was": "a"})


class Told:
    """A cluster whose operators fail in the way that a test says."""

    def __init__(self, error):
        self.error = error
        self.tries = 0

    def make(self, _cluster, _rows):
        self.tries += 1
        raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InvalidArgument("its own words: do it otherwise"), ""),
        (StateLost("worker 0 was lost"), "the mistake 'make' should say 'its own words', and .*: worker 0 was lost"),
    ],
)
def test_a_mistake_has_to_fail_with_its_own_error(monkeypatch, tmp_path, error, said):
    told = Told(error)
    monkeypatch.setattr(blunders, "BLUNDERS", [blunders.Blunder(told.make, "its own words")])
    monkeypatch.setattr(blunders, "POLL_S", 0.01)
    monkeypatch.setattr(blunders, "PATIENCE_S", 0.3)
    over = threading.Event()
    assert re.fullmatch(said, blunders.commit(MagicMock(), None, tmp_path, 0.5, over))
    assert (told.tries > 1) == bool(said), "what runs into another fault is tried again"
    over.set()
    assert blunders.commit(MagicMock(), None, tmp_path, 0.5, over) == ""
