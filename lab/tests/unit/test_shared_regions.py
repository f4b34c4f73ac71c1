"""Ordered regions on the same workers: they settle, get their weights' shares, and none takes turns at being slow."""

import numpy as np
import pytest
from simulated.shared_regions import Demand, World

from evenflow.policy import BlockingRate, Credits, StaticWeights

pytestmark = pytest.mark.slow


def run(slowdown, demands, qos=None, seconds=40):
    """What each region did in the last quarter of a run: rows a second as a share of what the workers can do."""
    histories = World(slowdown, demands, qos or {}).run(seconds)
    ideal = sum(1 / factor for factor in slowdown) / Demand.cost_s
    return {name: (history.rows[-seconds // 4 :] / ideal, history) for name, history in histories.items()}


def shares(outcome):
    return [rows.mean() for rows, _ in outcome.values()]


def restless(outcome):
    """The largest change of a weight in the last quarter, in thousandths."""
    return max(np.ptp(history.weights[-len(rows) :], axis=0).max() for rows, history in outcome.values())


@pytest.mark.parametrize(
    ("balance", "slowdown", "qos", "seconds"),
    [
        (Credits, [1, 1, 1], {}, 8),
        (Credits, [10, 1, 1, 1], {"a": 3.0}, 8),
        (BlockingRate, [1, 1, 1], {}, 40),
        (BlockingRate, [10, 1, 1, 1], {}, 60),
        (BlockingRate, [10, 1, 1, 1], {"a": 3.0}, 60),
    ],
)
def test_two_regions_get_the_shares_of_their_weights(balance, slowdown, qos, seconds):
    outcome = run(slowdown, {"a": Demand(balance()), "b": Demand(balance())}, qos, seconds)
    first = qos.get("a", 1.0) / (1.0 + qos.get("a", 1.0))
    assert shares(outcome) == pytest.approx([first, 1 - first], rel=0.08)
    assert sum(shares(outcome)) > 0.96
    assert min(rows.min() / rows.mean() for rows, _ in outcome.values()) > 0.7  # nobody starves for a while
    if balance is BlockingRate:
        assert restless(outcome) < 60
        rates = outcome["a"][1].rates.sum(axis=1)
        assert rates.max() <= 1 + 1e-9


def test_what_rows_cost_does_not_matter():
    """Frames of b take up to twenty times as long: it gets no more of the workers for that."""
    outcome = run([1, 1], {"a": Demand(Credits()), "b": Demand(Credits(), cost_s=0.2)}, seconds=20)
    assert shares(outcome)[0] == pytest.approx(0.5, abs=0.05)


def test_a_region_without_rows_leaves_the_workers_to_others():
    """b comes and goes every few seconds: a has all there is, or its half, and does not take b for slow workers."""
    times = [(start, start + 5) for start in range(20, 60, 10)]
    outcome = run([10, 1, 1, 1], {"a": Demand(BlockingRate()), "b": Demand(Credits(), times)}, seconds=70)
    rows = outcome["a"][1].rows * Demand.cost_s / 3.1
    together = np.array([any(start <= second < stop for start, stop in times) for second in range(70)])
    assert rows[30:][together[30:]].mean() > 0.45
    assert rows[30:][~together[30:]].mean() > 0.85


def test_a_region_that_keeps_to_one_worker_is_made_room_for():
    outcome = run([1, 1, 1, 1], {"a": Demand(BlockingRate()), "b": Demand(StaticWeights(weights=[0.7, 0.1, 0.1, 0.1]))})
    weights = outcome["a"][1].weights[-10:].mean(axis=0)
    assert weights[0] < 0.8 * weights[1:].min()
    assert sum(shares(outcome)) > 0.93


def test_frames_that_wait_for_heavier_regions_are_not_given_to_others_as_well():
    """Credits: where all frames are late, late is what is usual; copies would cost the light one half of its share."""
    demands = {"light": Demand(Credits()), "heavy": Demand(Credits(), [(5, 99)])}
    outcome = run([1, 1, 1, 1], demands, {"heavy": 20.0}, seconds=20)
    assert shares(outcome)[0] == pytest.approx(1 / 21, rel=0.1)
    assert outcome["light"][1].resent < 20


def test_four_regions():
    outcome = run([1, 1, 4, 1], {name: Demand(BlockingRate()) for name in "abcd"}, {"a": 2.0}, 40)
    assert shares(outcome) == pytest.approx([0.4, 0.2, 0.2, 0.2], rel=0.1)
    assert sum(shares(outcome)) > 0.96
