"""F is monotone, starts at 0 and keeps delta, whatever is put into it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.policy.ordered.function import BlockingFunction, mean_curve, monotone

RATE = st.floats(0, 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("observe"), st.integers(0, 1000), RATE),
        st.tuples(st.just("decay"), st.integers(0, 1000), st.just(0.1)),
    ),
    max_size=40,
)


def build(steps):
    f = BlockingFunction()
    for what, weight, number in steps:
        match what:
            case "observe":
                f = f.observe(weight, number, 4.0)
            case "decay":
                f = f.decay(weight, number)
    return f


def check(f, delta):
    for values in (f.values(delta), f.seen(delta)):
        check_curve(values, delta)


def check_curve(values, delta):
    assert values.shape == (1001,)
    assert values[0] == 0
    assert np.all(np.isfinite(values))
    assert np.diff(values).min() >= delta - 1e-9


@given(STEPS, st.sampled_from([0.0, 1e-6, 1e-3]))
def test_monotone_from_the_origin_in_steps_of_delta(steps, delta):
    check(build(steps), delta)


@given(st.lists(STEPS, min_size=1, max_size=4))
def test_the_curve_of_a_cluster_lies_between_those_of_its_members(several):
    functions = [build(steps) for steps in several]
    curve = mean_curve(functions, 1e-6)
    check_curve(curve, 1e-6)
    members = [f.values(1e-6) for f in functions]
    assert np.all(curve >= np.min(members, axis=0) - 1.1e-3)
    assert np.all(curve <= np.max(members, axis=0) + 1e-9)


@given(STEPS)
def test_a_cluster_of_one_is_its_member(steps):
    f = build(steps)
    assert np.allclose(mean_curve([f], 1e-6), f.values(1e-6))


@given(STEPS, st.integers(0, 1000))
def test_decay_never_raises_and_leaves_what_was_seen(steps, weight):
    f = build(steps)
    decayed = f.decay(weight, 0.1)
    assert all(new.value <= old.value for new, old in zip(decayed.points, f.points, strict=True))
    assert np.array_equal(decayed.seen(0.0), f.seen(0.0))


@given(STEPS)
def test_knots_draw_the_function(steps):
    f = build(steps)
    xs, ys = zip(*f.knots(), strict=True)
    last = xs[-1]
    assert np.allclose(np.interp(np.arange(last + 1), xs, ys), f.values(0.0)[: last + 1], atol=1e-6)


@given(st.lists(st.tuples(st.integers(1, 1000), RATE), min_size=1, max_size=30, unique_by=lambda p: p[0]))
def test_points_in_order_are_taken_as_they_are(points):
    weights = sorted(weight for weight, _ in points)
    rates = sorted(rate for _, rate in points)
    f = build([("observe", weight, rate) for weight, rate in zip(weights, rates, strict=True)])
    assert np.allclose(f.values(0.0)[weights], rates)


POINTS = st.lists(
    st.tuples(st.one_of(st.floats(-1, 1), st.integers(0, 2).map(float)), st.integers(1, 4).map(float)),
    min_size=1,
    max_size=12,
)


@given(POINTS)
def test_monotone_regression_is_the_largest_of_the_least_means(points):
    """At i the largest over a <= i of the least over b >= i of the weighted mean of a..b, as every textbook has it."""
    values, counts = (np.array(each) for each in zip(*points, strict=True))
    places = range(len(points))
    mean = {(a, b): np.average(values[a : b + 1], weights=counts[a : b + 1]) for a in places for b in places[a:]}
    best = [max(min(mean[a, b] for b in places[i:]) for a in places[: i + 1]) for i in places]
    found = monotone(values.tolist(), counts.tolist())
    assert np.allclose(found, best, rtol=0, atol=1e-12)
    assert np.all(np.diff(found) >= 0)


def test_monotone_regression_of_nothing():
    assert monotone([], []).shape == (0,)
