"""What the simulator has compiled of the live feeder decides as the live feeder does."""

import numpy as np
import pytest

from evenflow.runtime.feeder import frame_size as live
from evenflow.runtime.feeder import link
from evenflow.runtime.feeder.ordered import routes
from evenflow.runtime.feeder.ordered.turns import Turns
from evenflow.sim.ordered import routes as ordered_routes
from evenflow.sim.ordered import sizes as ordered_sizes
from evenflow.sim.ordered.scene import OrderedScene
from evenflow.sim.ordered.state import SPLITTINGS, ordered_state


def test_constants_are_those_of_the_live_feeder():
    for name in ("FRAME_S", "FRAMES_PER_S", "SHARED_FRAME_S", "SHARED_FRAMES_PER_S", "GROWTH", "RAMP_S", "OVERHEAD"):
        assert getattr(ordered_sizes, name) == getattr(live, name)
    assert link.DEPTH == ordered_routes.DEPTH
    assert OrderedScene(1).window == routes.WINDOW
    assert SPLITTINGS.keys() == routes.ROUTES.keys()


@pytest.mark.parametrize("seed", range(5))
def test_turns(seed):
    rng = np.random.default_rng(seed)
    state, turns = ordered_state(OrderedScene(5), SPLITTINGS["block"]), Turns()
    for _ in range(20):
        weights = rng.integers(0, 400, 5) * (rng.random(5) < 0.7)
        weights[0] += 1
        turns.set(dict(enumerate(weights.tolist())))
        state.links["weight"][0] = weights
        picks = int(rng.integers(1, 50))
        assert [ordered_routes.pick(state, 0) for _ in range(picks)] == [turns.pick() for _ in range(picks)]


@pytest.mark.parametrize("workers", [3, 64])
@pytest.mark.parametrize("seed", range(5))
def test_frame_sizes(seed, workers):
    """Answers of random workers, each with rows as sized for it, and an overhead of a call that is to be learned."""
    rng = np.random.default_rng(seed)
    state, size = ordered_state(OrderedScene(workers), SPLITTINGS["credits"]), live.FrameSize()
    costs, call = rng.uniform(1e-6, 1e-3, workers), rng.choice([0.0, 1e-3])
    for _ in range(400):
        worker = int(rng.integers(workers))
        rows = size.rows(workers, worker)
        assert ordered_sizes.frame_size(state, 0, worker) == rows
        assert ordered_sizes.frame_size(state, 0, -1) == size.rows(workers)
        assert ordered_sizes.settled(state, 0) == size.settled(workers, 10_000)
        seconds = float(call + rows * costs[worker] * rng.uniform(0.9, 1.1))
        size.learn(worker, rows, seconds)
        ordered_sizes.learn(state, 0, worker, rows, seconds)
        state.links["frames_done"][0, worker] += 1
    assert state.splitters["overhead"][0] == pytest.approx(size.overhead)
