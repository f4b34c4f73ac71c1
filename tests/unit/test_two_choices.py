"""Partial key grouping in a feeder: two workers a key, the less loaded one gets the row."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.runtime.feeder.keyed.skew import SkewBuffer
from evenflow.runtime.feeder.keyed.two_choices import TwoChoices


def pairs(workers, keys):
    """The two workers of each key: what a fresh feeder chooses first and second for it."""
    return {key: TwoChoices(workers).of(np.array([key, key])).tolist() for key in keys}


@given(
    workers=st.sets(st.integers(0, 200), min_size=1, max_size=9),
    keys=st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), max_size=60),
    cut=st.integers(0, 60),
)
def test_each_row_goes_to_the_less_loaded_of_two(workers, keys, cut):
    two = pairs(workers, keys)
    given, expected = dict.fromkeys(workers, 0), []
    for key in keys:
        first, second = two[key]
        assert {first, second} <= workers
        assert (first != second) == (len(workers) > 1)
        expected.append(first if given[first] <= given[second] else second)
        given[expected[-1]] += 1
    choices = TwoChoices(workers)
    parts = [choices.of(np.array(part, np.int64)) for part in (keys[:cut], keys[cut:])]
    assert np.concatenate(parts).tolist() == expected


@pytest.mark.parametrize("workers", [2, 5, 64])
def test_all_workers_are_named_about_as_often(workers):
    two = pairs(range(workers), range(200 * workers))
    for place in (0, 1):
        counts = np.bincount([pair[place] for pair in two.values()], minlength=workers)
        assert counts.min() > 130
        assert counts.max() < 280


def test_skew_alone_does_not_unbalance():
    """One key with a third of the rows, on five workers: key grouping would give somebody 1.67 times the mean."""
    keys = np.where(np.arange(30_000) % 3, np.random.default_rng(1).integers(0, 4096, 30_000), 7)
    rows = np.bincount(TwoChoices(range(5)).of(keys), minlength=5)
    assert rows.max() - rows.min() < 150  # of 6,000


def test_rows_wait_for_the_worker_that_was_chosen():
    skew = SkewBuffer(np.zeros(5, np.int32), by_content=False, choices=TwoChoices([3, 4]))
    ids, keys = pa.array(range(6), pa.int64()), pa.array([1, 1, None, 1, 1, None], pa.int64())
    skew.insert(pa.RecordBatch.from_arrays([ids, keys], names=["id", "key"]), ordered=True)
    assert (skew.waiting(3), skew.waiting(4), skew.waiting(0)) == (3, 3, 0)
    pieces = [skew.retrieve(worker, 100) for worker in (3, 4)]
    assert sorted(place for mine in pieces for piece in mine for place in piece.places.tolist()) == list(range(6))
    assert (skew.rows, skew.bytes) == (0, 0)
