"""To which worker the next frame goes, and whom the wait is charged to."""

from types import SimpleNamespace

import pytest

from evenflow.model.messages import ConnectionCounts
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.feeder.routes import DEPTH, ROUTES, WINDOW
from evenflow.runtime.wire.channel import Meter


class Region:
    """Links to `workers` workers, and a route over them."""

    def __init__(self, splitting, workers=2, weights=None, known=True):
        self.now = 0.0
        self.links = {}
        self.route = ROUTES[splitting](self.links, lambda: self.now)
        for worker in range(workers):
            self.links[worker] = Link(worker, 1, 0, SimpleNamespace(open=True, unsent=0, meter=Meter(), peer="here"))
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

    def blocked(self):
        return {worker: link.channel.meter.blocked_s(self.now) for worker, link in self.links.items()}


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


def test_the_wait_is_charged_to_whoever_is_waited_for():
    region = Region("block", 2)
    region.send(99)
    assert region.blocked() == {0: 0.0, 1: 0.0}
    region.now = 1.0
    assert region.send() == []
    region.now = 4.0
    region.answer(1)  # not the one in turn
    assert region.send() == []
    assert region.blocked() == {0: 4.0, 1: 0.0}  # since the first refusal, at 0
    region.answer(0)
    assert region.send(2) == [0, 1]
    region.now = 9.0
    assert region.blocked() == {0: 4.0, 1: 0.0}


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
    assert region.blocked() == {0: 0.0, 1: 0.0, 2: 0.0}


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


# -- what a link counts


def test_news_are_differences():
    link = Region("block", 1).links[0]
    link.sent(0, rows=10)
    link.sent(1, rows=5)
    assert link.answered(0, seconds=0.5) == 10
    link.channel.meter.block(1.0)
    assert link.news(2.0) == ConnectionCounts(1.0, 15, 2, 10, 1, 0.5, incarnation=1)
    link.answered(1, seconds=0.25)
    assert link.news(4.0) == ConnectionCounts(2.0, 0, 0, 5, 1, 0.25, incarnation=1)
    assert link.news(4.0) == ConnectionCounts(incarnation=1)
    assert str(link) == "worker 0 (pid 0, here)"
