"""The benchmark itself: that it counts right, and would notice a wrong result."""

from dataclasses import replace

import numpy as np

from evenflow.cli.demo.graph_run import data
from evenflow_lab.bench import keyed, ordered, placement

SMALL = keyed.KeyedSetting(workers=2, keys=200, rows=40_000, units=32, zipf=1.0)


def test_the_reference_is_right():
    keys, values = keyed.draw(replace(SMALL, rows=2_000, keys=7))
    means = keyed.rolling_means(keys, values, 5)
    for place in range(0, 2_000, 97):
        mine = values[: place + 1][keys[: place + 1] == keys[place]][-5:]
        assert np.isclose(means[place], mine.mean())


def test_a_run_is_checked(spark):
    with keyed.data(spark, SMALL) as made:
        assert made.loads.sum() == SMALL.rows
        outcome = keyed.run(spark, SMALL, "flux-auto", made, (1e6, 5e5))
        assert outcome.correct
        assert outcome.of_shuffle == 2 * outcome.of_identity
        assert not keyed.run(spark, SMALL, "hash", replace(made, check=made.check * 1.001), None).correct


def test_an_ordered_run_is_in_order(spark):
    setting = ordered.OrderedSetting(workers=2, slow=1, factor=2.0, cost_us=50.0, seconds=1.0)
    outcome = ordered.run(spark, setting, "credits")
    assert outcome.in_order
    assert outcome.rows_in > 1_000


def test_an_emulated_run_knows_its_bound(spark):
    setting = replace(SMALL, cost_us=50.0, slow=1, factor=2.0)
    with keyed.data(spark, setting) as made:
        share = made.loads.max() / made.loads.sum()
        assert setting.bound(made.loads, 0.0) == min(30_000, 20_000 / share)
        outcome = keyed.run(spark, setting, "flux-auto", made, None)
    assert outcome.correct
    assert 0 < outcome.of_bound < 1.2
    assert outcome.of_identity is None


def test_a_placement_is_measured(spark):
    setting = placement.PlacementSetting(workers=2, operators=6, seconds=8.0, load=0.3, period=0.5)
    drawn = setting.drawn()
    with data(drawn) as paths:
        outcome = placement.run(spark, setting, "greedy", drawn, paths)
    assert outcome.results > 0
    assert 0 < outcome.latency_ms["p50"] <= outcome.latency_ms["p99"]
    assert outcome.rows_per_s > 0
    assert outcome.total_pe > 0
