"""Shares that follow the weights, and frames that never outgrow what is known."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow.runtime.feeder.frame_size import FRAME_BYTES, GROWTH, OVERHEAD, RAMP_S, SHARED_FRAME_S, FrameSize
from evenflow.runtime.feeder.ordered.turns import Turns

weights = st.dictionaries(st.integers(0, 63), st.integers(0, 60), min_size=1, max_size=8).filter(
    lambda w: any(w.values())
)
worker = st.integers(0, 7)


def shared(total):
    """`total` shared among some workers, as the controller sends it."""

    def cut(workers, places):
        edges = [0, *sorted(places)[: len(workers) - 1], total]
        return dict(zip(sorted(workers), [b - a for a, b in pairwise(edges)], strict=False))

    return st.builds(
        cut, st.sets(worker, min_size=1, max_size=8), st.lists(st.integers(0, total), min_size=7, max_size=7)
    )


def turns_with(given_weights):
    turns = Turns()
    turns.set(given_weights)
    return turns


@given(weights, st.integers(0, 500))
def test_any_window_of_the_sum_gives_everybody_exactly_its_weight(given_weights, skipped):
    turns, total = turns_with(given_weights), sum(given_weights.values())
    for _ in range(skipped % total):
        turns.pick()
    counts = Counter(turns.pick() for _ in range(total))
    assert counts == Counter({worker: weight for worker, weight in given_weights.items() if weight})


@given(weights, st.integers(1, 200))
def test_no_prefix_strays_from_the_shares(given_weights, length):
    """Smooth: after any number of picks everybody has its share, up to less than one pick a worker."""
    turns, total = turns_with(given_weights), sum(given_weights.values())
    counts = Counter(turns.pick() for _ in range(length))
    for one, weight in given_weights.items():
        assert abs(counts[one] - length * weight / total) < len(given_weights)


@given(st.lists(st.tuples(shared(1000), st.integers(1, 40)), min_size=1, max_size=20))
def test_shares_follow_weights_that_keep_changing(changes):
    """However often the weights change, nobody is owed or owes more than a few frames."""
    turns = Turns()
    due, got = Counter(), Counter()
    steady = set(range(8))
    for given_weights, picks in changes:
        turns.set(given_weights)
        steady &= set(given_weights)
        for _ in range(picks):
            got[turns.pick()] += 1
        for one, weight in given_weights.items():
            due[one] += picks * weight / 1000
    for one in steady:
        assert abs(got[one] - due[one]) <= 8


@given(weights, worker, st.integers(0, 100))
def test_drop(given_weights, gone, skipped):
    turns = turns_with(given_weights)
    for _ in range(skipped):
        turns.pick()
    turns.drop(gone)
    assert gone not in turns
    rest = {one: weight for one, weight in given_weights.items() if one != gone}
    assert len(turns) == len(rest)
    assume(rest)
    assert {turns.pick() for _ in range(200)} <= set(rest)


@given(weights, weights)
def test_only_those_named_are_picked(before, after):
    turns = turns_with(before)
    for _ in range(10):
        turns.pick()
    turns.set(after)
    assert {turns.pick() for _ in range(50)} <= set(after)


# -- how many rows

answers = st.lists(st.tuples(worker, st.integers(0, 10**6), st.floats(0, 100)), max_size=40)


@given(answers, st.integers(1, 64), worker | st.none())
def test_at_least_one_row_and_no_more_than_growth_allows(given_answers, workers, one):
    size, largest = FrameSize(), {}
    for number, rows, seconds in given_answers:
        size.learn(number, rows, seconds)
        if rows:
            largest[number] = max(rows, largest.get(number, 0))
        sent = size.rows(workers, one)
        known = largest.get(one, 0) if one is not None else max(largest.values(), default=0)
        assert 1 <= sent <= max(1, known * GROWTH)
        assert size.seconds(number, 10) >= 0


@given(
    st.dictionaries(worker, st.floats(0, 1e6), max_size=8), st.none() | st.floats(0, 1e9), st.integers(1, 64), worker
)
def test_whatever_earlier_feeders_say(costs, overhead, workers, one):
    size = FrameSize(costs, overhead)
    assert 1 <= size.rows(workers, one) <= FRAME_BYTES * GROWTH
    assert 1 <= size.rows(workers) <= FRAME_BYTES * GROWTH


@given(st.floats(1e-7, 1e-2), st.floats(0, 1e4))
def test_frames_settle_at_their_aim(cost, overhead):
    """On a worker that takes cost * (rows + overhead), whatever these are."""
    assume(cost * (1 + overhead) < RAMP_S)
    size = FrameSize()
    for _ in range(30):
        rows = size.rows(1)
        size.learn(0, rows, cost * (rows + overhead))
    aim = max(SHARED_FRAME_S, cost * overhead * (1 / OVERHEAD - 1)) / cost
    assert size.rows(1) == pytest.approx(max(1, aim), rel=0.25, abs=2)
    assert size.settled(1, 10**9)
