"""Whatever happens to a region, weights by blocking are weights, and settle when nothing is wrong."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import RESOLUTION, Connection, Snapshot
from evenflow.policy.ordered.balance import even_weights
from evenflow.policy.ordered.blocking_rate import BlockingRate
from evenflow.policy.ordered.lb_adaptive import LbAdaptive

pytestmark = pytest.mark.slow

# One round: who is there (worker -> incarnation), how long each blocked, how long was fed, rows done. The frames under
# way follow from how long the next worker blocked.
ROUND = st.tuples(
    st.dictionaries(st.integers(0, 5), st.integers(1, 2), max_size=6),
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
    st.sampled_from([0.0, 0.05, 1.0, 1.0, 3.0]),
    st.integers(0, 10_000),
)
COMMON = {"explore": st.booleans(), "cluster_from": st.sampled_from([2, 4, 32]), "every": st.sampled_from([1, 2])}
BALANCE = st.one_of(
    st.builds(BlockingRate, **COMMON, rise=st.sampled_from([0.0, 0.1, 1.0]), patience=st.sampled_from([1, 32])),
    st.builds(LbAdaptive, **COMMON, step=st.sampled_from([10, 1000]), delta=st.sampled_from([1e-9, 1e-4])),
)


def play(balance, rounds, under_way=True):
    """The moves that a balance makes in each round; obeyed, with counters as the controller keeps them."""
    balance, counters, weights, fed = replace(balance), {}, {}, 0.0
    trace = []
    for at, (present, blocked, seconds, rows) in enumerate(rounds):
        live = set(present.items())
        if live != set(counters):
            counters = {key: counters.get(key, (0.0, 0, 0.0)) for key in sorted(live)}
            weights = even_weights(sorted(present)) if present else {}
        fed += seconds
        total = max(1.0, sum(blocked))
        counters = {
            key: (
                old[0] + seconds * blocked[key[0]] / total,
                old[1] + int(rows * seconds),
                old[2] + seconds * blocked[key[0] - 1] * under_way,
            )
            for key, old in counters.items()
        }
        connections = tuple(
            Connection(worker, life, weights[worker], waited, done, 0, done, under_way_s=way)
            for (worker, life), (waited, done, way) in counters.items()
        )
        moves = balance.decide(Snapshot(float(at), "r", 1, fed, connections))
        for move in moves:
            assert set(move.weights) == set(weights)
            weights = dict(move.weights)
        trace.append(moves)
    return trace


@given(BALANCE, st.lists(ROUND, max_size=25), st.booleans())
def test_weights_are_weights_and_details_are_json(balance, rounds, under_way):
    for moves in play(balance, rounds, under_way):
        for move in moves:
            assert sum(move.weights.values()) == RESOLUTION
            assert min(move.weights.values()) >= 0
            assert all(isinstance(weight, int) for weight in move.weights.values())
            json.dumps(move.detail, allow_nan=False)


@given(BALANCE, st.lists(ROUND, max_size=15))
def test_same_input_same_trace(balance, rounds):
    assert play(balance, rounds) == play(balance, rounds)


@given(st.integers(2, 6), st.floats(0.0, 1.0), st.booleans())
def test_balanced_input_yields_no_moves(workers, blocked, explore):
    """Everyone blocks the same: the even split stays."""
    present = dict.fromkeys(range(workers), 1)
    rounds = [(present, [blocked / workers] * 6, 1.0, 1000)] * 40
    assert not any(play(BlockingRate(explore=explore), rounds))
    assert not any(play(LbAdaptive(explore=explore), rounds))


@settings(max_examples=40)
@given(st.integers(2, 6), st.lists(ROUND, max_size=8))
def test_balanced_input_yields_no_moves_once_settled(workers, before):
    """Whatever came before: when everyone blocks the same, moves end, but for exploration."""
    present = dict.fromkeys(range(workers), 1)
    same = (present, [0.9 / workers] * 6, 1.0, 1000)
    trace = play(BlockingRate(explore=False), [*before, *[same] * 400])
    assert not any(trace[-100:])


@given(st.lists(ROUND, min_size=1, max_size=10))
def test_nothing_fed_changes_nothing(rounds):
    """While no feeder feeds, nothing is decided unless workers come or go."""
    still = [(rounds[-1][0], blocked, 0.0, rows) for _, blocked, _, rows in rounds]
    for balance in (BlockingRate(), LbAdaptive()):
        assert not any(play(balance, [*rounds, *still])[len(rounds) :])
