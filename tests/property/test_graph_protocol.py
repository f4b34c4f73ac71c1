"""Graphs whose units move, over many histories: see graph_world for what a history is.

EVENFLOW_SCHEDULES=2000 runs more of them, EVENFLOW_SEED=7 begins elsewhere. A history that fails is run again by
`history(seed)`, step by step the same; its `World.story` and `World.log` tell what happened.
"""

import os
from functools import cache

import pytest

from evenflow.runtime.worker.graphs import routings
from evenflow.state.paging.swap import Swap
from tests.support.graph_invariants import check, history
from tests.support.graph_plans import Sketch, chain
from tests.support.graph_world import GraphWorld
from tests.support.keyed_actors import Trouble
from tests.support.keyed_plan import Plan

pytestmark = pytest.mark.slow

SCHEDULES = int(os.environ.get("EVENFLOW_SCHEDULES", "40"))
FIRST = int(os.environ.get("EVENFLOW_SEED", "0"))
PARTS = 10
CHECKED = "invariants are checked on the way; this one has done nothing"


@cache
def drawn(seed):
    """The history of a seed with a plan of its own; several tests look at the first ones."""
    return history(seed)


@pytest.mark.timeout(0 if SCHEDULES > 2000 else 400)
@pytest.mark.parametrize("part", range(PARTS))
def test_any_history(part):
    for seed in range(FIRST + part, FIRST + SCHEDULES, PARTS):
        assert (drawn if seed < 40 else history)(seed).log, CHECKED


@pytest.mark.parametrize("seed", range(3))
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
        ("cut", "cut"),
        ("replace",),
        ("kill-feeder", "freeze", "kill-worker"),
    ],
    ids=lambda faults: "+".join(faults) or "none",
)
@pytest.mark.parametrize("regions", [1, 2])
def test_each_kind_of_fault(faults, regions):
    for seed in range(2):
        assert history(seed, Plan(faults=faults, regions=regions, moving=1.0, asks=0.1)).log, CHECKED


@pytest.mark.parametrize("where", ["extract", "install", "pickle", "unpickle"])
@pytest.mark.parametrize("times", [1, float("inf")])
def test_operators_that_fail(where, times):
    for seed in range(3):
        assert history(seed, Plan(fails=(where, times), moving=1.0, asks=0.1)).log, CHECKED


def test_workers_that_come_late():
    for seed in range(5):
        assert history(seed, Plan(workers=3, late=3, asks=0.05)).log, CHECKED


def joined(units):
    """A join of a source with a part of itself: what it gives depends on all that was there before."""
    made = Sketch(1)
    made.add("pairs", made.add("keep", 0), 0, units=units)
    return made.ended()


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("sketch", [chain("keep", "mark", "collect", "mark"), chain("lanes", "keep", "lanes")])
def test_neighbours_that_move(sketch, workers):
    """Rows are in order behind a chain, whichever of its nodes move, one or several together."""
    for seed in range(2):
        assert history(seed, Plan(workers=workers, moving=1.0, asks=0.1, rows=40), sketch).log, CHECKED


def test_state_that_does_not_fit_is_on_disk(monkeypatch):
    """And comes back for its rows, whether it stays, moves or is sent back, and whoever is killed meanwhile."""
    brought = []
    bring = Swap.bring
    monkeypatch.setattr(Swap, "bring", lambda self, chosen: brought.append(len(chosen)) or bring(self, chosen))
    for seed in range(2):
        for sketch in (chain("collect", "mark", "collect", units=16), joined(16)):
            faults = ("memory",) * 3 + (("kill-worker", "cut") if seed % 2 else ())
            plan = Plan(workers=2, moving=1.0, asks=0.2, rows=40, faults=faults)
            assert history(seed, plan, sketch, memory=9_000).log, CHECKED
    assert len(brought) > 25


def test_evaluations_that_begin_while_units_move(monkeypatch):
    """State of a feeder that was let in during a movement is not left behind by it, however late workers hear of it."""
    _late_orders(range(34, 40))
    monkeypatch.setattr(routings.LocalRouting, "reached", lambda self, version, _move: self.version >= version)
    with pytest.raises((AssertionError, Trouble)):
        _late_orders(range(34, 120))


def _late_orders(seeds):
    """Many evaluations, and workers that hear of everything long after feeders do."""
    for seed in seeds:
        with GraphWorld(seed, Plan(jobs=8, moving=1.0, asks=0.3), joined(5)) as world:
            late = f"{world.driver.port} > worker"
            made = world.network._pipe
            world.network._pipe = lambda name, late=late, made=made: _slowed(made(name), late)
            for pipe in world.network.pipes:
                _slowed(pipe, late)
            world.run()
            check(world)


def _slowed(pipe, late):
    pipe.laziness, pipe.capacity = 0.995 if pipe.name.startswith(late) else 0.0, 1000
    return pipe


def test_histories_have_what_they_are_to_have():
    """A test that cannot fail is no test: units do move, under rows, and are undone and refused; all kinds of nodes
    are there, and results come."""
    events = {"moved": 0, "move-refused": 0, "move-undone": 0, "evaluation-ended": 0, "feeder-refused": 0}
    kinds = {"filter": 0, "map": 0, "ordered map": 0, "keyed": 0, "join": 0}
    results = 0
    for seed in range(40):
        world = drawn(seed)
        results += sum(len(rows) for task in world.tasks for rows in world.results(task).values())
        for sketch in world.sketches.values():
            for _, make, _ in sketch.nodes:
                kinds[make(None).kind] = kinds.get(make(None).kind, 0) + 1
        for entry in world.log:
            if entry["event"] in events:
                events[entry["event"]] += 1
    assert results > 3000
    assert all(count > 5 for count in (*events.values(), *kinds.values())), (events, kinds)
