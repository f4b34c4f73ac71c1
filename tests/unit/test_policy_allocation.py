"""Fox's greedy on examples: optimum, bounds, ties."""

import pytest

from evenflow.errors import InvalidArgument
from evenflow.policy.ordered.allocation import allocate, proportional

FLAT = [0.0] * 11


def line(slope):
    return [slope * weight for weight in range(11)]


@pytest.mark.parametrize(
    ("curves", "weights"),
    [
        ([line(1), line(1)], [5, 5]),
        ([line(4), line(1)], [2, 8]),
        ([line(1), FLAT], [0, 10]),
        ([[0, 0, 0, 9] + [9] * 7, line(1)], [2, 8]),
    ],
)
def test_equal_values_at_the_optimum(curves, weights):
    assert allocate(curves, [0, 0], [10, 10], 10) == weights


@pytest.mark.parametrize(
    ("lower", "upper", "weights"),
    [([3, 0], [10, 10], [3, 7]), ([0, 0], [10, 6], [4, 6]), ([4, 6], [4, 6], [4, 6])],
)
def test_bounds_are_kept(lower, upper, weights):
    assert allocate([line(9), line(1)], lower, upper, 10) == weights


def test_flat_functions_leave_the_weights_as_they_are():
    assert allocate([FLAT] * 3, [0] * 3, [10] * 3, 10, [7, 1, 2]) == [7, 1, 2]


def test_flat_functions_without_weights_come_out_even_and_the_first_get_the_rest():
    assert allocate([FLAT] * 3, [0] * 3, [10] * 3, 10) == [4, 3, 3]


@pytest.mark.parametrize(("lower", "upper"), [([6, 6], [10, 10]), ([0, 0], [4, 4]), ([5, 0], [4, 10])])
def test_bounds_that_cannot_hold(lower, upper):
    with pytest.raises(InvalidArgument, match="sum to 10: loosen the bounds"):
        allocate([FLAT, FLAT], lower, upper, 10)


@pytest.mark.parametrize(
    ("shares", "weights"),
    [
        ([1, 1], [500, 500]),
        ([2, 1], [667, 333]),
        ([0, 3], [0, 1000]),
        ([1, 1, 0.01], [498, 498, 4]),
        # What is worth 0.3 of a unit gets none: a whole one would be three times too much.
        ([1.0] * 32 + [0.01] * 32, [32] * 8 + [31] * 24 + [0] * 32),
    ],
)
def test_proportional(shares, weights):
    assert proportional(shares, 1000) == weights


@pytest.mark.parametrize("shares", [[0, 0], [1, -1], [-1, 2]])
def test_shares_that_cannot_be_divided(shares):
    with pytest.raises(InvalidArgument, match="at least 0 and not all 0"):
        proportional(shares, 1000)
