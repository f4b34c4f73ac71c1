"""Workers frozen for longer than the controller waits: replaced like dead ones, and harmless when they wake."""

import pytest

from tests.support.durable_invariants import check
from tests.support.durable_plan import DurablePlan
from tests.support.durable_world import DurableWorld


class FrozenWorld(DurableWorld):
    """Now and then a worker is lost, and another frozen while state is loaded."""

    stalls = (15.0,)

    def _freeze(self, live, feeders):
        what = self.rng.choice(live)
        seconds = self.rng.choice((31.0, 62.0, 200.0))
        self.frozen[what] = self.now + seconds
        self.harm.add("slow")
        self.note(f"freeze {what.name} for {seconds} s")


@pytest.mark.parametrize("part", range(2))
def test_recovery_does_not_wait_for_ever(part):
    faults = ("freeze", "kill-worker", "freeze", "kill-feeder", "freeze", "restart")
    replaced = 0
    for seed in range(part, 16, 2):
        plan = DurablePlan(workers=3, faults=faults, moving=0.5, asks=0.05, epochs=4)
        with FrozenWorld(seed, plan) as world:
            world.run()
            check(world)
            replaced += sum(
                "answered nothing" in entry.get("reason", "")
                for log in world.logs
                for entry in log
                if entry["event"] == "worker-lost"
            )
    assert replaced, "nobody was replaced: this test shows nothing"
