"""What a worker counts of a graph between two reports."""

import numpy as np

from evenflow.graph.nodes.filters import Filters
from evenflow.runtime.worker.graphs.counts import ORDERS_S, FlowCounts


def units(*numbers):
    return np.array(numbers, np.int32)


def told(counts):
    report = counts.news("graph", 1.0, 0, 1.0, {}, {}, {})
    rows = zip(
        report.units, report.rows_in, report.rows_out, report.micros, report.calls, report.bytes_out, strict=True
    )
    return [tuple(map(int, row)) for row in rows]


def test_the_first_call_of_an_operator_does_not_count():
    counts = FlowCounts(4, 0.0)
    counts.add(units(2, 2), 2, 16, 3.0)
    assert not counts.any
    counts.add(units(2, 2, 2), 1, 8, 0.5)
    assert told(counts) == [(2, 3, 1, 500_000, 1, 8)]
    counts.add(units(2), 1, 8, 0.1)
    assert told(counts) == [(2, 1, 1, 100_000, 1, 8)]


def test_units_share_what_a_call_cost():
    counts = FlowCounts(4, 0.0)
    counts.add(units(0, 1, 1, 1), 8, 40, 0.4)
    assert told(counts) == [(0, 1, 2, 100_000, 1, 10), (1, 3, 6, 300_000, 1, 30)]
    counts.add(units(1), 1, 8, 0.1)
    assert told(counts) == [(1, 1, 1, 100_000, 1, 8)]


def test_an_order_of_filters_is_told_once():
    """And not more often than once a second, however often it changes."""
    counts, filters, clock = FlowCounts(1, 0.0), Filters([Named("a"), Named("b")]), [0.0]

    def orders():
        counts.add(units(0), 1, 8, 0.1)
        clock[0] += ORDERS_S / 2
        return [each.filters for each in counts.news("graph", clock[0], 0, 1.0, {}, {}, {"f": filters}).orders]

    assert [orders() for _ in range(4)] == [[], [("a", "b")], [], []]
    filters._measured[1].add(10, 0, 1e-6)
    filters._measured[0].add(10, 10, 1.0)
    assert [orders() for _ in range(4)] == [[], [("b", "a")], [], []]


class Named:
    def __init__(self, name):
        self.name = name
