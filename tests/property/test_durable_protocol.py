"""Exactly once, over many histories: durable_world says what a history is, docs/reliability.md what must hold.

EVENFLOW_SCHEDULES=2000 runs more of them, EVENFLOW_SEED=7 begins elsewhere. A history that fails is run again by
`history(seed)`, step by step the same; its `story` and `logs` tell what happened.
"""

import os
from functools import cache

import pytest

from evenflow.runtime.worker.moves.direct_transfer import DirectTransfer
from evenflow.state.store.blob_names import parse
from tests.support.durable_invariants import check, history
from tests.support.durable_plan import COPIES, LOSSES, RENAMES, DurablePlan
from tests.support.durable_world import DurableWorld

pytestmark = pytest.mark.slow

SCHEDULES = int(os.environ.get("EVENFLOW_SCHEDULES", "20"))
FIRST = int(os.environ.get("EVENFLOW_SEED", "0"))
PARTS = 10


@cache
def drawn(seed):
    """The history of a seed with a plan of its own; several tests look at the first ones."""
    return history(seed)


@pytest.mark.timeout(0 if SCHEDULES > 500 else 240)
@pytest.mark.parametrize("part", range(PARTS))
def test_any_history(part):
    for seed in range(FIRST + part, FIRST + SCHEDULES, PARTS):
        assert (drawn if seed < 8 else history)(seed).manifests, (
            "invariants are checked on the way; this one has done nothing"
        )


@pytest.mark.parametrize("seed", [1, 7])
def test_one_seed_is_one_history(seed):
    first, second = (history(seed) for _ in range(2))
    assert first.story == second.story
    assert sorted(first.store.blobs) == sorted(second.store.blobs)


@pytest.mark.parametrize(
    "faults",
    [
        (),
        ("kill-worker", "kill-worker"),
        ("driver",),
        ("driver", "driver", "store"),
        ("kill-feeder", "restart"),
        ("cut", "cut", "replace"),
        ("freeze", "kill-worker"),
    ],
    ids=lambda faults: "+".join(faults) or "none",
)
@pytest.mark.parametrize("transfer", ["direct", "store"])
def test_each_kind_of_fault(faults, transfer):
    plan = DurablePlan(faults=faults, moving=1.0, asks=0.1, again=0.5, zombies=0.5, transfer=transfer)
    assert history(0, plan).manifests


def test_units_move_by_way_of_the_store(monkeypatch):
    """And no other: workers that cannot reach each other do not mind."""
    monkeypatch.setattr(DirectTransfer, "_dispatch", None)
    moved = failed = 0
    for seed in range(4):
        world = history(seed, by_store(store_fails=0.4 * (seed == 3)))
        moved += sum(entry["event"] == "moved" for log in world.logs for entry in log)
        failed += sum("on purpose" in entry.get("why", "") for log in world.logs for entry in log)
    assert moved > 100
    assert failed


def by_store(**more):
    return DurablePlan(moving=1.0, asks=0.1, transfer="store", hasty=0.0, **more)


@pytest.mark.parametrize("seed", [0, 16])
def test_workers_die_between_tasks_of_one_stage(seed):
    """Tasks one after the other: what the first ones did must not be lost under the last, nor overwritten."""
    faults = ("kill-worker",) * 5
    assert history(seed, DurablePlan(faults=faults, partitions=3, slots=1, jobs=1, asks=0.0, moving=0.0)).manifests


@pytest.mark.parametrize("seed", [9, 16])
def test_tasks_of_an_earlier_run_live_on(seed):
    """They wait for state to be loaded, and must not be let in with those of the new run."""
    assert history(seed, DurablePlan(faults=("restart",) * 8, zombies=1.0, jobs=1, asks=0.03, again=0.8)).manifests


@pytest.mark.parametrize("seed", [3, 17])
def test_other_partitions_at_every_start(seed):
    """The driver is killed in the middle of batches, and Spark runs them again in other partitions, not all at once."""
    plan = DurablePlan(faults=("driver",) * 4, partitions=4, reshapes=1.0, slots=2, jobs=1, asks=0.0, moving=0.0)
    assert history(seed, plan).manifests


def test_a_checkpoint_that_is_not_as_it_was_left():
    """Blobs are gone, or another's: that is noticed, and nothing goes on from there; or they were not needed."""
    struck = noticed = 0
    for seed in range(4):
        world = history(seed, DurablePlan(**LOSSES))
        struck += world.losses.count
        noticed += world.losses.noticed
    assert struck > noticed > 3


def test_operators_are_renamed():
    """With their state if it is said what they were called; else the query is refused, and counts never begin again."""
    called, refusals = set(), 0
    for seed in range(6):
        world = history(seed, DurablePlan(**RENAMES))
        called.add(world.called)
        refusals += world.refusals
        blobs = [blob for name in world.store.blobs if (blob := parse(name)) is not None]
        assert {blob.region for blob in blobs if blob.kind in ("whole", "units")} == {world.called}
    assert "r0" not in called
    assert refusals > 1


def test_copies_of_another_time():
    """One of the two checkpoints is put back to an earlier time: that is refused, whichever it is."""
    said = [text for seed in range(4) for text in history(seed, DurablePlan(**COPIES)).losses.told]
    assert any("so it is an older copy" in text for text in said)
    assert any("is older than the state in the checkpoint" in text for text in said)


def test_histories_have_what_they_are_to_have():
    """A test that cannot fail is no test: batches are run again, state is loaded, units move, snapshots are taken."""
    events = {"moved": 0, "loaded": 0, "attempt-poisoned": 0, "feeder-refused": 0, "worker-lost": 0}
    manifests = again = snapshots = lives = 0
    for seed in range(8):
        world = drawn(seed)
        manifests += world.manifests
        lives += len(world.logs)
        again += sum(len(query.stages) - query.epochs for query in world.jobs)
        snapshots += sum("/units/" in name for name in world.store.blobs)
        for entry in (entry for log in world.logs for entry in log):
            if entry["event"] in events:
                events[entry["event"]] += 1
    assert manifests > 40
    assert again > 10
    assert snapshots > 20
    assert lives > 10
    assert all(events.values()), events


def test_a_sink_that_has_the_batch_already():
    """Spark was killed after the sink had a batch and before it was noted: only a part of it is looked at again."""
    for seed in range(4):
        with DurableWorld(seed, DurablePlan(moving=0.0, asks=0.0, partitions=3, jobs=1)) as world:
            query = world.jobs[0]
            query.epochs = 2
            world.run()
            check(world)
            query.epoch = 1
            world.kill_driver()
            world._draw_actions = lambda query: [[0]] if query.epoch == 1 else ["all"]
            query.epochs = 4
            world.calm_since = world.now
            world.run()
            check(world)
