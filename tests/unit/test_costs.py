"""What feeders report of workers: the cost of a row, and how long rows take."""

import pytest

from evenflow.control.costs import Costs
from evenflow.model.latency import Latencies, bucket_of
from evenflow.model.messages import ConnectionCounts


def took(**seconds):
    """Rows by seconds that they took: s3 = 5 are five rows of 3 s."""
    rows = {bucket_of(float(name[1:])): count for name, count in seconds.items()}
    return ConnectionCounts(latencies=Latencies(rows, 1.0))


def test_how_long_rows_take_is_their_median_as_last_reported():
    costs = Costs()
    assert costs.wait_s(4) == 0.0
    costs.add(4, took(s3=5, s60=4))
    assert costs.wait_s(4) == pytest.approx(3.0, rel=0.1), "rows that wait for the disk do not count"
    costs.add(4, ConnectionCounts())
    assert costs.wait_s(4) == pytest.approx(3.0, rel=0.1), "no rows, no news"
    costs.add(4, took(s1=1))
    assert costs.wait_s(4) == pytest.approx(1.0, rel=0.1)
    costs.forget(4)
    assert costs.wait_s(4) == 0.0
