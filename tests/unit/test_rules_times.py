"""Dates, times, spans of time, substring and cast: what Spark is not needed for. tests/spark compares with Spark."""

import datetime as d
from decimal import Decimal

import pyarrow as pa
import pytest

from evenflow.errors import FunctionError
from evenflow.rules.language.errors import RuleError
from evenflow.rules.operator import RuleOperator
from tests.support.rules_runs import push, values

NOON = d.datetime(2026, 1, 31, 12, tzinfo=d.UTC)
COLUMNS = {
    "at": pa.array([NOON, None], pa.timestamp("us", "Europe/Berlin")),
    "n": pa.array([NOON.replace(tzinfo=None), None], pa.timestamp("us")),
    "b": pa.array([NOON.date(), None]),
    "x": pa.array([300, None]),
    "s": pa.array(["12", None]),
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("at = timestamp '2026-01-31 13:00:00'", True),  # in the zone of the column
        ("at = timestamp '2026-01-31T12:00Z'", True),
        ("at = timestamp '2026-01-31 07:30:00.0 -04:30'", True),
        ("n = timestamp '2026-01-31 12:00:00'", True),
        ("timestamp '2026-01-31 13:00:00.5' - at", 0.5),
        ("timestamp '2026-03-29 02:30:00' - at", 4887000.0),  # in the gap of a clock change: 03:30 there
        ("at - b", 46800.0),  # a date is its first moment, there
        ("at between b and date '2026-2-1'", True),
        ("at - 1 min 30 sec < at - 89 sec", True),
        ("(at + 2.5 hour) - at", 9000.0),
        ("n + 1 day = timestamp '2026-02-01 12:00:00'", True),
        ("10 sec + 5", 15.0),
        ("hour(at + 12 hours)", 1),
        ("x > 4 min", True),
    ],
)
def test_values(expression, value):
    assert values(expression, COLUMNS) == [value, value if expression == "10 sec + 5" else None]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("coalesce(at, timestamp '2026-03-29 02:30:00')", [NOON, d.datetime(2026, 3, 29, 1, 30, tzinfo=d.UTC)]),
        ("coalesce(at, timestamp '2026-01-01 00:00:00Z')", [NOON, d.datetime(2026, 1, 1, tzinfo=d.UTC)]),
        ("case when x > 5 then date '2026-01-01' else at end", [d.datetime(2025, 12, 31, 23, tzinfo=d.UTC), None]),
        ("nullif(at, timestamp '2026-01-31 13:00:00')", [None, None]),
        ("nullif(b, timestamp '2026-01-30 00:00:00')", [NOON.date(), None]),
        ("nullif(x, 2.5)", [300, None]),
    ],
)
def test_constants_of_time_among_other_values(expression, found):
    assert values(expression, COLUMNS) == found


@pytest.mark.parametrize(("value", "wraps"), [("12345678901234567890.5", -350287150), ("-2.9", -2)])
def test_decimals_as_whole_numbers_without_ansi(value, wraps):
    rule = RuleOperator("select cast(c as int) as it, cast(c as bigint) as l from T").planned(ansi=False)
    found, _ = push(rule, {"c": pa.array([None, Decimal(value)], pa.decimal128(38, 3)).slice(1)})
    assert (found[0]["it"], found[0]["l"] - int(Decimal(value))) in ((wraps, 0), (wraps, -(2**64)))


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("at > '2026-01-31'", "'>' does not fit at"),
        ("at > n", "'>' does not fit at"),
        ("date '2026-02-30'", "date '2026-02-30' is none: write it as in date '2026-01-31'"),
        ("timestamp '2026-01-31 25:00:00'", "timestamp '2026-01-31 25:00:00' is none"),
        ("timestamp '2026-01-31 10:00:00 Europe/Berlin'", "is none: write it as in timestamp"),
        ("interval '1 day'", "'interval' stands before a text: only date and timestamp do"),
        ("b + 1 day", "b + 86400.0 sec is of date32[day]: a span of time is added to a timestamp"),
        ("hour(x)", "'hour' needs a time, x is int64"),
        ("substring(s, x)", "substring takes whole numbers that are constant, not x"),
        ("substring(s)", "substring takes 2 to 3 arguments, here are 1"),
        ("cast(x as thing)", "there is no cast to 'thing'; there are: tinyint"),
        ("cast(x as decimal(50, 2))", "there is no cast to 'decimal(50, 2)'"),
        ("cast(at as string)", "there is no cast of timestamp[us, tz=Europe/Berlin] to 'string'"),
        ("cast(x as date)", "there is no cast of int64 to 'date'"),
        ("round(x as int)", "'round' does not take AS: only cast(value as type) does"),
    ],
)
def test_what_is_refused(expression, says):
    with pytest.raises(RuleError) as caught:
        values(expression, COLUMNS)
    assert says in str(caught.value)
    assert caught.value.line == 1


@pytest.mark.parametrize("expression", ["cast(x as tinyint)", "cast(s || 'd' as int)", "cast(x * 1e30 as bigint)"])
def test_what_does_not_fit(expression):
    with pytest.raises(FunctionError, match=r"cast\(.*\) of the rule fails: "):
        values(expression, COLUMNS)
    rule = RuleOperator(f"select {expression} as it from T").planned(ansi=False)
    if "s ||" in expression:
        with pytest.raises(RuleError, match="there is no cast of string to 'int'"):
            push(rule, COLUMNS)
    else:
        assert push(rule, COLUMNS)[0][0] == {"it": 44 if "tinyint" in expression else (1 << 63) - 1}


def test_a_constant_cast_to_a_decimal_has_its_own_digits():
    found = RuleOperator("select cast(0.1 as decimal(38, 20)) as it from T").schema(pa.schema({"x": pa.int64()}))
    assert found.field("it").type == pa.decimal128(38, 20)


@pytest.mark.parametrize("what", ["hour({})", "cast({} as date)"])
def test_days_and_hours_of_a_constant_with_an_offset_are_not_known(what):
    """They are those of Spark's zone, which only columns tell."""
    found = what.format("timestamp '2026-03-29 12:00:00+00:00'")
    with pytest.raises(RuleError, match="has an offset: its days and hours are not known"):
        RuleOperator(f"select {found} as h from T").schema(pa.schema({"x": pa.int64()}))
