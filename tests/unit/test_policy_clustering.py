"""The distance of ordered-regions §5.3, and clusters by it."""

from math import log

import numpy as np
import pytest

from evenflow.policy.ordered.clustering import clusters, traits
from evenflow.policy.ordered.function import BlockingFunction

DELTA = 1e-6


def curve(knee, rate=0.8):
    """No blocking up to `knee`, `rate` from a little beyond."""
    f = BlockingFunction().observe(knee, 0.0, 1).observe(knee + max(1, knee // 10), rate, 1)
    return f.values(DELTA)


def distance(one, other, delta):
    first, second = traits([one, other], delta)
    return float(np.abs(first - second).max())


def test_distance_of_a_function_from_itself_is_zero():
    assert distance(curve(40), curve(40), DELTA) == 0


def test_distance_is_symmetric_and_follows_the_knees():
    near, far = distance(curve(200), curve(240), DELTA), distance(curve(200), curve(20), DELTA)
    assert near == distance(curve(240), curve(200), DELTA)
    assert near < 0.5 < log(8) < far


def test_rates_are_scaled_to_the_weights():
    quiet = BlockingFunction().values(DELTA)  # reaches R delta = 0.001, a thousandth of the largest rate
    steep = np.ones(1001)
    steep[0] = 0
    assert distance(quiet, steep, DELTA) == pytest.approx(log(1000)), "the knees are as far apart as the rates"


def test_three_classes_of_synthetic_functions_make_pure_clusters():
    rng = np.random.default_rng(3)
    classes = {"1x": (35, 24), "5x": (7, 20), "100x": (1, 20)}
    kinds = [(kind, knee) for kind, (knee, count) in classes.items() for _ in range(count)]
    curves = []
    for kind, knee in kinds:
        f = BlockingFunction().observe(knee - 1, 0.0, 4).observe(max(knee + 1, round(knee * 1.2)), 0.6, 4)
        for _ in range(6):
            w = max(1, round(knee * rng.uniform(0.8, 1.3)))
            f = f.observe(w, rng.uniform(0.3, 0.9) if w > knee or kind == "100x" else 0.0, 4)
        curves.append(f.values(DELTA))
    found = clusters(traits(curves, DELTA))
    assert sorted(place for group in found for place in group) == list(range(64))
    assert all(len({kinds[place][0] for place in group}) == 1 for group in found)
    assert len(found) < 16


@pytest.mark.parametrize("count", [0, 1])
def test_few_functions_need_no_clustering(count):
    assert clusters(traits([curve(40)] * 5, DELTA)[:count]) == [[0]][:count]


def test_alike_functions_make_one_cluster():
    assert clusters(traits([curve(40)] * 5, DELTA)) == [[0, 1, 2, 3, 4]]
