"""Expressions of rules against Spark SQL: parts of times, constants of time, substring, cast."""

import datetime as d
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from evenflow.rules.operator import RuleOperator
from evenflow.runtime.cluster.arguments.verbs import arrow_schema

ZONE = "America/New_York"
SCHEMA = "e decimal(38, 3), at timestamp, n timestamp_ntz, b date, s string, w string, i long, f double, "
SCHEMA += "c decimal(12, 3), t boolean"
UTC = d.UTC
MOMENTS = [
    d.datetime(2026, 3, 8, 6, 59, 59, 999_999, UTC),  # just before clocks are put forward there
    d.datetime(2026, 3, 8, 7, 0, tzinfo=UTC),
    d.datetime(2026, 11, 1, 5, 30, tzinfo=UTC),  # half past one, twice
    d.datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
    d.datetime(1969, 12, 31, 23, 59, 59, 500_000, UTC),
    d.datetime(1600, 2, 29, 12, 0, tzinfo=UTC),
    d.datetime(2027, 1, 1, 4, 59, tzinfo=UTC),
    None,
]
CENTS = [*(Decimal(each) for each in ("0", "0.05", "-0.05", "0.45", "12.345", "-99.995", "99")), None]
LARGE = [
    *(Decimal(each) for each in ("0.999", "-128.5", "12345678901234567890.5", "-" + "9" * 35 + ".999")),
    *(Decimal(2) ** power for power in (31, 63, 64)),
    None,
]
TIMES = [
    *(f"{part}({column})" for part in ("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "dayofweek",
      "weekofyear", "hour", "minute", "second") for column in ("at", "n", "b")),
    "at >= timestamp '2026-03-08 03:00:00'",
    "at = timestamp '2026-11-01 01:30:00'",
    "at < timestamp '2026-03-08 07:00:00Z'",
    "at between date '2026-03-08' and date '2026-11-01'",
    "at > b",
    "b in (date '2026-03-08', date '1600-2-29')",
    "n <= timestamp '2026-03-08 07:00:00'",
    "cast(at as date)",
    "cast(n as date)",
    "cast(b as string)",
    "coalesce(at, timestamp '2026-03-08 02:30:00')",
    "coalesce(at, timestamp '2026-03-08 07:00:00Z', b)",
    "coalesce(b, date '2026-03-08')",
    "coalesce(b, at)",
    "case when i > 0 then at when i < 0 then date '2026-11-01' else timestamp '2026-11-01 01:30:00' end",
    "case when i > 0 then b else date '1600-2-29' end",
    "nullif(at, timestamp '2026-11-01 01:30:00')",
    "nullif(b, timestamp '2026-03-08 00:00:00')",
    "nullif(b, at)",
    "nullif(i, 9)",
    "nullif(c, 99)",
    "nullif(i, null)",
]  # fmt: skip
TEXTS = [f"substring(s, {first}, {length})" for first in (-9, -2, 0, 1, 2, 9) for length in (-1, 0, 1, 3, 99)]
TEXTS += ["substring(s, -3)", "substr(s, 2)", "cast(s as string)", "cast(w as bigint)", "cast(w as double)"]
WHOLE = ("tinyint", "smallint", "int", "bigint")
NUMBERS = [f"cast({name} as {kind})" for name in ("i", "f", "c", "t") for kind in (*WHOLE, "float", "double")]
NUMBERS += [f"cast({name} as decimal({kind}))" for name in ("i", "c") for kind in ("10, 2", "5", "38, 20")]
NUMBERS += ["cast(i as boolean)", "cast(f as boolean)", "cast(i as string)", "cast(t as string)", "cast(2.5 as int)"]


TOO_SMALL = ["cast(i as decimal(3, 1))", "cast(c as decimal(3, 2))", "cast(i * 1000 as smallint)"]
TOO_SMALL += [f"cast({each} as {kind})" for each in ("e", "c * 1000000", "99999999999.5") for kind in WHOLE]
TOO_SMALL += [f"cast(f * {by} as {kind})" for by in ("1e3", "1e12", "1e30") for kind in WHOLE]


def rows_of_each():
    count = len(MOMENTS)
    naive = [None if each is None else each.replace(tzinfo=None) for each in MOMENTS]
    return pa.table(
        {
            "e": pa.array(LARGE, pa.decimal128(38, 3)),
            "at": pa.array(MOMENTS, pa.timestamp("us", ZONE)),
            "n": pa.array(naive, pa.timestamp("us")),
            "b": pa.array([None if each is None else each.date() for each in MOMENTS]),
            "s": pa.array(["", "a", "héllo", "日本語テキスト", "x" * 20, " b ", None, "😀😀"]),
            "w": pa.array(["1", " -12 ", "+7", "0", "007", None, "1", "99"]),
            "i": pa.array([0, 1, -1, 9, -10, 127, None, 45]),
            "f": pa.array([0.0, -0.0, 0.5, -1.9, 99.99, None, -128.0, 7.5]),
            "c": pa.array(CENTS, pa.decimal128(12, 3)),
            "t": pa.array([True, False, None] + [True] * (count - 3)),
        }
    )  # fmt: skip


def ours(spark, df, table, expressions):
    """What rules make of the rows, one column for each expression."""
    items = ", ".join(f"{each} as c{place}" for place, each in enumerate(expressions))
    operator = RuleOperator(f"select {items} from T").planned(ansi=spark.conf.get("spark.sql.ansi.enabled") == "true")
    batch = table.cast(arrow_schema(spark, df.schema)).to_batches()[0]
    found, _ = operator.process(batch, np.zeros(batch.num_rows, np.int32), np.zeros(batch.num_rows, np.int64))
    return found


def theirs(df, expressions):
    """The same by Spark."""
    made = df.selectExpr(*(f"{each} as c{place}" for place, each in enumerate(expressions)))
    return made.toArrow()


def told(column):
    """The type and the values of a column; of times the moments, since `toArrow` has them in UTC."""
    zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
    column = column.cast(pa.timestamp("us", "UTC")) if zoned else column
    return column.type, column.to_pylist()


@pytest.mark.parametrize(
    ("expressions", "ansi"), [(TIMES + TEXTS + NUMBERS, "true"), (TIMES + NUMBERS + TOO_SMALL, "false")]
)
def test_values_are_those_of_spark(spark, conf, expressions, ansi):
    conf("spark.sql.session.timeZone", ZONE)
    conf("spark.sql.ansi.enabled", ansi)
    rows = rows_of_each()
    df = spark.createDataFrame(rows, SCHEMA)
    one, other = ours(spark, df, rows, expressions), theirs(df, expressions)
    found, wanted = ({each: told(made.column(n)) for n, each in enumerate(expressions)} for made in (one, other))
    assert {each: (found[each], wanted[each]) for each in wanted if str(found[each]) != str(wanted[each])} == {}
