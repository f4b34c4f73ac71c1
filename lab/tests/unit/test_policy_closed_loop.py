"""BlockingRate and LB-adaptive in a closed loop with a model of splitter, workers and merge.

Figures are of ordered-regions §6. A sample is a second; times are relative to Oracle*'s.
"""

from functools import cache

import numpy as np
import pytest
from tests.support.blocking_model import drive, half, ideal, keep_up, shifting

from evenflow.policy.ordered.blocking_rate import BlockingRate
from evenflow.policy.ordered.lb_adaptive import LbAdaptive, LbStatic
from evenflow.policy.ordered.oracle import Oracle
from evenflow.policy.ordered.round_robin import RoundRobin

pytestmark = pytest.mark.slow


def speeds(slowdown):
    return [1 / factor for factor in slowdown]


@cache
def oracle(slowdown, work_s, change=None):
    schedule = [(0, speeds(slowdown)), *([(change[0], speeds(change[1]))] if change else [])]
    return drive(Oracle(schedule=schedule), slowdown, work_s, change=change).seconds


def ratio(balance, slowdown, work_s=60, change=None, seed=1):
    run = drive(balance, slowdown, work_s, change=change, seed=seed, most=60)
    return run.seconds / oracle(tuple(slowdown), work_s, change)


def test_the_model_drafts():
    """§4.2: of equal workers, one is blamed for a while, then another."""
    run = drive(RoundRobin(), [1, 1, 1], 20)
    assert (run.rates.max(axis=1) > 0.6 * run.rates.sum(axis=1)).mean() > 0.8
    assert run.rates.sum(axis=1).min() > 0.9


def test_the_model_is_gated_by_its_slowest_worker():
    """§4.1: with one worker 100 times slower, round-robin runs at three times that worker's speed."""
    frames = drive(RoundRobin(), [100, 1, 1], 1, most=40).frames
    assert frames[10:].mean() == pytest.approx(6, rel=0.1)
    assert drive(Oracle(speeds([100, 1, 1])), [100, 1, 1], 20).frames[10:].mean() == pytest.approx(402, rel=0.03)


UPWARD = {
    "3 equal, one 5x faster": ([5] * 3, [1, 5, 5], 0.98),
    "2 equal, one 2x faster": ([2] * 2, [1, 2], 0.98),
    "8 equal, four 4x faster": ([4] * 8, [1] * 4 + [4] * 4, 0.97),
    "64 equal, 8 10x faster": ([10] * 64, [1] * 8 + [10] * 56, 0.85),
}


def late_share(balance, profile, samples=120, seed=1):
    """The share of the ideal in the last quarter of a run."""
    quarter = keep_up(balance, profile, samples, seed=seed).frames[-samples // 4 :]
    return quarter.mean() / ideal(profile[-1][1])


def over_oracle(balance, profile, samples=120, **model):
    """How many times as long a row takes as with Oracle*, over a run of some samples."""
    known = Oracle(schedule=[(second, speeds(slowdown)) for second, slowdown in profile])
    return (
        keep_up(known, profile, samples, **model).frames.sum()
        / keep_up(balance, profile, samples, **model).frames.sum()
    )


@pytest.mark.parametrize("case", UPWARD)
@pytest.mark.parametrize("seed", [1, 2])
def test_workers_that_become_faster_are_noticed(case, seed):
    before, after, least = UPWARD[case]
    assert late_share(BlockingRate(), [(0, before), (30, after)], seed=seed) > least


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_setting_holds_a_slow_half_back(seed):
    assert late_share(BlockingRate(), [(0, half(16, 100))], seed=seed) > 0.88


@pytest.mark.parametrize("factor", [10, 100])
@pytest.mark.parametrize("workers", [2, 3, 4, 8, 16, 32, 64])
def test_a_slow_half_costs_little_over_120_samples(workers, factor):
    """Figures 9 and 10, left: slow workers are found all at once, not one at a time."""
    assert over_oracle(BlockingRate(), [(0, half(workers, factor))]) < 1.4


@pytest.mark.parametrize("model", [{"jitter": 0.5}, {"slots": 2, "jitter": 0.3}, {"slots": 40}], ids=str)
@pytest.mark.parametrize("workers", [2, 8, 64])
def test_buffers_and_noise_do_not_matter_much(workers, model):
    assert over_oracle(BlockingRate(), [(0, half(workers, 10))], **model) < 1.3


@pytest.mark.parametrize(
    ("workers", "every", "most"),
    [(2, 10, 1.5), (3, 10, 1.6), (8, 10, 1.9), (8, 30, 1.4), (32, 5, 2.2), (32, 30, 1.5), (64, 30, 1.6)],
)
def test_speeds_that_change_all_the_time(workers, every, most):
    """Every few seconds all workers have another speed, up to 10 times less."""
    for seed in (1, 2):
        assert over_oracle(BlockingRate(), shifting(workers, every, seed)) < most


def frames(balance, profile, **model):
    return keep_up(balance, profile, **model).frames.sum()


@pytest.mark.parametrize("every", [3, 5, 10, 30])
@pytest.mark.parametrize("workers", [2, 4, 8, 16, 32, 64])
def test_never_worse_than_an_even_split_where_all_speeds_change(workers, every):
    """Whether workers tell their service times or not."""
    for seed, tells in ((1, False), (2, True)):
        profile = shifting(workers, every, seed)
        assert frames(BlockingRate(), profile, tells=tells) > 0.97 * frames(RoundRobin(), profile)


@pytest.mark.parametrize("workers", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("case", ["equal", "all slower", "all faster", "one faster", "half slow", "half slow for 1/8"])
def test_never_worse_than_an_even_split(case, workers):
    """Round-robin is right for equal workers, and next to it where one of many is faster."""
    profile = {
        "equal": [(0, [1] * workers)],
        "all slower": [(0, [1] * workers), (60, [5] * workers)],
        "all faster": [(0, [5] * workers), (60, [1] * workers)],
        "one faster": [(0, [2] * workers), (60, [1] + [2] * (workers - 1))],
        "half slow": [(0, half(workers, 1.2))],
        "half slow for 1/8": [(0, half(workers, 10)), (15, [1] * workers)],
    }[case]
    assert frames(BlockingRate(), profile) > 0.96 * frames(RoundRobin(), profile)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_figure_8_top(seed):
    """One of three workers 100 times slower: sustainable within 20 samples, and back to even when the load goes."""
    run = drive(BlockingRate(), [100, 1, 1], 110, change=(30, (1, 1, 1)), seed=seed)
    assert run.weights[20:30, 0].max() <= 6
    assert run.frames[20:30].mean() > 0.8 * 402
    assert run.weights[-20:, 0].mean() == pytest.approx(333, abs=15)
    assert run.frames[-20:].mean() > 0.97 * 600


@pytest.mark.parametrize("seed", [1, 2])
def test_figure_8_bottom(seed):
    """Equal workers end in an even split, whoever leads the draft, at no cost to speak of."""
    run = drive(BlockingRate(), [1, 1, 1], 60, seed=seed)
    assert abs(run.weights[-20:].mean(axis=0) - 1000 / 3).max() < 10
    assert run.seconds < 1.03 * 60


@pytest.mark.parametrize(("workers", "most"), [(2, 1.03), (8, 1.06), (16, 1.06)])
def test_equal_workers_cost_little(workers, most):
    assert ratio(BlockingRate(), [1] * workers) < most


@pytest.mark.parametrize("workers", [2, 16])
def test_half_slow_for_an_eighth(workers):
    """Figure 10, middle and right: exploring finds out that the load is gone; not exploring never does."""
    change = (20, (1,) * workers)
    adaptive = drive(BlockingRate(), half(workers, 100), 160, change=change)
    static = drive(BlockingRate(explore=False), half(workers, 100), 160, change=change)
    assert adaptive.frames[-20:].mean() > 1.8 * static.frames[-20:].mean()
    assert adaptive.seconds < 1.5 * oracle(tuple(half(workers, 100)), 160, change)


def test_64_workers_in_three_classes():
    """Figure 12: clusters come to be pure, and weights to follow the classes."""
    slowdown = [100] * 20 + [5] * 20 + [1] * 24
    run = drive(BlockingRate(), slowdown, 80, service=0.01, window=40_000, most=4)
    settled = [move.detail["clusters"] for moves in run.moves[-60:] for move in moves]
    assert len(settled) > 5
    pure = [len({(number, slowdown[int(w)]) for w, number in c.items()}) == len(set(c.values())) for c in settled]
    assert all(pure)
    slow, medium, fast = np.split(run.weights[-20:].mean(axis=0), [20, 40])
    assert slow.mean() < 1 < 3 < medium.mean() < 12 < 30 < fast.mean()


@pytest.mark.parametrize(
    ("case", "least"),
    [("3 equal, one 5x faster", 0.9), ("2 equal, one 2x faster", 0.95), ("8 equal, four 4x faster", 0.7)],
)
def test_lb_adaptive_notices_faster_workers_and_lb_static_does_not(case, least):
    before, after, _ = UPWARD[case]
    profile = [(0, before), (30, after)]
    assert late_share(LbAdaptive(), profile) > least > late_share(LbStatic(), profile)


def test_clusters_of_lb_adaptive_are_pure():
    """Figure 12: exploring takes off what slow connections without weight are known by, yet they stay apart."""
    slowdown = half(32, 100)
    run = keep_up(LbAdaptive(), [(0, slowdown)])
    found = [move.detail["clusters"] for moves in run.moves[-40:] for move in moves]
    assert len(found) > 10
    assert all(len({(number, slowdown[int(w)]) for w, number in c.items()}) == len(set(c.values())) for c in found)


@pytest.mark.parametrize(("workers", "factor", "least"), [(2, 10, 4), (8, 10, 4), (8, 100, 40)])
def test_round_robin_stays_bad(workers, factor, least):
    """Figure 10, left: without balancing, half the workers slow by a factor make everybody about as slow."""
    assert ratio(RoundRobin(), half(workers, factor), work_s=10 if factor == 10 else 2) > least


def test_same_input_same_trace():
    one, other = (drive(BlockingRate(), half(8, 10), 20) for _ in range(2))
    assert one.moves == other.moves
