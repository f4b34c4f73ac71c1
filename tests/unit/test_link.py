"""What a link counts of the frames under way."""

from types import SimpleNamespace

import pytest

from evenflow.runtime.feeder.link import Link


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def link(clock):
    return Link(0, 1, 0, SimpleNamespace(reading=True), clock)


def test_the_time_of_frames_under_way_is_summed_over_the_frames(link, clock):
    link.sent(0, rows=10)
    clock.now += 2
    link.sent(1, rows=10)
    clock.now += 1
    link.answered(0, seconds=0.5)
    clock.now += 4
    link.count()
    assert link.under_way_s == 2 + 2 * 1 + 4
    link.answered(1, seconds=0.5)
    clock.now += 8
    link.count()
    assert link.under_way_s == 8


def test_time_away_and_answers_left_in_the_kernel_do_not_count(link, clock):
    link.sent(0, rows=10)
    clock.now += 1
    link.count()
    clock.now += 5
    link.count(away=True)
    clock.now += 1
    link.listen(False)
    clock.now += 7
    link.listen(True)
    clock.now += 1
    link.count()
    assert link.under_way_s == 3
