"""Graphs exactly once, over many histories: see graph_durable, and durable_world for what a history is.

EVENFLOW_SCHEDULES=200 runs more of them, EVENFLOW_SEED=7 begins elsewhere. A history that fails is run again by
`history(seed)`, step by step the same.
"""

import os

import pytest

from evenflow.state.paging.swap import Swap
from tests.support import graph_bound
from tests.support.durable_plan import DurablePlan
from tests.support.graph_durable import history
from tests.support.graph_plans import Sketch

pytestmark = pytest.mark.slow

SCHEDULES = int(os.environ.get("EVENFLOW_SCHEDULES", "6"))
FIRST = int(os.environ.get("EVENFLOW_SEED", "0"))
PARTS = 5


@pytest.mark.timeout(0 if SCHEDULES > 100 else 400)
@pytest.mark.parametrize("part", range(PARTS))
def test_any_history(part):
    for seed in range(FIRST + part, FIRST + SCHEDULES, PARTS):
        assert history(seed).manifests, "invariants are checked on the way; this one has done nothing"


def test_one_seed_is_one_history():
    first, second = (history(1) for _ in range(2))
    assert first.story == second.story
    assert sorted(first.store.blobs) == sorted(second.store.blobs)


@pytest.mark.parametrize(
    "faults",
    [
        (),
        ("kill-worker", "kill-worker"),
        ("driver",),
        ("kill-feeder", "restart"),
        ("cut", "cut", "replace"),
        ("freeze", "kill-worker"),
    ],
    ids=lambda faults: "+".join(faults) or "none",
)
@pytest.mark.parametrize("transfer", ["direct", "store"])
def test_each_kind_of_fault(faults, transfer):
    plan = DurablePlan(faults=faults, moving=1.0, asks=0.1, again=0.5, zombies=0.5, transfer=transfer, jobs=1)
    assert history(0, plan).manifests


@pytest.mark.parametrize("seed", range(4))
def test_what_sinks_keep_fits_together(seed):
    """Batches are evaluated again and again, by the same driver and by others, in other partitions."""
    faults = ("driver",) * seed + ("kill-worker",) * (seed % 2)
    plan = DurablePlan(faults=faults, partitions=3, jobs=1, again=0.9, moving=0.5, asks=0.05, rows=12)
    world = graph_bound.history(seed, plan)
    assert any("repeats" in entry for log in world.logs for entry in log)


def test_state_on_disk_is_saved_and_loaded(monkeypatch):
    brought = []
    bring = Swap.bring
    monkeypatch.setattr(Swap, "bring", lambda self, chosen: brought.append(len(chosen)) or bring(self, chosen))
    made = Sketch(1)
    made.add("collect", made.add("collect", 0, units=16), units=16)
    plan = {"faults": ("kill-worker", "driver"), "moving": 1.0, "asks": 0.1, "jobs": 1, "rows": 20}
    for seed in range(3):
        assert history(seed, DurablePlan(**plan), made.ended(), memory=12_000).manifests
    assert len(brought) > 10
