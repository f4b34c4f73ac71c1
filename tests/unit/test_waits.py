"""How long rows take at workers, as feeders report it."""

import pytest

from evenflow.control.moves.waits import Waits
from evenflow.model.latency import Latencies, bucket_of

ONE, OTHER = 21, 22


def took(**seconds):
    """Rows by seconds that they took: s3 = 5 are five rows of 3 s."""
    return Latencies({bucket_of(float(name[1:])): count for name, count in seconds.items()}, 1.0)


def test_the_median_of_the_last_report_counts():
    waits = Waits()
    assert waits.median_s(4) == 0.0
    waits.add(ONE, 4, took(s3=5, s60=4))
    assert waits.median_s(4) == pytest.approx(3.0, rel=0.1), "rows that wait for the disk do not count"
    waits.add(ONE, 4, Latencies())
    assert waits.median_s(4) == pytest.approx(3.0, rel=0.1), "no rows, no news"
    waits.add(ONE, 4, took(s1=1))
    assert waits.median_s(4) == pytest.approx(1.0, rel=0.1)
    waits.worker_left(4)
    assert waits.median_s(4) == 0.0


def test_no_feeder_outweighs_the_others_by_reporting_last():
    waits = Waits()
    waits.add(ONE, 4, took(s3=50))
    waits.add(OTHER, 4, took(s1=2))
    assert waits.median_s(4) == pytest.approx(3.0, rel=0.1)


def test_a_feeder_that_has_left_does_not_count():
    """The next micro-batch does not wait because the last one had much in its queues."""
    waits = Waits()
    waits.add(ONE, 4, took(s5=50))
    waits.add(OTHER, 4, took(s1=2))
    waits.feeder_left(ONE)
    assert waits.median_s(4) == pytest.approx(1.0, rel=0.1)
    waits.feeder_left(OTHER)
    assert waits.median_s(4) == 0.0
