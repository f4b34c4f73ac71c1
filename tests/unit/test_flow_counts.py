"""What a worker counts of a graph between two reports."""

import numpy as np

from evenflow.runtime.worker.flow_counts import FlowCounts


def units(*numbers):
    return np.array(numbers, np.int32)


def told(counts):
    report = counts.news("graph", 1.0, 0, 1.0, {}, {})
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
