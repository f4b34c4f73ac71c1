"""BlockingRate decision by decision: what it takes from a snapshot, and who comes and goes."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from evenflow.errors import InvalidArgument
from evenflow.model import Connection
from evenflow.policy.ordered.blocking_rate import BlockingRate
from tests.support.blocking_feed import EVEN, Feed
from tests.support.blocking_feed import begun as met


def begun(weights, **parameters):
    return met(BlockingRate(**{"every": 1} | parameters), weights)


def speeds(balance):
    return {key[0]: link.speed for key, link in balance._links.items()}


def test_rates_are_blocking_a_feeder_second():
    balance, feed = begun(EVEN)
    feed.feeders = 2
    (move,) = balance.decide(feed.pass_time({0: 1.2, 2: 0.2}, fed=2.0))
    assert move.detail["rates"] == {"0": 0.6, "1": 0.0, "2": 0.1, "3": 0.0}
    assert move.reason == "blocked 0.70 of the time, 0.60 on worker 0"
    assert move.detail["speeds"]["0"] == 250, "rows a second, whatever the number of feeders"


def test_full_connections_are_measured_all_at_once():
    """Drafting: the splitter waits for worker 0 only, but 0 and 1 are both at their limit."""
    balance, feed = begun(EVEN)
    (move,) = balance.decide(feed.pass_time({0: 0.9}, rows=400, under_way={0: 2, 1: 1.9, 2: 0.1, 3: 0.1}))
    assert move.weights[0] == move.weights[1] < 200
    assert move.weights[2] == move.weights[3] > 300
    assert move.detail["full"] == {"0": 1.0, "1": 0.95, "2": 0.05, "3": 0.05}


def test_a_burst_does_not_make_a_connection_full():
    """The splitter waits for worker 1 most of the time, but it has frames under way for half of it."""
    balance, feed = begun({0: 100, 1: 900})
    (move,) = balance.decide(feed.pass_time({0: 0.2, 1: 0.7}, rows={0: 10, 1: 90}, under_way={0: 2, 1: 1}))
    assert move.weights[1] > 900


def test_without_frames_under_way_blocking_says_who_is_full():
    balance, feed = begun(EVEN)
    (move,) = balance.decide(feed.pass_time({0: 0.9}))
    assert move.weights[0] < 200
    assert min(move.weights[worker] for worker in (1, 2, 3)) > 250


def test_room_for_more_is_tried_further_each_time():
    balance, feed = begun({0: 500, 1: 500})
    tried = []
    for _ in range(7):
        share = feed.connections[1].weight / feed.connections[0].weight
        rows = {0: 100, 1: round(100 * share)}
        feed.obey(balance.decide(feed.pass_time({0: 0.9}, rows=rows, under_way={0: 2, 1: 1.2})))
        tried.append(speeds(balance)[1] / 100)
    assert tried[0] == pytest.approx(1 / 0.6, abs=0.01), "no more than its frames under way allow"
    assert tried == sorted(tried)
    assert tried[-1] > 5


def test_frames_under_way_for_little_of_the_time_show_a_speed():
    """What takes a tenth of the time can be had eight times at least, but no more than twice as much at once."""
    balance, feed = begun({0: 500, 1: 500}, explore=False)
    for _ in range(3):
        balance.decide(feed.pass_time({0: 0.9}, rows=200, under_way={0: 2, 1: 0.1}))
    assert speeds(balance) == pytest.approx({0: 100, 1: 800})


def test_room_that_other_regions_leave_for_now_is_not_counted_on():
    """With half of each worker when full: frames under way for half of the time prove nothing, for a fifth they do."""
    balance, feed = begun({0: 500, 1: 500}, rise=0)
    half = {0: 0.5, 1: 0.5}
    feed.obey(balance.decide(feed.pass_time({0: 0.9}, rows=200, under_way={0: 2, 1: 2}, busy=half)))
    balance.decide(feed.pass_time({0: 0.9}, rows=200, under_way={0: 2, 1: 0.5}, busy=half))
    assert speeds(balance) == pytest.approx({0: 100, 1: 100})
    balance.decide(feed.pass_time({0: 0.9}, rows=200, under_way={0: 2, 1: 0.2}, busy={0: 0.5, 1: 0.1}))
    assert speeds(balance)[1] == pytest.approx(200)


def after_slowing(busy):
    """Speeds when worker 0 is full, and does half of what it did; worker 1 has room, and has done as much."""
    balance, feed = begun({0: 500, 1: 500})
    feed.obey(balance.decide(feed.pass_time({0: 0.9}, rows=20_000, under_way={0: 2, 1: 2}, busy={0: 1, 1: 1})))
    balance.decide(feed.pass_time({0: 0.9}, rows=10_000, under_way={0: 2, 1: 1}, busy=busy))
    return speeds(balance)


def test_other_regions_that_come_do_not_make_one_worker_slow():
    """The worker takes as long for a row as before: so others came, on all workers alike. Else it is that worker."""
    assert after_slowing({0: 0.5, 1: 0.5}) == pytest.approx({0: 5_000, 1: 5_000}, rel=0.01)
    assert after_slowing({0: 1.0, 1: 0.5}) == pytest.approx({0: 5_000, 1: 10_000}, rel=0.01)


def failed_tries(**parameters):
    """Decisions in which worker 1, full whenever it has more than half, was tried with more."""
    balance, feed = begun({0: 500, 1: 500}, **parameters)
    feed.obey(balance.decide(feed.pass_time({1: 0.9}, rows=200, under_way={0: 2, 1: 2})))
    tries = []
    for decision in range(80):
        more = speeds(balance)[1] > 101
        tries += [decision] if more else []
        full = {0: 1.2, 1: 2} if more else {0: 2, 1: 1.2}
        feed.obey(balance.decide(feed.pass_time({0: 0.9}, rows=200, under_way=full)))
    return tries


def test_a_try_that_fails_makes_the_next_one_wait_longer():
    tries = failed_tries()
    gaps = [later - sooner for sooner, later in pairwise(tries)]
    assert gaps[0] < gaps[1] < gaps[2]
    assert len(failed_tries(patience=1)) > 2 * len(tries)
    assert failed_tries(explore=False) == []


def test_nothing_is_tried_while_the_region_lags_behind_its_weights():
    balance, feed = begun({0: 500, 1: 500})
    balance.decide(feed.pass_time({0: 0.9}, rows=200, under_way={0: 2, 1: 2}))
    for _ in range(10):
        balance.decide(feed.pass_time({0: 0.9}, rows={0: 50, 1: 50}, under_way={0: 1, 1: 0.9}))
    assert speeds(balance)[1] < 101


def test_what_was_measured_fades_without_exploring_too():
    balance, feed = begun({0: 500, 1: 500}, explore=False)
    balance.decide(feed.pass_time({0: 0.9}, rows=200, under_way={0: 2, 1: 2}))
    for _ in range(3):
        balance.decide(feed.pass_time({0: 0.9}, rows={0: 400, 1: 100}, under_way={0: 2, 1: 2}))
    assert speeds(balance) == pytest.approx({0: 400, 1: 100}, rel=0.01)


def test_workers_without_weight_are_tried_again_all_at_once():
    rows = {0: 0, 1: 0, 2: 5000, 3: 5000}
    balance, feed = begun({0: 0, 1: 0, 2: 500, 3: 500})
    moves = [balance.decide(feed.pass_time({2: 0.9}, rows=rows, under_way={2: 2, 3: 2})) for _ in range(3)]
    (move,) = next(filter(None, moves))
    assert (move.weights[0], move.weights[1]) == (1, 1)
    static, feed = begun({0: 0, 1: 0, 2: 500, 3: 500}, explore=False)
    assert not any(static.decide(feed.pass_time({2: 0.9}, rows=rows, under_way={2: 2, 3: 2})) for _ in range(50))


def test_frames_that_take_longer_than_a_decision():
    """Nothing is decided before each full connection has done its first frame; then its speed is found in the mean."""
    balance, feed = begun({0: 500, 1: 500})
    assert balance.decide(feed.pass_time({0: 0.9}, rows={0: 0, 1: 10}, under_way={0: 2, 1: 2})) == []
    for decision in range(60):
        rows = {0: 1 if decision % 5 == 0 else 0, 1: 10}
        feed.obey(balance.decide(feed.pass_time({0: 0.9}, rows=rows, under_way={0: 2, 1: 2})))
    assert speeds(balance) == pytest.approx({0: 0.2, 1: 10}, rel=0.25)
    assert feed.connections[0].weight == pytest.approx(20, abs=6)


def test_workers_alike_share_a_speed():
    balance, feed = begun(EVEN, cluster_from=4)
    rows = {0: 10, 1: 11, 2: 100, 3: 110}
    (move,) = balance.decide(feed.pass_time({0: 0.9}, rows=rows, under_way=dict.fromkeys(EVEN, 2)))
    detail = json.loads(json.dumps(move.detail))
    assert detail["speeds"] == {"0": 10.5, "1": 10.5, "2": 105, "3": 105}
    assert detail["clusters"]["0"] == detail["clusters"]["1"] != detail["clusters"]["2"] == detail["clusters"]["3"]


def test_a_decision_takes_several_samples():
    balance, feed = begun(EVEN, every=3)
    assert balance.decide(feed.pass_time({0: 0.9})) == []
    assert balance.decide(feed.pass_time({0: 0.6})) == []
    (move,) = balance.decide(feed.pass_time({0: 0.6}))
    assert move.detail["rates"]["0"] == pytest.approx(0.7)
    feed.obey([move])
    assert balance.decide(feed.pass_time({0: 0.9})) == []
    assert BlockingRate().every == 2


def slowed(rows, **parameters):
    """A balance for which two workers did 100 rows a second each, after one more sample: worker 0 full, 1 with room."""
    balance, feed = begun({0: 500, 1: 500}, every=2, **parameters)
    for _ in range(2):
        feed.obey(balance.decide(feed.pass_time({0: 0.9}, rows=200, under_way={0: 2, 1: 2})))
    moves = balance.decide(feed.pass_time({0: 0.9}, rows=rows, under_way={0: 2, 1: 0.5}))
    return moves, speeds(balance)


def test_speeds_that_changed_are_not_waited_with():
    """The newest sample counts alone: what the region did before is not true any more."""
    moves, known = slowed({0: 70, 1: 70})
    assert len(moves) == 1
    assert known == pytest.approx({0: 70, 1: 112}, rel=0.02)
    assert slowed({0: 90, 1: 90})[0] == [], "a little less is no change: it takes two samples"


@pytest.mark.parametrize(("busy", "decided"), [({0: 1.0, 1: 0.5}, True), ({0: 0.7, 1: 0.35}, False)])
def test_other_regions_that_come_are_waited_with(busy, decided):
    """Worker 0 takes as long for a row as before, in less of its time: it is not slower, and a decision has time."""
    balance, feed = begun({0: 500, 1: 500}, every=2)
    for _ in range(2):
        told = {0: 1.0, 1: 1.0}
        feed.obey(balance.decide(feed.pass_time({0: 0.9}, rows=200, under_way={0: 2, 1: 2}, busy=told)))
    moves = balance.decide(feed.pass_time({0: 0.9}, rows={0: 70, 1: 70}, under_way={0: 2, 1: 0.9}, busy=busy))
    assert bool(moves) == decided


def test_a_region_that_lost_half_doubts_workers_with_room():
    """At 40 rows a second with half a frame under way, worker 1 can do 80: found at once, not when it gets full."""
    assert slowed({0: 40, 1: 40})[1] == pytest.approx({0: 40, 1: 80}, rel=0.06)
    assert slowed({0: 55, 1: 55})[1][1] == 100, "that worker 0 is slower explains it"
    assert slowed({0: 40, 1: 40}, explore=False)[1][1] == 100, "it would never be tried with more again"


def test_nothing_fed_nothing_decided():
    balance, feed = begun(EVEN)
    assert balance.decide(feed.pass_time({0: 0.5}, fed=0.0)) == []


def test_a_splitter_that_hardly_blocks_is_left_alone():
    balance, feed = begun({0: 900, 1: 100})
    for _ in range(30):
        assert balance.decide(feed.pass_time({0: 0.005}, under_way={0: 2})) == []


def test_a_region_that_never_did_anything_is_left_alone():
    balance, feed = begun(EVEN)
    for _ in range(5):
        assert balance.decide(feed.pass_time({0: 0.9}, rows=0)) == []


def test_a_short_sample_waits_for_the_next():
    balance, feed = begun(EVEN)
    balance.decide(feed.pass_time({0: 0.1}))
    assert balance.decide(feed.pass_time({1: 0.1}, seconds=0.1)) == []
    (move,) = balance.decide(feed.pass_time({1: 0.78}, seconds=0.9))
    assert move.detail["rates"]["1"] == pytest.approx(0.88)


def test_rates_never_exceed_one_or_fall_below_zero():
    balance, feed = begun(EVEN)
    (move,) = balance.decide(feed.pass_time({0: 5.0, 1: -3.0}))
    assert (move.detail["rates"]["0"], move.detail["rates"]["1"]) == (1.0, 0.0)


def learned():
    """A balance that has learned that worker 0 is slow, and its region."""
    balance, feed = begun(EVEN)
    rows = {0: 10, 1: 1000, 2: 1000, 3: 1000}
    feed.obey(balance.decide(feed.pass_time({0: 0.9}, rows=rows, under_way=dict.fromkeys(EVEN, 2))))
    assert feed.connections[0].weight == 3
    return balance, feed


def test_who_leaves_is_forgotten_and_the_others_keep_what_they_have():
    balance, feed = learned()
    before = speeds(balance)
    del feed.connections[3]
    feed.set({0: 334, 1: 333, 2: 333})  # what the controller falls back to
    (move,) = balance.decide(feed.snapshot())
    assert move.reason == "workers joined or left"
    assert dict(move.weights) == {0: 4, 1: 499, 2: 497}
    assert speeds(balance) == {worker: before[worker] for worker in (0, 1, 2)}


def test_who_joins_starts_even_and_with_nothing_known():
    balance, feed = learned()
    before, weights = speeds(balance), {w: c.weight for w, c in feed.connections.items()}
    feed.connections[4] = Connection(4, 1, 0)
    feed.set(dict.fromkeys(range(5), 200))
    (move,) = balance.decide(feed.snapshot())
    assert move.weights[4] == 200
    assert move.weights[1] == pytest.approx(weights[1] * 0.8, abs=2)
    assert speeds(balance) == before | {4: 0.0}


def test_a_new_incarnation_is_a_newcomer():
    balance, feed = learned()
    before = speeds(balance)
    feed.connections[0] = replace(feed.connections[0], incarnation=2, blocked_s=0.0, rows_done=0, rows_sent=0)
    (move,) = balance.decide(feed.snapshot())
    assert move.weights[0] == 250
    assert speeds(balance) == before | {0: 0.0}
    assert balance.decide(feed.pass_time({}, fed=0.0)) == []


def test_nobody_there():
    assert BlockingRate().decide(Feed({}).snapshot()) == []


def test_weights_in_force_that_do_not_sum_are_set_right():
    balance = BlockingRate(every=1)
    (move,) = balance.decide(Feed({0: 0, 1: 0}).snapshot())
    assert dict(move.weights) == {0: 500, 1: 500}
    feed = Feed({0: 5000, 1: 5000})
    balance.decide(feed.snapshot())
    (move,) = balance.decide(feed.pass_time({0: 0.9, 1: 0.9}))
    assert dict(move.weights) == {0: 500, 1: 500}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"every": 0}, "every is 0: give a whole number from 1 to 1,000,000"),
        ({"rise": -0.1}, "rise is -0.1"),
        ({"patience": 0}, "patience is 0"),
        ({"cluster_from": 1}, "cluster_from is 1"),
    ],
)
def test_parameters_that_cannot_work(parameters, message):
    with pytest.raises(InvalidArgument, match=message):
        BlockingRate(**parameters)
