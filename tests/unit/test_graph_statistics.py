"""The statistics of a graph: reports in, costs, selectivities, loads and speeds out."""

import numpy as np
import pytest

from evenflow.control.graphs.statistics import ALIKE, NEWS, PERIODS, GraphStatistics
from evenflow.model.latency import middle_ms
from evenflow.model.messages import SentCounts
from tests.support.graph_reports import progress, report, shape

CHAIN = shape(((-1,), 1), ((0,), 1))


def closed(statistics, told, arrived, at=(0.0, 1.0), coefficients=None):
    """One period with these reports."""
    statistics.begin(at[0])
    for worker, each in told.items():
        statistics.report(worker, each)
    statistics.progress(0.0, 21, progress(arrived))
    assert statistics.close(at[1], coefficients or {})
    return statistics


def test_nothing_is_known_at_first():
    statistics = GraphStatistics(CHAIN)
    assert not statistics.known
    assert np.isnan(statistics.row_s).all()
    assert statistics.latencies.summary is None


def test_costs_and_sizes_of_rows():
    told = {0: report({0: (100, 50, 20_000)}), 1: report({1: (50, 10, 5_000)})}
    statistics = closed(GraphStatistics(CHAIN), told, {0: 100})
    assert statistics.known
    assert statistics.row_s.tolist() == pytest.approx([200e-6, 100e-6])
    assert statistics.call_rows.tolist() == [10, 5]
    assert statistics.row_bytes.tolist() == [8, 8]
    assert statistics.selectivities.tolist() == pytest.approx([0.5, 0.2])


def test_reports_of_a_period_add_up_over_workers_and_units():
    graph = shape(((-1,), 2))
    told = {0: report({0: (100, 100, 10_000)}), 1: report({1: (300, 100, 90_000)})}
    statistics = closed(GraphStatistics(graph), told, {0: 400})
    assert statistics.row_s.tolist() == pytest.approx([250e-6])
    assert statistics.selectivities.tolist() == [0.5]
    assert statistics.unit_shares()[:2].tolist() == [0.25, 0.75]


def test_rows_a_second_of_each_worker_are_those_of_its_operators():
    told = {0: report({0: (100, 50, 20_000), 1: (50, 10, 5_000)}), 1: report({1: (30, 10, 5_000)})}
    assert closed(GraphStatistics(CHAIN), told, {0: 100}, at=(3.0, 5.0)).taken == {0: 75.0, 1: 15.0}


def test_a_period_of_no_time_goes_on():
    """A report and the end of its period may have the same time, by a clock of milliseconds or a virtual one."""
    told = report({0: (100, 50, 20_000)}, sent={1: SentCounts(rows=50, bytes=400)}, queued=9)
    statistics = closed(GraphStatistics(CHAIN), {0: told}, {0: 100})
    loads, figures = statistics.loads().tolist(), (statistics.taken, statistics.link_use, statistics.queued)
    statistics.report(0, report({0: (200, 100, 40_000)}))
    statistics.progress(1.0, 21, progress({0: 200}))
    assert not statistics.close(1.0, {})
    assert statistics.loads().tolist() == loads
    assert (statistics.taken, statistics.link_use, statistics.queued) == figures
    assert statistics.close(3.0, {})
    assert statistics.taken == {0: 100.0}, "what was told then counts in the time that follows"
    assert [period.sources.tolist() for period in statistics.periods] == [[100.0], [100.0]]


def test_rows_that_wait_are_those_of_the_latest_period():
    told = {0: report({0: (100, 50, 20_000)}, queued=9), 1: report({1: (50, 10, 5_000)})}
    statistics = closed(GraphStatistics(CHAIN), told, {0: 100})
    assert statistics.queued == {0: 9}, "the other one does not know"
    assert closed(statistics, {1: report({1: (50, 10, 5_000)}, queued=2)}, {0: 100}).queued == {1: 2}


def test_time_on_a_slow_worker_counts_as_on_a_usual_one():
    told = {0: report({0: (100, 0, 60_000)})}
    assert closed(GraphStatistics(CHAIN), told, {0: 100}, coefficients={0: 3.0}).row_s[0] == pytest.approx(200e-6)


def test_new_measurements_count_for_a_part():
    statistics = GraphStatistics(CHAIN)
    closed(statistics, {0: report({0: (100, 100, 10_000)})}, {0: 100})
    closed(statistics, {0: report({0: (100, 0, 20_000)})}, {0: 100}, (1.0, 2.0))
    assert statistics.row_s[0] == pytest.approx((100 + NEWS * 100) * 1e-6)
    assert statistics.selectivities[0] == pytest.approx(1 - NEWS)
    assert np.isnan(statistics.row_s[1])


def test_selectivity_of_a_join_is_over_the_product_of_its_inputs():
    """Two sources with 100 and 50 rows a second, the first by way of a filter that lets 40 through."""
    graph = shape(((-1,), 1), ((0, -2), 1), sources=("a", "b"))
    told = {0: report({0: (100, 40, 1000), 1: (90, 200, 1000)})}
    statistics = closed(GraphStatistics(graph), told, {0: 100, 1: 50})
    assert statistics.selectivities.tolist() == pytest.approx([0.4, 200 / (40 * 50)])
    found = statistics.ideal()
    assert found.arrivals[:, 0].tolist() == pytest.approx([100, 90])
    assert found.outputs[:, 0].tolist() == pytest.approx([40, 200])


def test_selectivity_of_a_join_by_rows_is_over_the_sum_of_its_inputs():
    """A row meets as many partners, whatever the rate of the other side: twice the rows, twice the pairs."""
    graph = shape(((-1, -2), 1, {"by_rows": True}), sources=("a", "b"))
    statistics = closed(GraphStatistics(graph), {0: report({0: (150, 300, 1000)})}, {0: 100, 1: 50})
    assert statistics.selectivities.tolist() == pytest.approx([2.0])
    closed(statistics, {0: report({0: (300, 600, 1000)})}, {0: 200, 1: 100}, (1.0, 2.0))
    assert statistics.ideal().outputs[0].tolist() == pytest.approx([300, 600])


def test_a_period_in_which_a_join_has_few_rows_counts_little():
    """Rows that were held on one side make many pairs with the few that came: nothing follows for what comes later."""
    graph = shape(((-1, -2), 1), sources=("a", "b"))
    statistics = closed(GraphStatistics(graph), {0: report({0: (200, 100, 1000)})}, {0: 100, 1: 100})
    assert statistics.selectivities[0] == pytest.approx(0.01)
    closed(statistics, {0: report({0: (101, 100, 1000)})}, {0: 100, 1: 1}, (1.0, 2.0))
    assert statistics.selectivities[0] == pytest.approx(100 / (100 * (100 - NEWS * 99)))


def test_rates_of_a_join_that_rise_together():
    """Ten times as many rows on both sides give a hundred times as many pairs: the selectivity is the same."""
    statistics = GraphStatistics(shape(((-1, -2), 1), sources=("a", "b")))
    for second, rate in enumerate((10, 100, 10, 100)):
        told = {0: report({0: (2 * rate, rate * rate // 10, 1000)})}
        closed(statistics, told, {0: rate, 1: rate}, (float(second), second + 1.0))
    assert statistics.selectivities[0] == pytest.approx(0.1)


def test_a_join_without_rows_on_one_side_says_nothing():
    graph = shape(((-1, -2), 1), sources=("a", "b"))
    statistics = closed(GraphStatistics(graph), {0: report({0: (90, 0, 1000)})}, {0: 90})
    assert np.isnan(statistics.selectivities[0])
    assert statistics.ideal().outputs.tolist() == [[0.0]]


def test_loads_cascade_from_the_sources():
    """The first lets half through, so the second would get half of what arrives, whatever it got."""
    told = {0: report({0: (100, 50, 10_000), 1: (10, 10, 10_000)})}
    statistics = closed(GraphStatistics(CHAIN), told, {0: 1000})
    assert statistics.loads()[:, 0].tolist() == pytest.approx([1000 * 100e-6, 500 * 1000e-6])


def test_rates_are_by_second():
    statistics = closed(GraphStatistics(CHAIN), {0: report({0: (100, 50, 10_000)})}, {0: 100}, (5.0, 9.0))
    assert statistics.periods[0].sources.tolist() == [25.0]
    assert statistics.periods[0].unit_rows.tolist() == [25.0, 0.0, 0.0]


def test_a_period_without_rows_does_not_count():
    statistics = GraphStatistics(CHAIN)
    statistics.begin(0.0)
    assert not statistics.close(1.0, {})
    statistics.report(0, report({0: (0, 0, 0)}))
    assert not statistics.close(2.0, {})
    assert not statistics.periods


def test_a_period_begins_with_nothing():
    statistics = GraphStatistics(CHAIN)
    assert statistics.elapsed(7.0) == 0.0
    assert statistics.elapsed(9.0) == 2.0
    statistics.report(0, report({0: (100, 0, 100)}))
    statistics.progress(0.0, 21, progress({0: 100}))
    statistics.begin(10.0)
    assert not statistics.close(11.0, {})


def test_the_latest_periods_are_remembered():
    statistics = GraphStatistics(CHAIN)
    for number in range(PERIODS + 3):
        closed(statistics, {0: report({0: (10, 0, 10)})}, {0: number}, (number, number + 1.0))
    assert [period.sources[0] for period in statistics.periods] == list(range(3, PERIODS + 3))
    assert statistics.loads().shape == (2, PERIODS)


def test_speeds_are_against_the_usual_worker():
    statistics = GraphStatistics(CHAIN)
    for worker, micros in enumerate((100.0, 100.0, 100.0 * ALIKE, 500.0, 20.0)):
        statistics.report(worker, report({}, standard_us=micros))
    found = statistics.coefficients({}, range(6))
    assert found == {0: 1.0, 1: 1.0, 2: 1.0, 3: 5.0, 4: 0.2, 5: 1.0}
    assert statistics.coefficients({3: 2.0}, [3]) == {3: 2.0}
    assert GraphStatistics(CHAIN).coefficients({}, [0]) == {0: 1.0}


def test_what_was_measured_of_lost_workers_is_forgotten():
    statistics = GraphStatistics(CHAIN)
    ways = {"round_trips": {0: 0.001, 1: 0.002}, "bandwidths": {0: 1e6, 1: 2e6}}
    statistics.begin(0.0)
    for worker in range(3):
        statistics.report(worker, report({0: (10, 0, 10)}, standard_us=100.0, queued=7, **ways))
    statistics.set_workers([0, 1])
    assert statistics.standards.keys() == {0, 1}
    assert statistics.round_trips == {(0, 0): 0.001, (0, 1): 0.002, (1, 0): 0.001, (1, 1): 0.002}
    assert statistics.bandwidths.keys() == statistics.round_trips.keys()
    assert statistics.close(1.0, {})
    assert statistics.queued == {0: 7, 1: 7}
    assert statistics.taken == {0: 10.0, 1: 10.0}


def test_use_of_links():
    told = {0: report({0: (10, 10, 10)}, sent={1: SentCounts(rows=10, bytes=800)})}
    statistics = closed(GraphStatistics(CHAIN), told, {0: 10}, (0.0, 2.0))
    assert statistics.link_use == {(0, 1): (5.0, 400.0)}


def test_what_workers_do_for_others():
    statistics = GraphStatistics(CHAIN)
    statistics.worker_busy(0.0, 0, 10.0, 5.0)
    assert statistics.elsewhere == {}
    statistics.worker_busy(2.0, 0, 12.0, 6.0)
    assert statistics.elsewhere == {0: 0.5}
    statistics.worker_busy(3.0, 0, 12.0, 6.0)
    assert statistics.elsewhere[0] == pytest.approx(0.5 * (1 - NEWS))
    statistics.elsewhere[0] = 0.5
    statistics.worker_busy(3.5, 0, 12.25, None)  # nobody feeds the graph: all is for others
    assert statistics.elsewhere[0] == pytest.approx(0.5)
    statistics.worker_busy(4.0, 0, 0.5, 0.0)  # it has been started again
    assert statistics.elsewhere == {}


def test_latencies():
    statistics = GraphStatistics(CHAIN)
    statistics.progress(0.0, 21, progress({0: 1, 9: 5}, [(80, 90), (120, 10)]))
    found = statistics.latencies.summary
    assert (found.rows, found.mean, found.p50, found.p99) == (
        100,
        pytest.approx(1.0),
        middle_ms(80),
        middle_ms(120),
    )
