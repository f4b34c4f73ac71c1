"""Operators whose source has been read whole while their rows still wait: placements see the load until it is gone."""

import pytest

from evenflow.control.graphs.statistics import FRESH_S, PERIODS, GraphStatistics
from evenflow.policy import placement_named
from tests.support.graph_reports import GraphRig, progress, report, shape

CHAIN = shape(((-1,), 1), ((0,), 1))
APART = shape(((-1,), 1), ((-2,), 1), ((-2,), 1), sources=("a", "b"))
"""One operator reads source a, two read source b."""


def periods(statistics, told, arrived, waiting=None, start=0, count=PERIODS):
    """Some periods of a second that are alike."""
    for second in range(start, start + count):
        statistics.begin(float(second))
        for worker, each in told.items():
            statistics.report(worker, each)
        statistics.progress(second + 0.9, 21, progress(arrived, waiting=waiting))
        assert statistics.close(second + 1.0, {})


def means(statistics):
    return statistics.loads().mean(axis=1).tolist()


def test_what_is_worked_off_is_load():
    """1000 rows a second are taken, each 500 us, and half of them go on, though none have arrived for long."""
    statistics, told = GraphStatistics(CHAIN), {0: report({0: (1000, 500, 500_000)}), 1: report({1: (500, 0, 50_000)})}
    periods(statistics, told, {0: 1000})
    arriving = means(statistics)
    assert arriving == pytest.approx([0.5, 0.05])
    periods(statistics, told, {}, start=PERIODS)
    assert means(statistics) == pytest.approx(arriving)
    assert statistics.offered().outputs.mean(axis=1)[0] == pytest.approx(500)


def test_what_waits_is_load_though_nothing_is_taken():
    """Its worker is in one long call: it takes nothing and says nothing, and the feeder knows what waits."""
    graph = shape(((-1,), 1), ((0,), 1), ((-2,), 1), sources=("a", "b"))
    statistics, beside = GraphStatistics(graph), report({2: (100, 0, 1000)})
    periods(statistics, {0: report({0: (10, 5, 10_000_000), 1: (5, 0, 5_000)}), 1: beside}, {0: 10, 1: 100}, count=1)
    periods(statistics, {1: beside}, {1: 100}, {0: 20}, start=1)
    assert means(statistics) == pytest.approx([20 / PERIODS, 10 / PERIODS * 0.001, 0.001]), "half of it goes on"
    periods(statistics, {1: beside}, {1: 100}, start=PERIODS + 1, count=1)
    assert means(statistics)[:2] == [0.0, 0.0], "it is worked off"


@pytest.mark.parametrize("how", ["left", "silent", "unknown"])
def test_only_what_feeders_wait_for_now_counts(how):
    statistics, told = GraphStatistics(APART), {1: report({1: (100, 0, 1000)})}
    periods(statistics, {0: report({0: (10, 0, 100_000)}), **told}, {0: 10, 1: 100}, count=1)
    periods(statistics, told, {1: 100}, {7: 50} if how == "unknown" else {0: 50}, start=1)
    assert (means(statistics)[0] > 0) == (how != "unknown")
    if how == "left":
        statistics.left(21)
    statistics.begin(PERIODS + 1.0)
    statistics.report(1, told[1])
    assert statistics.close(PERIODS + (0.9 + FRESH_S if how == "silent" else 1.5), {})
    assert means(statistics)[0] == 0.0


def test_what_arrives_and_is_taken_counts_once():
    """Rows that come in bursts are taken in between; and those of an overloaded operator wait, more and more."""
    statistics, told = GraphStatistics(CHAIN), {0: report({0: (100, 0, 50_000)})}
    for second in range(0, PERIODS, 5):
        periods(statistics, told, {0: 500}, start=second, count=1)
        periods(statistics, told, {}, start=second + 1, count=4)
    assert means(statistics)[0] == pytest.approx(0.05)
    periods(statistics, told, {0: 300}, {0: 10}, start=PERIODS)
    assert means(statistics)[0] == pytest.approx(0.15)


@pytest.mark.parametrize("waits", [True, False])
def test_nobody_is_sent_to_a_worker_that_works_off_what_waits(waits):
    """Source a has been read whole. As long as its operator is busy, those of b stay together, with 0.8 in all."""
    rig = GraphRig(APART, placement_named("potential"), (0, 1, 1))
    beside = {1: report({1: (1000, 1000, 400_000), 2: (1000, 1000, 400_000)})}
    busy = {0: report({0: (800, 800, 800_000)}), **beside}
    for _ in range(PERIODS):
        rig.period(busy, {0: 800, 1: 1000})
    assert rig.settle() == []
    for _ in range(2 * PERIODS):
        rig.period(busy if waits else {0: report({}), **beside}, {1: 1000}, {0: 50} if waits else {})
    assert bool(rig.settle()) != waits
