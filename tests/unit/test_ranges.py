"""Range partitioning: which unit a key falls on, for every type that has an order, and how the unit travels."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import ProtocolError
from evenflow.operators.hosted import KEY_AND_UNIT, units_of, values_of
from evenflow.runtime.feeder.hashing import hashes, with_hashes
from evenflow.runtime.feeder.keyed.ranges import Ranges
from evenflow.state.checkpoint.replay import replay
from evenflow.state.checkpoint.segments import SegmentWriter
from tests.support.state_memory import Memory

PARTITION = pa.array([3] * 5, pa.int32())


def at(year):
    return datetime(year, 1, 1, tzinfo=UTC)


def found(bounds, values, kind=None):
    """The unit of each value."""
    bounds = pa.array(bounds, kind)
    return Ranges(bounds, 0, 100).of(pa.array(values, kind or bounds.type)).tolist()


@pytest.mark.parametrize(
    ("bounds", "values"),
    [
        ([10, 20], [-5, 10, 25]),
        ([0.5, 2.0], [-inf, 0.5, inf]),
        (["b", "ç"], ["a", "bb", "ü"]),
        ([b"\x01", b"\xf0"], [b"", b"\x01\x00", b"\xff"]),
        ([Decimal("0.10"), Decimal("0.20")], [Decimal("0.09"), Decimal("0.19"), Decimal("0.20")]),
        ([date(2020, 1, 1), date(2021, 1, 1)], [date(1950, 1, 1), date(2020, 1, 1), date(2022, 1, 1)]),
        ([at(2020), at(2021)], [at(2019), at(2020), at(2022)]),
        ([timedelta(1), timedelta(2)], [timedelta(0), timedelta(1), timedelta(5)]),
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_every_type_that_has_an_order(bounds, values):
    assert found(bounds, values) == [0, 1, 2]


def test_booleans_nan_and_signed_zeros():
    assert found([True], [False, True]) == [0, 1]
    assert found([0.0, 1.0], [nan, -0.0, 0.0, -1.0]) == [2, 1, 1, 0]
    assert found([], ["a", "b"], pa.string()) == [0, 0]


def test_text_of_another_width_or_another_time_zone():
    ranges = Ranges(pa.array(["b"]), 0, 3)
    assert ranges.of(pa.array(["a", "b"], pa.large_string())).tolist() == [0, 1]
    ranges = Ranges(pa.array([at(2020)]).cast(pa.timestamp("us", "Europe/Paris")), 0, 3)
    assert ranges.of(pa.array([0, 2**60]).cast(pa.timestamp("us", "UTC"))).tolist() == [0, 1]


@given(st.lists(st.integers(-50, 50), unique=True, max_size=40), st.lists(st.integers(-60, 60), max_size=60))
def test_units_count_the_bounds_that_are_not_above(bounds, values):
    bounds = sorted(bounds)
    assert found(bounds, values, pa.int64()) == np.searchsorted(bounds, values, side="right").tolist()


def test_the_unit_travels_beside_the_hash_through_slices_and_choices():
    keys = pa.array(["a", None, "k", "z", "k"])
    given_rows = pa.record_batch(
        [pa.array(range(5)), keys, pa.array([7, None, 8, 9, 8]), PARTITION],
        names=["c0", "c1", "c2", "c3"],
    )
    ranges = Ranges(pa.array(["b", "m"]), 1, 11)
    rows = with_hashes(given_rows, ["id", "key", "hash"], None, ranges=ranges)
    column = rows.column(2)
    assert rows.schema.names == ["id", "key", "hash"]
    assert units_of(column, 11).tolist() == [0, 10, 1, 2, 1]
    assert values_of(column).tolist() == [7, 0, 8, 9, 8]
    for some in (
        rows.slice(1, 3),
        rows.take(pa.array([1, 2, 3])),
        rows.filter(pa.array([False, True, True, True, False])),
    ):
        sent = pa.ipc.read_record_batch(pa.py_buffer(some.serialize()), some.schema)
        assert units_of(sent.column(2), 11).tolist() == [10, 1, 2]
        assert values_of(sent.column(2)).tolist() == [0, 8, 9]


def test_a_key_that_feeders_hash_and_a_column_that_was_added_for_its_order():
    numbers = pa.array([5, 50, None], pa.int64())
    given_rows = pa.record_batch(
        [numbers, pa.array([b"y", b"x", None]), pa.array([0] * 3, pa.int32())], names=["a", "b", "c"]
    )
    rows = with_hashes(given_rows, ["n", "hash"], 0, ranges=Ranges(pa.array([b"y"]), 1, 4))
    assert rows.column(0) == numbers
    assert units_of(rows.column(1), 4).tolist() == [1, 0, 3]
    assert values_of(rows.column(1)).tolist() == hashes(numbers).fill_null(0).to_pylist()


def test_rows_in_ranges_are_found_in_logs():
    given_rows = pa.record_batch([pa.array([5, 50, None, 9]), PARTITION.slice(0, 4)], names=["a", "b"])
    rows = with_hashes(given_rows, ["n", "hash"], 0, ranges=Ranges(pa.array([8, 10]), 0, 4))
    writer, store = SegmentWriter(rows.schema), Memory()
    writer.rows(memoryview(rows.serialize()))
    store.put("log/0.0", writer.finish())
    for unit, values in enumerate([[5], [9], [50], [None]]):
        (batch,) = replay(store, [["log/0.0"]], np.arange(4) == unit, units_of)
        assert batch.column(0).to_pylist() == values


@pytest.mark.parametrize("unit", [-1, 4])
def test_units_that_there_are_not_are_refused(unit):
    column = pa.StructArray.from_arrays([pa.array([1]), pa.array([unit], pa.int32())], fields=list(KEY_AND_UNIT))
    with pytest.raises(ProtocolError, match=f"units from {unit} to {unit}, and there are 4"):
        units_of(column, 4)
