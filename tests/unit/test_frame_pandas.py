"""Record batches to pandas and back, as `mapInPandas` shows them."""

import datetime as dt
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evenflow.errors import FunctionError
from evenflow.operators.conform import conform
from evenflow.operators.pandas_frames import to_arrow, to_pandas

ZONE = "Europe/Berlin"
INSTANT = pa.timestamp("us", ZONE)
CLOCK = pa.timestamp("us")


def declared(kind):
    return pa.schema([("a", kind)])


def batch(values, kind=None):
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["a"])


def back(data, kind):
    """What becomes of a function's DataFrame under the schema `a kind`."""
    data = data if isinstance(data, pd.DataFrame) else pd.DataFrame({"a": data})
    return conform(to_arrow(data, declared(kind)), declared(kind)).column(0)


clock = dt.datetime.fromisoformat


def objects(*values):
    return pd.Series(values, dtype=object)


def utc(*texts):
    return [dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) for text in texts]


def naive(*texts):
    return [pd.Timestamp(text) for text in texts]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], pa.int64()),
        ([1, None], pa.int64()),
        ([None, None], pa.int32()),
        ([1.5, None], pa.float64()),
        ([True, None, False], pa.bool_()),
        (["x", None, ""], pa.string()),
        ([b"x", None], pa.binary()),
        ([dt.date(2020, 2, 29), None, dt.date(1, 1, 1)], pa.date32()),
        ([[1, 2], None, []], pa.list_(pa.int64())),
        ([{"x": 1}, None], pa.struct([("x", pa.int64())])),
        ([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        ([dt.timedelta(microseconds=1), None], pa.duration("us")),
        (utc("2020-01-01T00:00", "1700-01-01T00:00", "2262-01-01T00:00"), INSTANT),
        ([utc("2020-01-01T00:00", "9999-01-01T00:00"), None], pa.list_(INSTANT)),
        ([None, None], INSTANT),
        ([], INSTANT),
        (naive("2020-01-01 00:00", "1700-01-01"), CLOCK),
        ([], pa.string()),
    ],
    ids=lambda value: str(value)[:40],
)
def test_round_trip(values, kind):
    given = batch(values, kind)
    assert back(to_pandas(given), kind) == given.column(0)


def test_timestamps_show_the_sessions_clock():
    shown = to_pandas(batch(utc("2020-01-01T12:00", "2020-07-01T12:00"), INSTANT)).a
    assert shown.dt.tz is None
    assert list(shown) == naive("2020-01-01 13:00", "2020-07-01 14:00")


def test_timestamps_without_zone_stay():
    assert list(to_pandas(batch(naive("2020-01-01 12:00"), CLOCK)).a) == naive("2020-01-01 12:00")


@pytest.mark.parametrize(
    ("clock", "instant"),
    [
        ("2020-01-01 13:00", "2020-01-01T12:00"),
        ("2020-07-01 14:00", "2020-07-01T12:00"),
        ("2020-03-29 01:59", "2020-03-29T00:59"),
        ("2020-03-29 03:00", "2020-03-29T01:00"),
        ("2020-10-25 01:59", "2020-10-24T23:59"),
        ("2020-10-25 02:30", "2020-10-25T01:30"),  # exists twice: the second, as Spark has it
        ("2020-10-25 03:00", "2020-10-25T02:00"),
    ],
)
@pytest.mark.parametrize("as_object", [False, True])
def test_naive_timestamps_are_read_on_the_sessions_clock(clock, instant, as_object):
    column = pd.Series(naive(clock), dtype=object if as_object else "datetime64[us]")
    assert back(column, INSTANT) == batch(utc(instant), INSTANT).column(0)


def test_aware_timestamps_keep_their_instant():
    column = pd.to_datetime(pd.Series(["2020-01-01T00:00+05:00"]))
    assert back(column, INSTANT) == batch(utc("2019-12-31T19:00"), INSTANT).column(0)


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pd.Categorical(["x", None, "x"]), pa.string(), ["x", None, "x"]),
        (pd.Categorical([3, 1, 3]), pa.int64(), [3, 1, 3]),
        ([1.0, np.nan], pa.int64(), [1, None]),
        (pd.array([2**60 + 1, None], dtype="Int64"), pa.int64(), [2**60 + 1, None]),
        (pd.array([True, None], dtype="boolean"), pa.bool_(), [True, None]),
        (pd.array(["x", None], dtype="string"), pa.string(), ["x", None]),
        ([1, 2], pa.float64(), [1.0, 2.0]),
        ([1, 2], pa.int8(), [1, 2]),
        ([np.nan, np.nan], pa.string(), [None, None]),
        ([np.nan], INSTANT, [None]),
        ([], pa.list_(pa.int64()), []),
        ([[1], (2, 3), np.array([4])], pa.list_(pa.int64()), [[1], [2, 3], [4]]),
        (naive("2020-01-01"), pa.date32(), [dt.date(2020, 1, 1)]),
        (objects(clock("2999-01-01"), None, pd.NaT), INSTANT, [*utc("2998-12-31T23:00"), None, None]),
        (objects(clock("2999-01-01")), CLOCK, [clock("2999-01-01")]),
        (objects(np.datetime64("2020-01-01T12:00:00")), INSTANT, utc("2020-01-01T11:00")),
        (objects(*utc("2999-01-01"), *naive("2020-01-01T00:00+05:00")), INSTANT, utc("2999-01-01", "2019-12-31T19:00")),
        (objects(*utc("2020-01-01T12:00")), CLOCK, naive("2020-01-01T12:00")),
        (objects(None, pd.NA, np.nan), INSTANT, [None, None, None]),
        (objects(None, pd.NaT), CLOCK, [None, None]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_pandas_makes_of_it_fits(column, kind, values):
    assert back(column, kind).to_pylist() == values


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (utc("9999-01-01T00:00"), INSTANT, "column 'a' holds 9999-01-01 01:00:00.000000, which pandas'"),
        (naive("1500-01-01"), CLOCK, "column 'a' holds 1500-01-01 00:00:00.000000, which pandas' nanoseconds"),
        ([2**60], CLOCK, "column 'a' holds <value out of range: 1152921504606846976>, which"),
        ([dt.timedelta(days=200_000)], pa.duration("us"), "column 'a' holds 200000 days, 0:00:00, which pandas'"),
        ([2**53 + 1, None], pa.int64(), "column 'a' holds 9007199254740993, which float64, its dtype beside nulls"),
        ([None, -(2**60)], pa.int64(), "set spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype to true"),
    ],
)
def test_values_that_would_change_are_refused(values, kind, message):
    with pytest.raises(FunctionError, match=re.escape(message)):
        to_pandas(batch(values, kind))


@pytest.mark.parametrize("values", [[1, 2], [2**60 + 1, None], [None]])
def test_nullable_dtypes_with_and_without_nulls(values):
    shown = to_pandas(batch(values, pa.int64()), extension_integers=True).a
    assert shown.dtype == pd.Int64Dtype()
    assert back(shown, pa.int64()) == batch(values, pa.int64()).column(0)


def test_no_columns():
    assert to_pandas(pa.RecordBatch.from_pydict({"_": [1, 2]}).select([])).shape == (2, 0)


def test_the_index_does_not_matter():
    data = pd.DataFrame({"a": [3, 1, 2]}, index=[7, 7, 9])
    assert back(data.sort_values("a"), pa.int64()).to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        ([1.5], pa.int64(), "column 'a' cannot be read as int64: Float value 1.5"),
        ([2**40], pa.int32(), "column 'a' cannot be read as int32: Integer value 1099511627776 not in range"),
        (["1"], pa.int64(), "column 'a' cannot be read as int64"),
        ([1, "x"], pa.int64(), "column 'a' cannot be read as int64"),
        ([1], pa.string(), "column 'a' is int64, the schema declares string"),
        ([1], pa.bool_(), "column 'a' is int64, the schema declares bool"),
        ([True], pa.int64(), "column 'a' is bool, the schema declares int64"),
        ([1], pa.date32(), "column 'a' is int64, the schema declares date32[day]"),
        ([1], CLOCK, "column 'a' is int64, the schema declares timestamp[us]"),
        ([1000], INSTANT, "column 'a' is int64, the schema declares timestamp[us, tz=Europe/Berlin]"),
        (naive("2020-01-01"), pa.int64(), "column 'a' is timestamp[ns], the schema declares int64"),
        (pd.to_datetime(["2020-01-01T00:00Z"]), CLOCK, "column 'a' is timestamp[ns, tz=UTC], the schema declares"),
        (["soon"], INSTANT, "column 'a' is string, the schema declares timestamp[us, tz=Europe/Berlin]"),
        (objects(1_500_000_000), INSTANT, "column 'a' is int64, the schema declares timestamp[us, tz=Europe/Berlin]"),
        (objects(1_500_000_000), CLOCK, "column 'a' is int64, the schema declares timestamp[us]"),
        (objects(np.int64(1)), CLOCK, "column 'a' is int64, the schema declares timestamp[us]"),
        (objects(1.5e9, None), CLOCK, "column 'a' is double, the schema declares timestamp[us]"),
        (objects("2020-01-01"), CLOCK, "column 'a' is string, the schema declares timestamp[us]"),
        (objects(dt.date(2020, 1, 1)), CLOCK, "column 'a' is date32[day], the schema declares timestamp[us]"),
        (objects(clock("2020-01-01"), 5), CLOCK, "ValueError: 5 is int, and others are times"),
        (objects(*utc("2020-01-01"), clock("2020-01-01")), INSTANT, "ValueError: some of its times have a zone"),
        (objects(pd.Timestamp("2020-01-01 00:00:00.000000001")), CLOCK, "has nanoseconds, which Spark does not"),
        (objects(*naive("2020-03-29 02:30")), INSTANT, "Timestamp doesn't exist in timezone 'Europe/Berlin'"),
        (pd.Categorical(["x"]), pa.int64(), "column 'a' cannot be read as int64"),
        (naive("2020-03-29 02:30"), INSTANT, "Europe/Berlin]: Timestamp doesn't exist in timezone 'Europe/Berlin'"),
        (naive("2020-01-01 00:00:00.000000001"), CLOCK, "from timestamp[ns] to timestamp[us] would lose data"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_types(column, kind, message):
    with pytest.raises(FunctionError, match=re.escape(message)):
        back(column, kind)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "the function returned NoneType, not a pandas.DataFrame"),
        (pd.Series([1]), "the function returned Series, not a pandas.DataFrame"),
        (batch([1]), "the function returned RecordBatch, not a pandas.DataFrame"),
        (pd.DataFrame([[1]]), "a column named 0: column names must be strings"),
        (pd.DataFrame({("a", "b"): [1]}), "a column named ('a', 'b'): column names must be strings"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "returned columns ['a', 'a'], the schema declares ['a']"),
        (pd.DataFrame({"b": [1]}), "missing: ['a']; not declared: ['b']"),
        (pd.DataFrame({"a": [1], "b": [object()]}), "column 'b' cannot be read as an Arrow array"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_wrong_results(result, message):
    with pytest.raises(FunctionError, match=re.escape(message)):
        conform(to_arrow(result, declared(pa.int64())), declared(pa.int64()))
