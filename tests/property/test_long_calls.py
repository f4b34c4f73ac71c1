"""Workers in one call that takes longer than all patience of movements: nothing is lost by that, whoever moves what."""

from math import inf

import pytest

from tests.support import graph_invariants, keyed_invariants
from tests.support.graph_world import GraphWorld
from tests.support.keyed_plan import Plan
from tests.support.keyed_world import World

CALLS = Plan(workers=2, jobs=1, moving=1.0, asks=0.1, faults=("freeze",))


class Calls:
    """Comes before a world in the list of bases."""

    stalls = (inf,)

    def _freeze(self, live, _feeders):
        worker, seconds = self.rng.choice(live), self.rng.choice((40.0, 100.0))
        self.frozen[worker] = self.now + seconds
        self.note(f"{worker.name} is in a call of {seconds} s")


class KeyedCalls(Calls, World):
    """Of keyed operators."""


class GraphCalls(Calls, GraphWorld):
    """Of graphs."""


class Impatient:
    """As movements were: nobody is waited for longer than that."""

    stalls = (30.0,)


class HastyKeyed(Impatient, KeyedCalls):
    """Of keyed operators."""


class HastyGraph(Impatient, GraphCalls):
    """Of graphs."""


def given_up(world):
    """Tasks that failed because a movement was given up."""
    return [task for task in world.tasks if "neither moved nor taken back" in str(task.error)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patient", "hasty", "check"),
    [(KeyedCalls, HastyKeyed, keyed_invariants.check), (GraphCalls, HastyGraph, graph_invariants.check)],
    ids=["keyed", "graph"],
)
def test_long_calls_end_no_query(patient, hasty, check):
    late, lost = [], []
    for seed in range(4):
        with patient(seed, CALLS) as world:
            world.run()
            check(world)
            assert not given_up(world)
            late += [entry for entry in world.log if entry["event"] == "move-late"]
        if not lost:
            with hasty(seed, CALLS) as world:
                world.run()
                lost += given_up(world)
    assert {entry["phase"] for entry in late} >= {"moving", "recalling"}
    assert lost, "with less patience nothing is lost either: this test shows nothing"
