"""Keyed operators whose units move, over thousands of histories: see keyed_world for what a history is.

EVENFLOW_SCHEDULES=20000 runs more of them, EVENFLOW_SEED=7 begins elsewhere. A history that fails is run again by
`history(seed)`, step by step the same; its `World.story` and `World.log` tell what happened.
"""

import os
from functools import cache

import pytest

from evenflow.state.paging.swap import Swap
from tests.support.keyed_invariants import check, history, servers
from tests.support.keyed_plan import Plan
from tests.support.keyed_world import World

pytestmark = pytest.mark.slow

SCHEDULES = int(os.environ.get("EVENFLOW_SCHEDULES", "200"))
FIRST = int(os.environ.get("EVENFLOW_SEED", "0"))
PARTS = 10
CHECKED = "invariants are checked on the way; this one has done nothing"


@cache
def drawn(seed):
    """The history of a seed with a plan of its own; several tests look at the first ones."""
    return history(seed)


@pytest.mark.timeout(0 if SCHEDULES > 5000 else 240)
@pytest.mark.parametrize("part", range(PARTS))
def test_any_history(part):
    for seed in range(FIRST + part, FIRST + SCHEDULES, PARTS):
        assert (drawn if seed < 60 else history)(seed).log, CHECKED


@pytest.mark.parametrize("seed", range(5))
def test_one_seed_is_one_history(seed):
    first, second = (history(seed) for _ in range(2))
    assert [entry | {"pid": 0} for entry in first.log] == [entry | {"pid": 0} for entry in second.log]
    assert first.story == second.story


@pytest.mark.parametrize(
    "faults",
    [
        (),
        ("kill-worker",),
        ("kill-feeder",),
        ("freeze",),
        ("cut",),
        ("cut", "cut", "cut", "cut"),
        ("replace",),
        ("kill-worker", "kill-worker", "kill-worker"),
        ("kill-feeder", "freeze", "kill-worker"),
    ],
    ids=lambda faults: "+".join(faults) or "none",
)
@pytest.mark.parametrize("regions", [1, 2])
def test_each_kind_of_fault(faults, regions):
    for seed in range(5):
        assert history(seed, Plan(faults=faults, regions=regions, moving=1.0, asks=0.1)).log, CHECKED


@pytest.mark.parametrize("where", ["extract", "install", "pickle", "unpickle"])
@pytest.mark.parametrize("times", [1, float("inf")])
def test_operators_that_fail(where, times):
    for seed in range(5):
        assert history(seed, Plan(fails=(where, times), moving=1.0, asks=0.1)).log, CHECKED


def test_memory_that_is_given_and_taken(monkeypatch):
    """State goes to disk and returns, under rows and movements, and with whatever budget a worker starts again."""
    brought = []
    bring = Swap.bring
    monkeypatch.setattr(Swap, "bring", lambda self, chosen: brought.append(len(chosen)) or bring(self, chosen))
    for seed in range(6):
        faults = ("memory",) * 6 + (("kill-worker", "cut") if seed % 2 else ())
        plan = Plan(workers=2, regions=1 + seed % 2, moving=1.0, asks=0.1, ordered=0.0, faults=faults)
        world = history(seed, plan, memory=6_000)
        asked = {entry["worker"]: entry["memory"] for entry in world.log if entry["event"] == "memory-asked"}
        assert not any(entry["event"] == "memory-refused" for entry in world.log)
        for worker, server in servers(world).items():
            assert server.regions.memory()[0] == asked.get(worker, 6_000)
    assert len(brought) > 20


def test_workers_that_come_late():
    for seed in range(10):
        assert history(seed, Plan(workers=3, late=3, asks=0.05)).log, CHECKED


def test_histories_have_what_they_are_to_have():
    """A test that cannot fail is no test: units do move, under rows, and are undone and refused; DataFrames are read
    at once, in parts, into a cache, and not to their end."""
    events = {"moved": 0, "move-refused": 0, "move-undone": 0, "evaluation-ended": 0, "feeder-refused": 0}
    rows = 0
    reads = {"whole": 0, "parts": 0, "kept": 0, "peek": 0}
    for seed in range(60):
        world = drawn(seed)
        for job in world.jobs:
            reads[job.reads] += bool(job.tasks)
        rows += sum(len(task.rows()) for task in world.tasks)
        for entry in world.log:
            if entry["event"] in events:
                events[entry["event"]] += 1
    assert rows > 3000
    assert all(count > 10 for count in (*events.values(), *reads.values())), (events, reads)


def test_a_task_without_rows_is_heard_of():
    """The first micro-batch of a query has no rows: its tasks must register all the same, or the second is refused."""
    for seed in range(20):
        with World(seed, Plan(jobs=0, asks=0.0, moving=0.0)) as world:
            job = world.start_job("r0", streaming=True, partitions=1)
            job.epochs = 2
            drawn = iter([[], world.some_batches([1, 2, 3])])
            world.some_batches = lambda drawn=drawn: next(drawn)
            world.run()
            assert [task.error for task in job.tasks] == [None, None]


def test_results_that_come_while_the_source_is_waited_for():
    """A slow source, and something unsent to a worker without rows: what arrives meanwhile is not dropped."""
    for seed in range(60):
        with World(seed, Plan(workers=4, jobs=0, asks=0.0, moving=0.0)) as world:
            world.pulls, world.network.capacities = (3.0,), (1,)
            world.start_job("r0", streaming=False, partitions=1)
            world.some_batches = lambda made=world.some_batches: made([1])
            world.run()
            check(world)
