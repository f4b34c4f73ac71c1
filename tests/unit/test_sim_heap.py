"""The event heap of data planes: events come by time, priority and the order of their pushes."""

import heapq
import random

import numpy as np
import pytest

from evenflow.sim.draws import draw, random_state, spread
from evenflow.sim.heap import event_heap, next_time, pack, pop, push, unpack


def test_events_come_as_python_would_sort_them():
    rng, ours, theirs, got = random.Random(5), event_heap(500), [], []
    for number in range(5_000):
        if theirs and (len(theirs) == 500 or rng.random() < 0.5):
            time, _, what = heapq.heappop(theirs)
            got.append(tuple(pop(ours)) == (time, what))
        else:
            time, priority = float(rng.randrange(20)), rng.randrange(3)
            heapq.heappush(theirs, (time, (priority, number), number))
            push(ours, time, priority, number)
        assert next_time(ours) == (theirs[0][0] if theirs else np.inf)
    assert len(got) > 2_000
    assert all(got)


def test_a_full_heap_takes_no_more():
    heap = event_heap(2)
    push(heap, 1.0, 0, 0)
    push(heap, 1.0, 0, 0)
    with pytest.raises(OverflowError, match="is full"):
        push(heap, 1.0, 0, 0)


@pytest.mark.parametrize("what", [(0, 0, 0), (127, 2**28 - 1, 2**28 - 1), (3, 17, 0), (3, 0, 17)])
def test_what_happens_fits_into_64_bits(what):
    assert tuple(unpack(pack(*what))) == what


def test_draws_are_uniform_and_the_same_for_a_seed():
    one, same, other = random_state(7), random_state(7), random_state(7, stream=1)
    drawn = [draw(one) for _ in range(10_000)]
    assert drawn == [draw(same) for _ in range(10_000)]
    assert drawn[:3] != [draw(other) for _ in range(3)]
    assert 0 <= min(drawn) <= max(drawn) < 1
    assert np.histogram(drawn, 10)[0] == pytest.approx(np.full(10, 1_000), rel=0.1)


def test_a_spread_has_its_mean_and_deviation():
    state = random_state(3)
    drawn = [spread(state, 45.0, 3.0) for _ in range(20_000)]
    assert (np.mean(drawn), np.std(drawn)) == pytest.approx((45.0, 3.0), rel=0.02)
