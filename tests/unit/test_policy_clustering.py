"""The distance of ordered-regions §5.3, and clusters by it."""

from itertools import combinations
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


def apart(rows, one, other):
    """How far the rows of two groups are apart, at most."""
    return max(np.abs(rows[i] - rows[j]).max() for i in one for j in other)


def naive(rows, cut):
    """Complete linkage, word by word: the two nearest groups are joined until none are within `cut` of each other."""
    groups = [[place] for place in range(len(rows))]
    while len(groups) > 1:
        one, other = min(combinations(groups, 2), key=lambda pair: apart(rows, *pair))
        if apart(rows, one, other) > cut:
            break
        groups = [group for group in groups if group not in (one, other)] + [one + other]
    return sorted(sorted(group) for group in groups)


@pytest.mark.parametrize("traits", [1, 3])
def test_clusters_are_those_of_complete_linkage(traits):
    rng = np.random.default_rng(traits)
    for _ in range(60):
        rows = rng.normal(size=(int(rng.integers(2, 16)), traits))
        cut = float(rng.choice([0.1, 0.5, 1.0, 2.0, 9.0]))
        assert clusters(rows, cut) == naive(rows, cut), (rows, cut)


@pytest.mark.parametrize("traits", [1, 3])
def test_rows_equally_far_apart_make_clusters_that_are_whole_and_within_the_cut(traits):
    """Which of several pairs equally near is joined first is free; what comes of it has to be a complete linkage."""
    rng = np.random.default_rng(10 + traits)
    for _ in range(60):
        rows = rng.integers(0, 6, size=(int(rng.integers(2, 25)), traits)).astype(float)
        cut = float(rng.integers(0, 4))
        found = clusters(rows, cut)
        assert sorted(place for group in found for place in group) == list(range(len(rows)))
        assert all(apart(rows, group, group) <= cut for group in found)
        assert all(apart(rows, one, other) > cut for one, other in combinations(found, 2))
        assert found == sorted(found)


def test_of_pairs_equally_near_the_first_is_joined():
    assert clusters(np.array([[0.0], [1.0], [2.0]]), 1.0) == [[0, 1], [2]]
    assert clusters(np.array([[1.0], [0.0], [2.0], [1.0]]), 1.0) == [[0, 1, 3], [2]]


def test_the_cut_itself_is_within_the_cut():
    assert clusters(np.array([[0.0], [1.0]]), 1.0) == [[0, 1]]
    assert clusters(np.array([[0.0], [1.0]]), 0.999) == [[0], [1]]
