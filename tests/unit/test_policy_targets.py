"""Targets of latency in a closed loop: more of shared workers, then rows that may be dropped, and both given back."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from evenflow.model import Performance
from evenflow.model.latency import Latencies, middle_ms
from evenflow.model.qos import Qos
from evenflow.policy.keyed.targets import BOOSTS, FIRST_REST, MOST_CALM, SHARES, Lever, Targets
from evenflow.runtime.feeder.latency_counter import LatencyCounter

STEP = 0.05
TARGET = Qos(latency_ms=200)
SHEDDING = Qos(latency_ms=200, shed="value")


@dataclass
class Shared:
    """Workers of 1000 rows a second that operator a shares with a rival who always has rows, or has none.

    Rows of a come at a rate and wait in a buffer; while it is full they wait in Spark. `pulled`: the rate is what there
    is room for, as in a micro-batch of rows that are all there.
    """

    rate: float
    rival: bool = True
    buffer: float = 1000.0
    base_s: float = 0.01
    pulled: bool = False
    boost: float = 1.0
    shed: float = 0.0
    waiting: float = 0.0
    total: Latencies = field(default_factory=Latencies)
    rows_in: float = 0.0
    dropped: float = 0.0

    def run(self, seconds):
        counter = LatencyCounter()
        for _ in range(round(seconds / STEP)):
            room = self.buffer - self.waiting
            came = room / (1 - self.shed) if self.pulled else self.rate * STEP
            kept = min(room, came * (1 - self.shed))
            self.rows_in += kept / (1 - self.shed)
            self.dropped += kept / (1 - self.shed) - kept
            self.waiting += kept
            speed = 1000.0 * (self.boost / (self.boost + 1) if self.rival else 1.0)
            served = min(self.waiting, speed * STEP)
            counter.add(self.base_s + self.waiting / speed, round(served))
            self.waiting -= served
        self.total += counter.news()

    def performance(self):
        return Performance(round(self.rows_in), self.total, {}, round(self.dropped))


def drive(world, seconds, targets, qos=TARGET, start=0):
    """Run for so many seconds; what was changed when, and the share of rows within the target in the second half."""
    changed, before = [], world.total
    for second in range(start, start + seconds):
        if second == start + seconds // 2:
            before = world.total
        world.run(1.0)
        adjusted = targets.decide(float(second), "a", qos, world.performance(), world.rival)
        if adjusted is not None:
            world.boost, world.shed = adjusted.boost, adjusted.shed
            changed.append((second, adjusted.boost, adjusted.shed))
    rows = (world.total - before).rows
    return changed, sum(count for bucket, count in rows.items() if middle_ms(bucket) <= 200) / sum(rows.values())


def test_who_misses_its_target_gets_more_until_it_is_met_and_gives_it_back():
    world, targets = Shared(rate=700), Targets()
    changed, within = drive(world, 100, targets)
    assert within > 0.9
    assert 1 < world.boost <= 8
    assert len(changed) <= 10
    world.rival = False
    drive(world, 300, targets, start=100)
    assert world.boost == 1.0
    world.rival = True
    _, within = drive(world, 100, targets, start=400)
    assert within > 0.9


@pytest.mark.parametrize("rate", [300, 520, 600, 700, 780, 900])
def test_it_comes_to_rest(rate):
    """Half an hour under the same load: what is given back in vain is given back less and less often."""
    world, targets = Shared(rate=rate), Targets()
    changed, within = drive(world, 1800, targets)
    assert len([second for second, *_ in changed if second > 900]) <= SELDOM
    assert within > 0.95
    assert world.dropped == 0


SELDOM = 4 * 900 / MOST_CALM
"""Changes in a quarter of an hour under a load that stays."""


def test_what_does_not_help_is_not_kept():
    """Rows take half a second by themselves: no weight helps."""
    world, targets = Shared(rate=100, base_s=0.5), Targets()
    changed, within = drive(world, 1800, targets)
    assert within == 0
    assert world.boost == 1.0
    assert {boost for _, boost, _ in changed} <= {1.0, 2.0, 4.0}
    assert len(changed) <= 3 * 7


def test_alone_on_the_workers_nothing_is_taken_from_anybody():
    world, targets = Shared(rate=2000, rival=False), Targets()
    changed, within = drive(world, 100, targets)
    assert (changed, within) == ([], 0)


def test_rows_are_dropped_only_where_that_is_allowed_and_nothing_else_helps():
    world, targets = Shared(rate=1500, rival=False), Targets()
    _, within = drive(world, 200, targets, SHEDDING)
    assert within > 0.8
    assert 0.35 <= world.shed <= 0.5
    world.rate = 500
    drive(world, 300, targets, SHEDDING, start=200)
    assert world.shed == 0.0
    dropped = world.dropped
    drive(world, 100, targets, SHEDDING, start=500)
    assert world.dropped == dropped


def test_a_larger_share_comes_before_dropping_rows():
    world, targets = Shared(rate=700), Targets()
    drive(world, 120, targets, SHEDDING)
    assert world.boost > 1
    assert world.dropped == 0
    world.rate = 1400  # more than all the workers can do
    _, within = drive(world, 600, targets, SHEDDING, start=120)
    assert within > 0.8
    assert world.boost > 1
    assert world.shed > 0


@pytest.mark.parametrize("rate", [1050, 1600, 2500, 5000])
def test_dropping_comes_to_rest_too(rate):
    world, targets = Shared(rate=rate, rival=False), Targets()
    changed, within = drive(world, 1800, targets, SHEDDING)
    assert len([second for second, *_ in changed if second > 900]) <= SELDOM
    assert within > 0.9
    needed = 1 - 1000 / rate
    assert world.dropped / world.rows_in < needed + 0.25


def test_dropping_that_does_not_help_is_given_up():
    """Rows wait in Spark and are taken as fast as there is room: what is dropped makes room for others."""
    world, targets = Shared(rate=0, rival=False, pulled=True), Targets()
    changed, _ = drive(world, 1800, targets, SHEDDING)
    assert world.shed == 0.0
    shedding = sum(after - second for (second, _, share), (after, *_) in pairwise(changed) if share)
    assert shedding < 0.1 * 1800


def test_no_target_no_change():
    assert drive(Shared(rate=2000), 50, Targets(), Qos(weight=3))[0] == []


def test_a_round_needs_rows():
    targets = Targets()
    for second in range(100):
        assert targets.decide(float(second), "a", SHEDDING, Performance(), True) is None


def test_levels_stay_within_their_bounds():
    lever = Lever(3, 2)
    for p99 in (1000, 500, 500, 250, 250, 125, 125, 125):
        lever.miss(p99)
        assert 0 <= lever.level <= 3
    assert (lever.level, lever.spent) == (3, True)
    for _ in range(10 * MOST_CALM):
        lever.meet(True)
    assert lever.level == 0
    assert not lever.spent
    for _ in range(3):
        lever.miss(1000.0)
    assert lever.level == 0
    for _ in range(FIRST_REST):
        assert lever.spent
        lever.miss(1000.0)
    assert not lever.spent
    assert BOOSTS[0] == 1.0
    assert SHARES[0] == 0.0
    assert max(SHARES) < 1.0
