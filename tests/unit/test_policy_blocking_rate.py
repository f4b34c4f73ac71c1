"""BlockingRate sample by sample: what it takes from a snapshot, and who comes and goes."""

import json
from dataclasses import replace

import pytest

from evenflow.errors import InvalidArgument
from evenflow.model import Connection, Snapshot
from evenflow.policy.ordered.blocking_rate import BlockingRate


class Feed:
    """Snapshots of a region whose counters grow as told."""

    def __init__(self, weights):
        self.connections = {worker: Connection(worker, 1, weight) for worker, weight in weights.items()}
        self.time = self.feeding_s = 0.0

    def snapshot(self):
        return Snapshot(self.time, "r", 1, self.feeding_s, tuple(self.connections.values()))

    def pass_time(self, blocked, seconds=1.0, fed=None, rows=1000):
        self.time += seconds
        self.feeding_s += seconds if fed is None else fed
        for worker, old in self.connections.items():
            self.connections[worker] = replace(
                old,
                blocked_s=old.blocked_s + blocked.get(worker, 0.0),
                rows_sent=old.rows_sent + rows // len(self.connections),
                rows_done=old.rows_done + rows // len(self.connections),
            )
        return self.snapshot()

    def obey(self, moves):
        for move in moves:
            self.set(move.weights)

    def set(self, weights):
        self.connections = {w: replace(c, weight=weights[w]) for w, c in self.connections.items()}


def begun(weights, **parameters):
    balance, feed = BlockingRate(**parameters), Feed(weights)
    assert balance.decide(feed.snapshot()) == []
    return balance, feed


EVEN = {0: 250, 1: 250, 2: 250, 3: 250}


def test_rates_are_blocking_a_feeder_second():
    balance, feed = begun(EVEN)
    (move,) = balance.decide(feed.pass_time({0: 1.2, 2: 0.2}, fed=2.0))
    assert move.detail["rates"] == {"0": 0.6, "1": 0.0, "2": 0.1, "3": 0.0}
    assert move.reason == "blocked 0.70 of the time, 0.60 on worker 0"


def test_whom_the_splitter_waits_for_gets_less():
    balance, feed = begun(EVEN)
    (move,) = balance.decide(feed.pass_time({0: 0.9}))
    assert move.weights[0] < 200
    assert min(move.weights[worker] for worker in (1, 2, 3)) > 250
    assert sum(move.weights.values()) == 1000


def test_nothing_fed_nothing_decided():
    balance, feed = begun(EVEN)
    assert balance.decide(feed.pass_time({0: 0.5}, fed=0.0)) == []


def test_a_splitter_that_hardly_blocks_is_left_alone():
    balance, feed = begun({0: 900, 1: 100})
    for _ in range(30):
        assert balance.decide(feed.pass_time({0: 0.005})) == []


def test_a_region_that_never_did_anything_is_left_alone():
    balance, feed = begun(EVEN)
    feed.pass_time({}, rows=4)
    for _ in range(5):
        feed.connections = {w: replace(c, rows_done=0) for w, c in feed.connections.items()}
        assert balance.decide(feed.pass_time({0: 0.9}, rows=0)) == []


def test_a_short_sample_waits_for_the_next():
    balance, feed = begun(EVEN)
    balance.decide(feed.pass_time({0: 0.1}))
    assert balance.decide(feed.pass_time({1: 0.1}, seconds=0.1)) == []
    (move,) = balance.decide(feed.pass_time({1: 0.78}, seconds=0.9))
    assert move.detail["rates"]["1"] == pytest.approx(0.88)


def test_rates_never_exceed_one_or_fall_below_zero():
    balance, feed = begun(EVEN)
    feed.pass_time({0: 5.0, 1: -3.0})
    (move,) = balance.decide(feed.snapshot())
    assert (move.detail["rates"]["0"], move.detail["rates"]["1"]) == (1.0, 0.0)


def test_bounds_relative_to_the_present_weights():
    balance, feed = begun(EVEN, rise=0.02)
    (move,) = balance.decide(feed.pass_time({0: 0.9}))
    assert dict(move.weights) == {0: 235, 1: 255, 2: 255, 3: 255}


def test_detail_is_json_and_draws_the_functions():
    balance, feed = begun(EVEN, cluster_from=4)
    (move,) = balance.decide(feed.pass_time({0: 0.9}))
    detail = json.loads(json.dumps(move.detail))
    assert detail["functions"]["0"] == [[0, 0.0], [250, 0.9]]
    assert set(detail["clusters"]) == {"0", "1", "2", "3"}
    assert detail["clusters"]["1"] == detail["clusters"]["3"] != detail["clusters"]["0"]


def test_held_up_by_one_the_silence_of_the_others_says_nothing():
    balance, feed = begun(EVEN)
    balance.decide(feed.pass_time({1: 0.5}))
    moves = balance.decide(feed.pass_time({0: 0.99}, rows=40))
    assert moves[0].detail["functions"]["2"] == [[0, 0.0], [250, 0.0]], "only what was seen at full speed"


def learned():
    """A balance that has learned that worker 0 is slow, and its region."""
    balance, feed = begun(EVEN)
    for _ in range(8):
        slow = feed.connections[0].weight > 5
        feed.obey(
            balance.decide(feed.pass_time({0: 0.9} if slow else {1: 0.3, 2: 0.3, 3: 0.3}, rows=40 if slow else 4000))
        )
    assert feed.connections[0].weight <= 5
    return balance, feed


def functions(balance):
    return {key[0]: link.function for key, link in balance._links.items()}


def test_who_leaves_is_forgotten_and_the_others_keep_what_they_have():
    balance, feed = learned()
    before, weights = functions(balance), {w: c.weight for w, c in feed.connections.items()}
    del feed.connections[3]
    feed.set({0: 334, 1: 333, 2: 333})  # what the controller falls back to
    (move,) = balance.decide(feed.snapshot())
    assert move.reason == "workers joined or left"
    assert set(move.weights) == {0, 1, 2}
    assert move.weights[0] <= 2 * weights[0] + 1
    assert move.weights[1] == pytest.approx(1000 * weights[1] / (1000 - weights[3]), abs=2)
    assert functions(balance) == {worker: before[worker] for worker in (0, 1, 2)}


def test_who_joins_starts_even_and_with_nothing_known():
    balance, feed = learned()
    before, weights = functions(balance), {w: c.weight for w, c in feed.connections.items()}
    feed.connections[4] = Connection(4, 1, 0)
    feed.set(dict.fromkeys(range(5), 200))
    (move,) = balance.decide(feed.snapshot())
    assert move.weights[4] == 200
    assert move.weights[1] == pytest.approx(weights[1] * 0.8, abs=2)
    assert functions(balance) == before | {4: functions(balance)[4]}
    assert functions(balance)[4].points == ()


def test_a_new_incarnation_is_a_newcomer():
    balance, feed = learned()
    before = functions(balance)
    feed.connections[0] = replace(feed.connections[0], incarnation=2, blocked_s=0.0, rows_done=0, rows_sent=0)
    (move,) = balance.decide(feed.snapshot())
    assert move.weights[0] == 250
    after = functions(balance)
    assert after[0].points == ()
    assert all(after[worker] == before[worker] for worker in (1, 2, 3))
    assert balance.decide(feed.pass_time({}, fed=0.0)) == []


def test_nobody_there():
    assert BlockingRate().decide(Feed({}).snapshot()) == []


def test_weights_in_force_that_do_not_sum_are_set_right():
    balance = BlockingRate()
    (move,) = balance.decide(Feed({0: 0, 1: 0}).snapshot())
    assert dict(move.weights) == {0: 500, 1: 500}
    feed = Feed({0: 5000, 1: 5000})
    balance.decide(feed.snapshot())
    (move,) = balance.decide(feed.pass_time({0: 0.9}))
    assert sum(move.weights.values()) == 1000


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"decay": 1.5}, "decay is 1.5: give a number from 0 to 1"),
        ({"rise": -0.1}, "rise is -0.1"),
        ({"memory": 0}, "memory is 0"),
        ({"cluster_from": 1}, "cluster_from is 1"),
    ],
)
def test_parameters_that_cannot_work(parameters, message):
    with pytest.raises(InvalidArgument, match=message):
        BlockingRate(**parameters)
