"""Credits shows as weights what each worker has done since it was last asked."""

from evenflow.model import RESOLUTION, Connection, Snapshot
from evenflow.policy.ordered.credits import Credits


def decided(balance, done, weights=(0, 0, 0), incarnations=(1, 1, 1)):
    rows = zip(incarnations, weights, done, strict=True)
    connections = tuple(Connection(w, life, weight, rows_done=n) for w, (life, weight, n) in enumerate(rows))
    moves = balance.decide(Snapshot(0.0, "r", 1, 0.0, connections))
    return list(moves[0].weights.values()) if moves else None


def test_weights_are_shares_of_the_rows_done_since():
    balance = Credits()
    assert decided(balance, (100, 100, 200)) == [250, 250, 500]
    assert decided(balance, (400, 200, 200)) == [750, 250, 0]
    assert decided(balance, (400, 200, 200)) is None, "nothing was done"


def test_the_largest_remainders_make_up_the_rest():
    weights = decided(Credits(), (1, 1, 1))
    assert sum(weights) == RESOLUTION
    assert sorted(weights) == [333, 333, 334]


def test_weights_that_hold_are_not_set_again():
    assert decided(Credits(), (1, 1, 2), weights=(250, 250, 500)) is None


def test_a_worker_that_was_replaced_counts_from_zero():
    balance = Credits()
    decided(balance, (100, 100, 200))
    assert decided(balance, (150, 100, 50), incarnations=(1, 1, 2)) == [500, 0, 500]
