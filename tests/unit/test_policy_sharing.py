"""Sharing: operators that share workers move one at a time and see each other's load. ServiceOrder: who is next."""

from dataclasses import replace

import numpy as np
import pytest

from evenflow.errors import InvalidArgument
from evenflow.model import MoveUnits
from evenflow.policy.keyed.auto import Auto
from evenflow.policy.keyed.fair_queue import ServiceOrder
from evenflow.policy.keyed.sharing import Sharing
from tests.support.keyed_model import Model, shares, snapshot
from tests.support.shared_model import Pair, drive_pair

pytestmark = pytest.mark.slow


def shown(region, time, busy=(0.0, 0.0), **more):
    return replace(snapshot(time, [0, 1], [0, 0], busy=list(busy), idle=[0.0] * len(busy), **more), region=region)


def move(region, *units):
    return MoveUnits(region, units or (0,), 0, 1)


def busy_of(view):
    return [consumer.busy_s for consumer in view.consumers]


def test_weights_are_checked():
    with pytest.raises(InvalidArgument, match="qos of 'a' is 0"):
        Sharing({"a": 0})


def test_one_operator_sees_what_is():
    sharing = Sharing()
    for tick in range(20):
        view = sharing.view(shown("a", tick / 10, (tick * 0.05, tick * 0.02), moving=tick % 3))
        assert busy_of(view) == pytest.approx([tick * 0.05, tick * 0.02])
        assert view.moving == tick % 3


def test_others_wait_while_one_moves():
    sharing = Sharing()
    sharing.view(shown("a", 0.0))
    assert sharing.view(shown("b", 0.0)).moving == 0
    sharing.begin("a", [move("a", 0, 1, 2)])
    assert sharing.view(shown("b", 0.05)).moving == 3  # at once
    assert sharing.view(shown("a", 0.1, moving=2)).moving == 2
    assert sharing.view(shown("b", 0.15)).moving == 2
    assert sharing.view(shown("a", 0.2)).moving == 0
    assert sharing.view(shown("b", 0.25)).moving == 0


@pytest.mark.parametrize(("qos", "rest"), [({}, 1.0), ({"a": 4}, 0.25), ({"b": 2}, 2.0), ({"a": 0.1}, 4.0)])
def test_who_has_moved_lets_others_go_first(qos, rest):
    sharing = Sharing(qos)
    sharing.view(shown("b", 0.0))
    sharing.view(shown("a", 0.0))
    sharing.begin("a", [move("a")])
    assert sharing.view(shown("a", 0.5, moving=1)) is not None
    assert sharing.view(shown("a", 1.0)) is not None  # it is to see that they have ended
    asked = []
    for tick in range(1, 60):
        sharing.view(shown("b", 1 + tick / 10))
        if sharing.view(shown("a", 1 + tick / 10)) is not None:
            asked.append(tick / 10)
    assert asked[0] == pytest.approx(rest, abs=0.1)
    assert len(asked) == 59 - round(asked[0] * 10) + 1


def test_who_is_gone_counts_for_nothing():
    for leave in (lambda sharing: sharing.forget("a"), lambda sharing: None):
        sharing = Sharing()
        sharing.view(shown("a", 0.0))
        sharing.begin("a", [move("a")])
        leave(sharing)
        assert sharing.view(shown("b", 3.0)).moving == 0
    sharing.begin("nobody", [move("nobody")])


@pytest.mark.parametrize(
    ("qos", "a", "b"),
    [
        ({}, [1 / 0.5, 1.0], [1 / 0.75, 1 / 0.75]),
        ({"a": 2}, [1 / 0.75, 1.0], [1 / 0.75, 1 / 0.75]),  # b weighs half: a need not evade it as much
        ({"b": 2}, [1 / 0.5, 1.0], [1 / 0.875, 1 / 0.875]),
    ],
)
def test_costs_are_those_of_what_others_leave(qos, a, b):
    """b uses half of worker 0, a a quarter of both."""
    sharing, views = Sharing(qos), {}
    for tick in range(101):
        for region, used in (("a", (0.25, 0.25)), ("b", (0.5, 0.0))):
            view = sharing.view(shown(region, tick / 10, [u * tick / 10 for u in used]))
            views.setdefault(region, []).append(np.array(busy_of(view)))
    last = {region: busy[-1] - busy[-2] for region, busy in views.items()}
    assert last["a"] / 0.025 == pytest.approx(a, rel=0.01)
    assert last["b"][0] / 0.05 == pytest.approx(b[0], rel=0.01)


def test_a_worker_that_starts_anew_is_counted_anew():
    sharing = Sharing()
    for tick in range(20):
        sharing.view(shown("b", tick / 10, (tick / 20, tick / 20)))
        sharing.view(shown("a", tick / 10, (tick / 20, tick / 20)))
    view = sharing.view(shown("a", 2.0, (0.01, 1.0), incarnations=[2, 1]))
    assert view.consumers[0].busy_s == 0.01
    assert view.consumers[1].busy_s > 1.0
    view = sharing.view(shown("a", 2.1, (0.02, 1.05, 0.3), workers=[0, 1, 2]))
    assert view.consumers[2].busy_s == 0.3


# -- the order of service


def serve(order, waiting, seconds, rounds):
    """Seconds that each had when all in `waiting` always have rows."""
    had = dict.fromkeys(waiting, 0.0)
    for _ in range(rounds):
        name = order.choose(waiting)
        order.charge(name, seconds[name])
        had[name] += seconds[name]
    return had


def test_service_is_by_weight_whatever_a_frame_takes():
    had = serve(ServiceOrder({"a": 3}), ["a", "b"], {"a": 0.01, "b": 0.04}, 1_000)
    assert had["a"] / had["b"] == pytest.approx(3, rel=0.02)
    had = serve(ServiceOrder(), ["a", "b", "c"], {"a": 0.01, "b": 0.04, "c": 0.02}, 1_000)
    assert max(had.values()) / min(had.values()) < 1.02


def test_time_not_asked_for_is_not_saved_up():
    order = ServiceOrder()
    serve(order, ["a"], {"a": 0.01}, 1_000)
    had = serve(order, ["a", "b"], {"a": 0.01, "b": 0.01}, 100)
    assert had["b"] == pytest.approx(had["a"], abs=0.011)


def test_who_has_few_rows_is_next():
    order = ServiceOrder()
    for _ in range(50):
        serve(order, ["a"], {"a": 0.01}, 20)
        assert order.choose(["a", "b"]) == "b"
        order.charge("b", 0.01)


# -- in a closed loop

UNITS, WORKERS, RATE = 256, 6, 5_000.0
CAPACITY = WORKERS * RATE
SEEDS = [1, 2]


def pair(kinds, sources, seed, weights=(1.0, 1.0), speed=None):
    operators = [
        Model(
            shares(kind, UNITS, seed + 5 * i), list(speed or [1.0] * WORKERS), source=source * CAPACITY, seed=seed + i
        )
        for i, (kind, source) in enumerate(zip(kinds, sources, strict=True))
    ]
    return Pair(*operators, weights)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kinds", [("uniform", "uniform"), ("1.0", "1.0"), ("80/20", "1.0")])
def test_two_operators_come_to_rest_at_their_bound(kinds, seed):
    """Together they need 85 % of the workers, one of which is slow; there is nothing to spare for mistakes."""
    speed = [0.5] + [1.0] * (WORKERS - 1)
    both = pair(kinds, (0.39, 0.39), seed, speed=speed)
    out = drive_pair({"a": Auto(), "b": Auto()}, Sharing(), both, 45)
    for name in "ab":
        assert out.rows[name][20:].mean() > 0.97 * 0.39 * CAPACITY
        assert out.moved[name][25:].sum() <= 10
    assert out.used[25:].mean(axis=0).max() < 0.99


def test_by_themselves_they_do_not():
    """The same without `Sharing`: each evens out its own rows, and one has to wait where the other has its hottest."""
    both = pair(("80/20", "1.0"), (0.39, 0.39), 1, speed=[0.5] + [1.0] * (WORKERS - 1))
    out = drive_pair({"a": Auto(), "b": Auto()}, None, both, 30)
    assert out.rows["a"][20:].mean() < 0.96 * 0.39 * CAPACITY
    assert out.waits["a"][20:].mean() > 0.3


@pytest.mark.parametrize("seed", SEEDS)
def test_one_that_is_steady_is_evaded(seed):
    """Half of what b has falls on one worker and cannot be split: a leaves that worker alone."""
    load = np.r_[0.5, np.full(UNITS - 1, 0.5 / (UNITS - 1))]
    a = Model(shares("uniform", UNITS, seed), [1.0] * WORKERS, source=0.55 * CAPACITY, seed=seed)
    b = Model(load, [1.0] * WORKERS, source=0.3 * CAPACITY, seed=seed + 1)
    out = drive_pair({"a": Auto(), "b": Auto()}, Sharing(), Pair(a, b), 40)
    assert out.rows["a"][20:].mean() > 0.97 * 0.55 * CAPACITY
    assert out.rows["b"][20:].mean() > 0.97 * 0.3 * CAPACITY


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_moves_anything_without_need(seed):
    out = drive_pair({"a": Auto(), "b": Auto()}, Sharing(), pair(("uniform", "uniform"), (0.42, 0.42), seed), 30)
    assert out.moved["a"].sum() + out.moved["b"].sum() == 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("heavy", "light"), [("a", "b"), ("b", "a")])
def test_the_heavier_has_the_better_latency(heavy, light, seed):
    """Both want 65 % of the workers: the one that weighs 4 gets it and hardly waits, the other has what is left."""
    qos = {heavy: 4.0}
    both = pair(("1.0", "1.0"), (0.65, 0.65), seed, (qos.get("a", 1.0), qos.get("b", 1.0)))
    out = drive_pair({"a": Auto(), "b": Auto()}, Sharing(qos), both, 40)
    assert out.rows[heavy][20:].mean() > 0.96 * 0.65 * CAPACITY
    assert out.rows[light][20:].mean() > 0.28 * CAPACITY
    assert out.waits[heavy][20:].mean() < 0.3 * out.waits[light][20:].mean()


@pytest.mark.parametrize("seed", SEEDS)
def test_equals_share_alike(seed):
    out = drive_pair({"a": Auto(), "b": Auto()}, Sharing(), pair(("1.0", "1.0"), (0.65, 0.65), seed), 40)
    a, b = out.rows["a"][20:].mean(), out.rows["b"][20:].mean()
    assert a + b > 0.93 * CAPACITY
    assert 0.85 < a / b < 1.18
