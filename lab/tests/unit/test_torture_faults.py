"""Faults strike where and when the schedule says, and what they damage is put back."""

import base64
import json
import re
import threading
from unittest.mock import MagicMock

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
from evenflow_lab.torture.faults import blunders, clock, copies, damage, hooks, spill, store
from evenflow_lab.torture.jobs.renaming import OTHER, Naming, Renaming
from evenflow_lab.torture.schedule import DAMAGES, Fault, Job, Schedule

JOB = Job(batches=2, rows=40, keys=9, partitions=3, workers=2, units=8)


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
