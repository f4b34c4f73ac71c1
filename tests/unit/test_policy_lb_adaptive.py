"""LB-adaptive and LB-static decision by decision: §3 to §5 of ordered-regions, and nothing else."""

import json

import pytest

from evenflow.errors import InvalidArgument
from evenflow.model import Connection
from evenflow.policy import BALANCES, LbAdaptive, LbStatic, balance_named
from tests.support.blocking_feed import EVEN, Feed, begun


def functions(balance):
    return {key[0]: link.function for key, link in balance._links.items()}


def test_found_by_name():
    assert BALANCES["lb-adaptive"] is LbAdaptive
    assert balance_named("lb-static") == LbStatic()
    assert (LbAdaptive().explore, LbStatic().explore) == (True, False)


def test_the_connection_that_blocks_gets_what_the_others_cannot_take():
    """Figure 8: whom the splitter waits for drops to nothing at once, since the others have not blocked yet."""
    balance, feed = begun(LbAdaptive(every=1), EVEN)
    (move,) = balance.decide(feed.pass_time({0: 0.9}))
    assert move.weights[0] <= 1
    assert sum(move.weights.values()) == 1000
    assert move.reason == "blocked 0.90 of the time, 0.90 on worker 0"


def test_pace_and_frames_under_way_do_not_count():
    """The same rates give the same weights, whatever else is known of the region."""
    one, first = begun(LbAdaptive(every=1), EVEN)
    other, second = begun(LbAdaptive(every=1), EVEN)
    for worker in (0, 1, 0, 2):
        moves = one.decide(first.pass_time({worker: 0.9}))
        assert moves == other.decide(second.pass_time({worker: 0.9}, rows=40, under_way={3: 2}))
        first.obey(moves)
        second.obey(moves)


def test_samples_are_taken_in_between_decisions():
    """§5: measuring is more frequent than the remaining steps; each sample goes into the function."""
    balance, feed = begun(LbAdaptive(every=3, explore=False), EVEN)
    assert balance.decide(feed.pass_time({0: 0.9})) == []
    assert balance.decide(feed.pass_time({0: 0.3})) == []
    assert functions(balance)[0].points[0][:2] == (250, pytest.approx(0.6))
    (move,) = balance.decide(feed.pass_time({0: 0.3}))
    assert functions(balance)[0].points[0].data == 3
    assert move.detail["rates"]["0"] == pytest.approx(0.3)
    assert LbAdaptive().every == 2


def test_step_bounds_a_decision():
    balance, feed = begun(LbAdaptive(every=1, step=15), EVEN)
    (move,) = balance.decide(feed.pass_time({0: 0.9}))
    assert dict(move.weights) == {0: 235, 1: 255, 2: 255, 3: 255}


def test_only_exploring_decays():
    for balance, expected in ((LbAdaptive(every=1), 0.5), (LbStatic(every=1), 1.0)):
        _, feed = begun(balance, {0: 300, 1: 700})
        for _ in range(50):
            feed.set({0: 300, 1: 700})
            balance.decide(feed.pass_time({0: 0.5}))
        assert functions(balance)[0].values(0.0)[[300, 600]] == pytest.approx([0.5, expected])


def test_a_decision_takes_a_tenth_off_at_every_weight_beyond_the_present_one():
    """§5.4, on the 1001 weights of §5.1, whether anything was seen there or not."""
    balance, feed = begun(LbAdaptive(every=1), {0: 300, 1: 700})
    balance.decide(feed.pass_time({0: 0.6}))
    expected = [0.002 * weight * (0.9 if weight > 300 else 1.0) for weight in range(1001)]
    assert functions(balance)[0].values(0.0) == pytest.approx(expected[:301] + [max(0.6, f) for f in expected[301:]])


@pytest.mark.parametrize("connections", [31, 32])
def test_clusters_are_formed_from_32_connections_on(connections):
    """§6.6; they are of no use to fewer."""
    weights = {worker: 1000 // connections for worker in range(connections)}
    weights[0] += 1000 - sum(weights.values())
    balance, feed = begun(LbAdaptive(every=1), weights)
    (move,) = balance.decide(feed.pass_time({0: 0.9}))
    assert ("clusters" in move.detail) == (connections == 32)


def test_a_splitter_that_hardly_blocks_is_left_alone():
    balance, feed = begun(LbAdaptive(), {0: 900, 1: 100})
    for _ in range(30):
        assert balance.decide(feed.pass_time({0: 0.005})) == []


def test_detail_is_json_and_draws_the_functions():
    balance, feed = begun(LbAdaptive(every=1, cluster_from=4, explore=False), EVEN)
    (move,) = balance.decide(feed.pass_time({0: 0.9}))
    detail = json.loads(json.dumps(move.detail))
    assert detail["functions"]["0"] == [[0, 0.0], [1000, 3.6]]
    assert detail["clusters"]["1"] == detail["clusters"]["3"] != detail["clusters"]["0"]


def test_who_comes_is_new_and_who_stays_keeps_its_function():
    balance, feed = begun(LbAdaptive(every=1), EVEN)
    feed.obey(balance.decide(feed.pass_time({0: 0.9})))
    before = functions(balance)
    del feed.connections[3]
    feed.connections[4] = Connection(4, 1, 0)
    feed.set({0: 250, 1: 250, 2: 250, 4: 250})
    (move,) = balance.decide(feed.snapshot())
    assert move.weights[4] == 250
    assert move.weights[1] == pytest.approx(375, abs=1)
    after = functions(balance)
    assert after.pop(4).points == ()
    assert after == {worker: before[worker] for worker in (0, 1, 2)}


def test_weights_in_force_that_do_not_sum_are_set_right():
    balance = LbAdaptive(every=1, step=10)
    assert balance.decide(Feed({}).snapshot()) == []
    balance.decide(Feed({0: 0, 1: 0}).snapshot())
    feed = Feed({0: 5000, 1: 5000})
    balance.decide(feed.snapshot())
    (move,) = balance.decide(feed.pass_time({0: 0.9}))
    assert sum(move.weights.values()) == 1000


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"every": 0}, "every is 0"),
        ({"decay": 1.5}, "decay is 1.5: give a number from 0 to 1"),
        ({"memory": 0}, "memory is 0"),
        ({"step": 0}, "step is 0"),
        ({"delta": 1e-3}, "delta is 0.001: give a number from 1e-09 to 0.0001"),
    ],
)
def test_parameters_that_cannot_work(parameters, message):
    with pytest.raises(InvalidArgument, match=message):
        LbAdaptive(**parameters)
