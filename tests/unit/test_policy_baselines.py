"""Static weights, Oracle* and re-routing: what they set, and what they refuse."""

import pytest

from evenflow.errors import InvalidArgument
from evenflow.model import Connection, Snapshot
from evenflow.policy.ordered.oracle import Oracle
from evenflow.policy.ordered.reroute import Reroute
from evenflow.policy.ordered.static import StaticWeights


def snapshot(weights, time=0.0, feeders=1):
    return Snapshot(time, "r", feeders, time, tuple(Connection(w, 1, weight) for w, weight in weights.items()))


def decided(balance, weights, **kw):
    moves = balance.decide(snapshot(weights, **kw))
    return dict(moves[0].weights) if moves else None


@pytest.mark.parametrize(
    "given", [[0.5, 0.3, 0.2], [500, 300, 200], {2: 0.2, 0: 0.5, 1: 0.3}, {0: 500, 1: 300, 2: 200}]
)
def test_static_fractions_and_thousandths(given):
    balance = StaticWeights(given)
    assert decided(balance, {0: 334, 1: 333, 2: 333}) == {0: 500, 1: 300, 2: 200}
    assert decided(balance, {0: 500, 1: 300, 2: 200}) is None


def test_static_without_one_of_its_workers():
    assert decided(StaticWeights([0.5, 0.3, 0.2]), {0: 500, 2: 500}) == {0: 714, 2: 286}
    assert decided(StaticWeights({0: 1.0}), {1: 0, 2: 1000}) == {1: 500, 2: 500}
    assert decided(StaticWeights({0: 1.0}), {0: 500, 7: 500}) == {0: 1000, 7: 0}
    assert StaticWeights([1.0]).decide(snapshot({})) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0.5, 0.4], "sum to 0.9: give fractions that sum to 1, or thousandths that sum to 1000"),
        ([50, 50], "sum to 100"),
        ([1.5, -0.5], "weights of worker 1 is -0.5"),
        ({3: float("nan")}, "weights of worker 3 is nan"),
        ([0, 0], "weights are all 0"),
        ([], "weights are all 0"),
    ],
)
def test_static_refuses(given, message):
    with pytest.raises(InvalidArgument, match=message):
        StaticWeights(given)


def test_oracle_divides_by_capacity():
    assert decided(Oracle([1, 1, 0.01]), {0: 334, 1: 333, 2: 333}) == {0: 498, 1: 498, 2: 4}
    assert decided(Oracle([1, 1]), {0: 500, 1: 500}) is None
    assert decided(Oracle({0: 2, 1: 1}), {0: 1000, 1: 0, 5: 0}) == {0: 500, 1: 250, 5: 250}


def test_oracle_changes_over_at_its_second_counted_from_the_first_feeder():
    balance = Oracle(schedule=[(10, [1, 1]), (0, [3, 1])])
    before, after = {0: 750, 1: 250}, {0: 500, 1: 500}
    assert decided(balance, after, time=100, feeders=0) == before, "no feeder yet: the first entry holds"
    assert decided(balance, before, time=150) is None
    assert decided(balance, before, time=159.9) is None
    assert decided(balance, before, time=160, feeders=0) == after
    assert decided(balance, after, time=500) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacities": [1, -2]}, "capacities of worker 1 is -2: give a number that is at least 0"),
        ({"capacities": [0, 0]}, "capacities are all 0"),
        ({"capacities": [float("inf")]}, "capacities of worker 0 is inf"),
        ({}, "either capacities or a schedule"),
        ({"capacities": [1], "schedule": [(0, [1])]}, "either capacities or a schedule"),
        ({"schedule": [(-1, [1])]}, "second -1"),
        ({"schedule": [(0, [1]), (5, [-1])]}, "capacities of worker 0 is -1"),
    ],
)
def test_oracle_refuses(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        Oracle(**arguments)


def test_reroute_is_even():
    assert Reroute.splitting == "reroute"
    assert decided(Reroute(), {0: 900, 1: 50, 2: 50}) == {0: 334, 1: 333, 2: 333}
    assert decided(Reroute(), {0: 334, 1: 333, 2: 333}) is None
    assert Reroute().decide(snapshot({})) == []
