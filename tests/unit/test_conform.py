"""What a function may return for a declared schema, and what it is told otherwise."""

import datetime as dt
import decimal
import re

import pandas as pd
import pyarrow as pa
import pytest

from evenflow.errors import FunctionError
from evenflow.operators.conform import conform, refit
from evenflow.operators.map import MapOperator

TWO = pa.schema([("a", pa.int64()), ("b", pa.string())])
BERLIN = pa.timestamp("us", "Europe/Berlin")
POINT = pa.struct([("x", pa.int64()), ("y", pa.float64())])
DAY = dt.datetime(2020, 1, 1)  # noqa: DTZ001 - a clock's reading, on purpose


def declared(kind, nullable=True):
    return pa.schema([pa.field("a", kind, nullable)])


def batch(values, kind=None):
    column = values if isinstance(values, pa.Array) else pa.array(values, kind)
    return pa.RecordBatch.from_arrays([column], names=["a"])


def encoded(values):
    return pa.array(values).dictionary_encode()


def test_what_fits_is_passed_on_untouched():
    given = pa.RecordBatch.from_pydict({"a": [1], "b": ["x"]}, schema=TWO)
    assert conform(given, TWO) is given


def test_columns_are_matched_by_name():
    given = pa.RecordBatch.from_pydict({"b": ["x", None], "a": [1, 2]})
    assert conform(given, TWO).to_pydict() == {"a": [1, 2], "b": ["x", None]}
    assert conform(given, TWO).schema == TWO


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1]}, "returned columns ['a'], the schema declares ['a', 'b']; missing: ['b']"),
        ({"a": [1], "b": ["x"], "c": [1]}, "the schema declares ['a', 'b']; not declared: ['c']"),
        ({"A": [1], "b": ["x"]}, "the schema declares ['a', 'b']; missing: ['a']; not declared: ['A']"),
        ({}, "returned columns [], the schema declares ['a', 'b']; missing: ['a', 'b']"),
    ],
)
def test_wrong_columns(columns, message):
    with pytest.raises(FunctionError, match=re.escape(message)):
        conform(pa.RecordBatch.from_pydict(columns), TWO)


def test_one_name_twice():
    given = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(FunctionError, match=re.escape("returned columns ['a', 'a'], the schema declares ['a']")):
        conform(given, declared(pa.int64()))


@pytest.mark.parametrize("result", [None, 3, [], {"a": [1]}, pa.array([1]), iter(()), pd.DataFrame({"a": [1]})])
def test_not_a_batch(result):
    with pytest.raises(FunctionError, match=rf"the function returned {type(result).__name__}, not a pyarrow"):
        conform(result, TWO)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (batch([1, None], pa.int32()), pa.int64()),
        (batch([1, 2], pa.int64()), pa.int32()),
        (batch([1], pa.uint8()), pa.float64()),
        (batch([1.5], pa.float32()), pa.float64()),
        (batch([None, None]), pa.string()),
        (batch([None]), POINT),
        (batch(["x"], pa.large_string()), pa.string()),
        (batch(["x"], pa.string()), pa.large_string()),
        (batch(["x"], pa.string_view()), pa.string()),
        (batch([b"xy"], pa.binary(2)), pa.binary()),
        (batch([DAY], pa.timestamp("s")), pa.timestamp("us")),
        (batch([decimal.Decimal("1.20")]), pa.decimal128(10, 2)),
        (batch([dt.timedelta(seconds=1)], pa.duration("s")), pa.duration("us")),
        (batch(encoded(["x", "y", None, "x"])), pa.string()),
        (batch(encoded([1, 2, 1])), pa.int64()),
        (batch([[1], None, []], pa.list_(pa.int32())), pa.list_(pa.field("element", pa.int64()))),
        (batch([[1, 2]], pa.list_(pa.int64(), 2)), pa.list_(pa.int64())),
        (batch(pa.ListArray.from_arrays([0, 2], encoded(["x", "x"]))), pa.list_(pa.string())),
        (batch([[("k", 1)]], pa.map_(pa.string(), pa.int32())), pa.map_(pa.string(), pa.int64())),
        (batch([{"x": 1, "y": 2}], pa.struct([("x", pa.int8()), ("y", pa.int8())])), POINT),
        (batch([[{"x": 1, "y": 2}]], pa.list_(pa.struct([("x", pa.int8()), ("y", pa.int8())]))), pa.list_(POINT)),
    ],
    ids=lambda value: str(value if isinstance(value, pa.DataType) else value.schema.types[0])[:40],
)
def test_casts_that_change_no_meaning(given, kind):
    fitted = conform(given, declared(kind))
    assert fitted.schema == declared(kind)
    assert fitted.to_pydict() == given.to_pydict()
    fitted.validate(full=True)


def test_zones_may_change_instants_may_not():
    given = batch([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    assert conform(given, declared(BERLIN)).column(0).cast(pa.int64()) == given.column(0).cast(pa.int64())


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (batch([1.0]), pa.int64()),
        (batch([True]), pa.int64()),
        (batch([1]), pa.bool_()),
        (batch([1]), pa.string()),
        (batch(["1"]), pa.int64()),
        (batch([1]), pa.timestamp("us")),
        (batch([1]), pa.decimal128(10, 2)),
        (batch(["x"]), pa.binary()),
        (batch(encoded(["x"])), pa.int64()),
        (batch([DAY], pa.timestamp("us")), BERLIN),  # which zone is it in? not ours to guess
        (batch([DAY], BERLIN), pa.timestamp("us")),
        (batch([["x"]]), pa.list_(pa.int64())),
        (batch([[1]]), pa.int64()),
        (batch([1]), pa.list_(pa.int64())),
        (batch([{"y": 1.0, "x": 1}]), POINT),
        (batch([{"x": 1}]), POINT),
        (batch([[("k", "v")]], pa.map_(pa.string(), pa.string())), pa.map_(pa.string(), pa.int64())),
    ],
    ids=lambda value: str(value if isinstance(value, pa.DataType) else value.schema.types[0])[:40],
)
def test_wrong_types(given, kind):
    message = f"column 'a' is {given.schema.types[0]}, the schema declares {kind}"
    with pytest.raises(FunctionError, match=re.escape(message)):
        conform(given, declared(kind))


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (batch([2**40]), pa.int32(), "column 'a' does not fit int32: Integer value 1099511627776 not in range"),
        (batch([-1]), pa.uint8(), "column 'a' does not fit uint8"),
        (batch([2**53 + 1]), pa.float64(), "column 'a' does not fit double"),
        (batch([1], pa.timestamp("ns")), pa.timestamp("us"), "would lose data"),
        (batch([decimal.Decimal("1.234")]), pa.decimal128(10, 2), "would cause data loss"),
        (batch(pa.DictionaryArray.from_arrays([0], pa.array([[1]]))), pa.list_(pa.int64()), "column 'a' does not fit"),
    ],
    ids=lambda value: None if isinstance(value, pa.RecordBatch) else str(value),
)
def test_values_that_do_not_fit(given, kind, message):
    with pytest.raises(FunctionError, match=re.escape(message)):
        conform(given, declared(kind))


NOT_NULL = declared(pa.int64(), nullable=False)


@pytest.mark.parametrize(
    "given",
    [
        batch([1, None, None]),
        batch([1, None, None], pa.int32()),
        pa.RecordBatch.from_arrays([pa.array([1, None, None])], schema=NOT_NULL),  # Arrow itself does not check
        pa.table({"a": pa.chunked_array([[1], [None, None]])}),
    ],
)
def test_nulls_where_there_must_be_none(given):
    with pytest.raises(FunctionError, match="column 'a' has 2 nulls, the schema declares it not null"):
        conform(given, NOT_NULL)


def test_no_nulls_no_complaint():
    assert conform(batch([1]), NOT_NULL).schema == NOT_NULL


def test_nulls_inside_a_struct():
    kind = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    with pytest.raises(FunctionError, match="column 'a' does not fit struct<x: int64 not null>"):
        conform(batch([{"x": None}], pa.struct([("x", pa.int64())])), declared(kind))


@pytest.mark.parametrize(
    ("table", "values"),
    [
        (pa.table({"a": pa.chunked_array([["x"], ["y", "x"]])}), ["x", "y", "x"]),
        (pa.table({"a": pa.chunked_array([], pa.string())}), []),
        (pa.table({"a": pa.chunked_array([encoded(["x"]), encoded(["y", None])])}), ["x", "y", None]),
    ],
)
def test_tables_are_welcome(table, values):
    fitted = conform(table, declared(pa.string()))
    assert isinstance(fitted, pa.RecordBatch)
    assert fitted.to_pydict() == {"a": values}


@pytest.mark.parametrize("form", ["arrow", "pandas"])
def test_the_operator(form):
    operator = MapOperator(lambda rows: rows, declared(pa.int64()), form)
    assert operator.process(batch([1, 2], pa.int32())) == batch([1, 2])


@pytest.mark.parametrize("form", ["arrow", "pandas"])
def test_the_operator_refuses(form):
    operator = MapOperator(lambda _rows: "nothing", declared(pa.int64()), form)
    with pytest.raises(FunctionError, match=r"the function returned str, not a (pyarrow|pandas)"):
        operator.process(batch([1]))


def test_rows_of_an_earlier_run_get_the_columns_of_today():
    rows = pa.RecordBatch.from_pydict({"a": [1, 2], "gone": ["x", "y"], "b": [0.5, None]})
    schema = pa.schema([("b", pa.float64()), ("new", pa.string()), ("a", pa.int64())])
    assert refit(rows, schema).to_pydict() == {"b": [0.5, None], "new": [None, None], "a": [1, 2]}
    with pytest.raises(FunctionError, match="have column 'b' as double, and it is string now: cast it to what it was"):
        refit(rows, pa.schema([("b", pa.string())]))


@pytest.mark.parametrize(
    ("names", "now", "why"),
    [
        (["price"], ["amount"], "lack column 'amount', which the operator reads: leave out what is new"),
        (["a", "a"], ["a", "a", "new"], "'a' is there more than once"),
        (["Price"], ["price"], "column 'Price' of an earlier run of the query is 'price' now"),
    ],
)
def test_columns_that_cannot_be_told_are_refused(names, now, why):
    rows = pa.RecordBatch.from_arrays([pa.array([1])] * len(names), names=names)
    with pytest.raises(FunctionError, match=why):
        refit(rows, pa.schema([(name, pa.int64()) for name in now]), read=["amount"])


def test_columns_of_one_name_are_told_apart_by_their_places():
    rows = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert refit(rows, pa.schema([("a", pa.int64()), ("a", pa.float64())])).columns[1].to_pylist() == [2.0]
