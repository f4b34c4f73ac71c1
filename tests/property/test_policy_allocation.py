"""Fox's greedy against brute force; sums and bounds always."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from evenflow.policy.ordered.allocation import allocate, proportional

# Few distinct values, so that ties and flat stretches are common.
VALUE = st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0, 3.0])


@st.composite
def problems(draw, most=4, total=7):
    count = draw(st.integers(1, most))
    units = draw(st.integers(0, total))
    curves = [sorted(draw(st.lists(VALUE, min_size=units + 1, max_size=units + 1))) for _ in range(count)]
    bounds = [sorted(draw(st.tuples(st.integers(0, units), st.integers(0, units)))) for _ in range(count)]
    lower, upper = [low for low, _ in bounds], [high for _, high in bounds]
    while sum(lower) > units:
        lower[lower.index(max(lower))] -= 1
    while sum(upper) < units:
        upper[upper.index(min(upper))] += 1
    current = [draw(st.integers(0, units)) for _ in range(count)] if draw(st.booleans()) else None
    return curves, lower, upper, units, current


def values(curves, weights):
    return sorted((curve[weight] for curve, weight in zip(curves, weights, strict=True)), reverse=True)


@given(problems())
def test_optimal_against_brute_force(problem):
    curves, lower, upper, total, current = problem
    weights = allocate(curves, lower, upper, total, current)
    every = product(*(range(low, high + 1) for low, high in zip(lower, upper, strict=True)))
    best = min(values(curves, candidate) for candidate in every if sum(candidate) == total)
    assert values(curves, weights)[0] == best[0]


@given(problems(most=12, total=60))
def test_sum_and_bounds(problem):
    curves, lower, upper, total, current = problem
    weights = allocate(curves, lower, upper, total, current)
    assert sum(weights) == total
    assert all(low <= weight <= high for low, weight, high in zip(lower, weights, upper, strict=True))
    assert weights == allocate(curves, lower, upper, total, current)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12))
def test_flat_functions_move_nothing(current):
    total = sum(current)
    assert (
        allocate([[0.0] * (total + 2)] * len(current), [0] * len(current), [total] * len(current), total, current)
        == current
    )


def largest_remainder(shares, total):
    exact = [share / sum(shares) * total for share in shares]
    weights = [int(number) for number in exact]
    by_rest = sorted(range(len(shares)), key=lambda place: weights[place] - exact[place])
    for place in by_rest[: total - sum(weights)]:
        weights[place] += 1
    return weights


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20).filter(any), st.integers(1, 1000))
def test_proportional_loads_nobody_more_than_rounding_would(shares, total):
    weights, rounded = proportional(shares, total), largest_remainder(shares, total)
    assert sum(weights) == total
    assert all(weight == 0 for weight, share in zip(weights, shares, strict=True) if share == 0)
    some = [place for place, share in enumerate(shares) if share]
    assert max(weights[p] / shares[p] for p in some) <= max(rounded[p] / shares[p] for p in some) + 1e-9
