"""To which worker the next frame goes, and whom the wait is charged to."""

from types import SimpleNamespace

import pytest

from evenflow.model.latency import Latencies, bucket_of
from evenflow.model.messages import ConnectionCounts
from evenflow.runtime.feeder.link import Link, Meter
from evenflow.runtime.feeder.ordered.routes import DEPTH, ROUTES, WINDOW


class Region:
    """Links to `workers` workers, and a route over them."""

    def __init__(self, splitting, workers=2, weights=None, known=True):
        self.links = {}
        self.route = ROUTES[splitting](self.links)
        for worker in range(workers):
            self.links[worker] = Link(worker, 1, 0, SimpleNamespace(open=True, unsent=0, peer="here"))
            self.route.opened(self.links[worker], known)
        self.route.set_weights(weights or dict.fromkeys(range(workers), 1))
        self.sequence = 0

    def send(self, count=1):
        """Send frames for as long as there is room; to whom they went."""
        went = []
        for _ in range(count):
            link = self.route.next()
            if link is None:
                break
            link.sent(self.sequence, rows=1)
            self.sequence += 1
            went.append(link.worker)
        return went

    def answer(self, worker):
        link = self.links[worker]
        link.answered(min(link.under_way), seconds=0.0)
        self.route.answered(link)

    def drop(self, worker):
        self.route.dropped(self.links.pop(worker))

    @property
    def blocker(self):
        return self.route.blocker and self.route.blocker.worker


WEIGHTED = ["block", "reroute"]


@pytest.mark.parametrize("splitting", WEIGHTED)
def test_turns_follow_the_weights(splitting):
    region = Region(splitting, 3, {0: 2, 1: 1, 2: 1})
    assert region.send(4) == [0, 1, 2, 0]


@pytest.mark.parametrize("splitting", WEIGHTED)
def test_nobody_has_more_than_a_window(splitting):
    region = Region(splitting, 2)
    assert sorted(region.send(99)) == [0] * WINDOW + [1] * WINDOW


@pytest.mark.parametrize("splitting", WEIGHTED)
def test_workers_that_left_get_nothing(splitting):
    region = Region(splitting, 3)
    region.drop(1)
    assert region.send(2) == [0, 2]
    region.route.set_weights({0: 1, 1: 1})  # the controller has not heard of it yet
    assert region.send(1) == [0]


@pytest.mark.parametrize("splitting", [*WEIGHTED, "credits"])
def test_nobody_there(splitting):
    region = Region(splitting, 1)
    region.drop(0)
    assert region.send() == []


def test_blocking_waits_for_whoever_is_next():
    region = Region("block", 2)
    region.links[0].channel.unsent = 7
    assert region.send() == []
    region.links[0].channel.unsent = 0
    assert region.send(2) == [0, 1]


def test_blocking_waits_until_all_are_connected():
    region = Region("block", 2)
    region.links[1].channel.open = False
    assert region.send() == []


def test_one_connection_is_waited_for_that_in_turn():
    region = Region("block", 3)
    region.links[2].channel.unsent = 7  # full, too, but nobody waits for it yet
    region.send(99)
    assert region.blocker == 2
    region.answer(0)  # not the one in turn
    assert region.send() == []
    assert region.blocker == 2
    region.links[2].channel.unsent = 0
    assert region.send(2) == [2, 0]
    assert region.blocker is None
    assert region.send(99) == [1, 2, 0]
    assert region.blocker == 1
    region.links[0].channel.open = False  # called again: until it is there, nobody is to blame
    assert region.send() == []
    assert region.blocker is None


def test_a_lost_turn_passes_on():
    region = Region("block", 2)
    region.links[0].channel.unsent = 7
    assert region.send() == []
    region.drop(0)
    assert region.send() == [1]


def test_rerouting_tries_the_others():
    region = Region("reroute", 3)
    region.links[0].channel.unsent = 7
    assert region.send(3) == [1, 1, 2]  # 0 was in turn, 1 is next to it
    assert region.route.rerouted == 1
    region.links[2].channel.open = False
    region.links[1].channel.unsent = 7
    assert region.send() == []
    assert region.blocker is None  # any of them will do


def test_credits_are_spent_in_the_order_they_were_earned():
    region = Region("credits", 2)
    assert region.send(99) == [0] * DEPTH + [1] * DEPTH
    for worker in (1, 0, 1):
        region.answer(worker)
    assert region.send(99) == [1, 0, 1]


def test_a_worker_of_unknown_speed_has_one_credit_until_it_answers():
    region = Region("credits", 2, known=False)
    assert region.send(99) == [0, 1]
    region.answer(0)
    assert region.send(99) == [0] * DEPTH
    region.answer(0)
    assert region.send(99) == [0]


def test_credits_of_the_lost_are_gone():
    region = Region("credits", 2)
    region.drop(0)
    assert region.send(99) == [1] * DEPTH


# -- the meter


@pytest.mark.parametrize(
    ("calls", "totals"),
    [
        ([("wait", None, 1), ("charge", 9)], (0, 0)),
        ([("wait", 0, 1), ("charge", 4)], (3, 0)),  # the wait under way counts
        ([("wait", 0, 1), ("wait", 0, 2), ("wait", None, 4), ("charge", 9)], (3, 0)),  # it began at the first
        ([("wait", 0, 1), ("wait", 1, 4), ("wait", None, 6), ("charge", 9)], (3, 2)),  # one after the other
        ([("wait", 0, 1), ("wait", None, 4), ("wait", 0, 6), ("charge", 8)], (5, 0)),  # cumulative
        ([("wait", 1, 1), ("pause", 2), ("resume", 7), ("charge", 9)], (0, 3)),
        ([("wait", 1, 1), ("pause", 2), ("charge", 5), ("resume", 7), ("wait", 0, 8), ("charge", 9)], (1, 2)),
        ([("pause", 2), ("resume", 7), ("charge", 9)], (0, 0)),
    ],
)
def test_one_clock_runs_at_most(calls, totals):
    links, meter = Region("block", 2).links, Meter()
    for call, *about in calls:
        *who, now = about
        getattr(meter, call)(*(links.get(worker) for worker in who), float(now))
    assert tuple(link.blocked_s for link in links.values()) == totals


# -- what a link counts


def test_news_are_differences():
    link, now = Region("block", 1).links[0], [0.0]
    link.clock = lambda: now[0]
    link.sent(0, rows=10)
    link.sent(1, rows=5)
    now[0] = 2.0
    assert link.answered(0, seconds=0.5) == 10
    link.blocked_s += 1.0
    took = Latencies({bucket_of(2.0): 10}, 20.0)
    told = ConnectionCounts(1.0, 15, 2, 10, 1, 0.5, incarnation=1, under_way_s=4.0, latencies=took)
    assert link.news() == told
    now[0] = 4.0
    link.answered(1, seconds=0.25)
    link.blocked_s += 2.0
    took = Latencies({bucket_of(4.0): 5}, 20.0)
    told = ConnectionCounts(2.0, 0, 0, 5, 1, 0.25, incarnation=1, under_way_s=2.0, latencies=took)
    assert link.news() == told
    assert link.news() == ConnectionCounts(incarnation=1)
    assert str(link) == "worker 0 (pid 0, here)"
