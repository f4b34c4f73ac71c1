"""Whose turn it is, and how many rows a frame has."""

import pytest

from evenflow.runtime.feeder.frame_size import FRAME_BYTES, GROWTH, RAMP_S, FrameSize, aim_s, longest_s
from evenflow.runtime.feeder.frame_size import SHARED_FRAME_S as FRAME_S
from evenflow.runtime.feeder.ordered.turns import Turns


def picks(turns, count):
    return [turns.pick() for _ in range(count)]


def turns_with(weights):
    turns = Turns()
    turns.set(weights)
    return turns


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({0: 1}, [0, 0, 0]),
        ({0: 1, 1: 1}, [0, 1, 0, 1]),
        ({0: 5, 1: 1, 2: 1}, [0, 0, 1, 0, 2, 0, 0]),  # smooth: nginx's own example
        ({0: 3, 1: 2}, [0, 1, 0, 1, 0]),
        ({0: 1, 1: 0}, [0, 0, 0, 0]),
        ({0: 0, 1: 0}, [0, 1, 0, 1]),  # nobody has a share: everybody gets one
        ({7: 500, 3: 500}, [7, 3, 7, 3]),
    ],
)
def test_smooth_weighted_round_robin(weights, expected):
    assert picks(turns_with(weights), len(expected)) == expected


def test_credit_survives_new_weights():
    turns = turns_with({0: 500, 1: 500})
    seen = []
    for _ in range(6):  # new weights before every pick must not let worker 0 go first each time
        turns.set({0: 500, 1: 500})
        seen.append(turns.pick())
    assert seen == [0, 1, 0, 1, 0, 1]


def test_drop_and_return():
    turns = turns_with({0: 2, 1: 1, 2: 1})
    turns.drop(1)
    assert (1 in turns, 2 in turns, len(turns)) == (False, True, 2)
    assert sorted(picks(turns, 6)) == [0, 0, 0, 0, 2, 2]
    turns.set({0: 1, 1: 1, 2: 1})
    assert 1 in picks(turns, 3)


def test_nobody_left():
    turns = turns_with({0: 1})
    turns.drop(0)
    assert len(turns) == 0
    assert not turns


def test_negative_weight_is_refused():
    with pytest.raises(ValueError, match=r"negative weight in \{0: -1\}"):
        turns_with({0: -1})


# -- how many rows


def learned(*answers, costs=None, overhead=0.0):
    size = FrameSize(costs, overhead)
    for worker, rows, seconds in answers:
        size.learn(worker, rows, seconds)
    return size


@pytest.mark.parametrize(
    ("answers", "rows"),
    [
        ([], 1),
        ([(0, 16, 16 * FRAME_S)], 1),  # a row is a frame's worth of work
        ([(0, 16, 160 * FRAME_S)], 1),  # or ten
        ([(0, 16, 16 * FRAME_S / 20)], 20),
        ([(0, 16, 16 * FRAME_S / 1e6)], 16 * GROWTH),  # cheap rows, but only 16 were ever answered
        ([(0, 16, 0.0)], 16 * GROWTH),
        ([(0, 1, FRAME_S), (1, 1, FRAME_S / 4)], 4),  # the fastest worker counts
        ([(0, 0, 5.0)], 1),  # no rows, no news
    ],
)
def test_rows(answers, rows):
    assert learned(*answers).rows(2) == rows


@pytest.mark.parametrize(
    ("workers", "own", "shared"), [(1, 0.01, 0.005), (8, 0.01, 0.005), (20, 0.02, 0.005), (64, 0.064, 0.016)]
)
def test_many_workers_get_longer_frames(workers, own, shared):
    assert (aim_s(workers), aim_s(workers, shared=True)) == (own, shared)
    size = learned(costs={0: 1e-6})
    assert size.rows(workers, 0) == pytest.approx(own / 1e-6, abs=1)
    assert size.rows(workers) == pytest.approx(shared / 1e-6, abs=1)


@pytest.mark.parametrize(
    ("waiting", "longest", "rows"),
    [
        (0, 0.04, 250),
        (16_000, 0.04, 250),  # 0.64 s: a 64th of it is no more than 10 ms
        (32_000, 0.04, 500),
        (1_000_000, 0.04, 1000),
        (1_000_000, 0.004, 250),  # never shorter than without rows that wait
    ],
)
def test_frames_are_longer_if_many_rows_wait(waiting, longest, rows):
    assert learned(costs={0: 4e-5}).rows(4, 0, waiting, longest) == pytest.approx(rows, abs=1)


def test_several_frames_pass_between_reports_and_rare_reports_make_none_longer():
    assert [longest_s(report_s) for report_s in (0.01, 0.05, 0.1, 60.0)] == pytest.approx([0.004, 0.02, 0.04, 0.04])


def grow(size, seconds_of, steps, workers=1):
    """Rows of each frame when each takes as long as `seconds_of` says."""
    grown = []
    for _ in range(steps):
        grown.append(size.rows(workers))
        size.learn(0, grown[-1], seconds_of(grown[-1]))
    return grown


def test_frames_start_with_one_row_and_grow_by_a_factor_at_most():
    assert grow(FrameSize(), lambda rows: 0.0, 7) == [1, 4, 16, 64, 256, 1024, 4096]


def test_an_expensive_row_is_sent_with_others_only_to_learn_that():
    assert grow(FrameSize(), lambda rows: rows * 1.0, 5) == [1, 4, 1, 1, 1]


def test_a_slow_call_is_given_many_rows():
    sizes = grow(FrameSize(), lambda rows: 0.3 + rows * 1e-5, 12)
    assert sizes == sorted(sizes)
    assert sizes[-1] > 4_000


@pytest.mark.parametrize(
    ("call_s", "row_s", "least", "most"),
    [
        (0.0, 1e-3, 5, 5),  # no overhead: the aim alone
        (0.0001, 1e-5, 450, 500),  # an overhead that does not matter
        (0.05, 2e-5, 7_500, 10_000),  # 50 ms a call: frames of 200 ms of rows
        (0.2, 1e-3, 650, 800),
    ],
)
def test_the_overhead_of_a_call_is_learned(call_s, row_s, least, most):
    sizes = grow(FrameSize(), lambda rows: call_s + rows * row_s, 12)
    assert least <= sizes[-1] <= most
    assert sizes[-1] == sizes[-2]


def test_overhead_is_told_apart_from_a_first_call_that_imports():
    size = FrameSize()
    size.learn(0, 1, 0.08)  # importing
    assert 45 <= grow(size, lambda rows: rows * 1e-4, 6)[-1] <= 60


def test_no_growth_for_learning_beyond_the_ramp():
    size = FrameSize()
    size.learn(0, 1, RAMP_S)
    size.learn(0, 1, RAMP_S)
    assert size.rows(1) == 1


def test_noise_does_not_make_frames_huge():
    size, largest = FrameSize(), 0
    for number in range(300):
        rows = size.rows(1)
        largest = max(largest, rows)
        size.learn(0, rows, rows * 1e-4 * (0.3 + (number * 7919 % 100) / 50))
    assert largest < 10 * FRAME_S / 1e-4


def test_overhead_and_costs_from_earlier_feeders():
    size = FrameSize({0: 1e-5, 1: 1e-3}, overhead=100.0)
    assert size.rows(2, 0) == pytest.approx(1000, abs=1)  # 100 rows' worth of overhead is little of that
    assert size.rows(2, 1) == pytest.approx(400, abs=1)  # a slow worker's frames are no less efficient
    assert size.seconds(1, 400) == pytest.approx(0.5)


def test_cost_falls_at_once_and_rises_slowly():
    size = learned((0, 100, 100 * FRAME_S / 100))
    assert size.rows(1) == 100
    size.learn(0, 100, 100 * FRAME_S / 20)  # five times the cost, once: half the way
    assert size.rows(1) == 33
    size.learn(0, 100, 100 * FRAME_S / 200)
    assert size.rows(1) == 200


def test_a_slow_worker_can_have_its_own_size():
    size = learned((0, 100, 100 * FRAME_S / 300), (1, 100, 100 * FRAME_S / 30))
    assert (size.rows(2, 0), size.rows(2, 1), size.rows(2)) == (400, 60, 300)  # the first may only grow fourfold
    assert size.rows(2, 7) == 1  # never heard of


def test_growth_is_each_workers_own():
    size = learned((0, 1000, 0.0), (1, 16, 0.0))
    assert (size.rows(2, 0), size.rows(2, 1)) == (4000, 64)


def test_expected_seconds():
    size = learned((0, 100, 1.0), (1, 100, 10.0))
    assert (size.seconds(0, 50), size.seconds(1, 50)) == (0.5, 5.0)
    assert size.seconds(7, 50) == 0.5  # a stranger is taken to be as fast as the fastest
    assert FrameSize().seconds(0, 1) == float("inf")


def test_forget():
    size = learned((0, 100, 100 * FRAME_S / 300), (1, 100, 100 * FRAME_S / 30))
    assert size.knows(0)
    size.forget(0)
    size.forget(0)
    assert (size.knows(0), size.rows(2), size.rows(2, 0)) == (False, 30, 1)


def test_costs_from_earlier_feeders():
    size = FrameSize({0: FRAME_S / 5000, 1: FRAME_S / 50}, 0.0)
    assert (size.rows(2), size.rows(2, 1), size.knows(1)) == (5000, 100, True)
    assert size.settled(2, 10)
    assert FrameSize({0: 0.0}).rows(1) <= FRAME_BYTES * GROWTH


def test_settled():
    size = FrameSize(overhead=0.0)
    assert not size.settled(1, 10)  # cost unknown
    size.learn(0, 16, 16 * FRAME_S / 1000)
    assert not size.settled(1, 10_000)  # 1000 rows would fit, only 64 are allowed yet
    assert size.settled(1, 50)  # but the batch has no more than 50
    size.learn(0, 300, 300 * FRAME_S / 1000)
    assert size.settled(1, 10_000)
