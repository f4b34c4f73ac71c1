"""The text of a filter means what it means to Spark, or is refused. What Spark gives was read off a session."""

from decimal import Decimal
from math import inf, nan

import pyarrow as pa
import pytest

from evenflow.errors import InvalidArgument
from evenflow.graph.build.binding import bind
from evenflow.graph.build.builder import Graph
from evenflow.graph.reference import evaluate
from evenflow.operators.declared import COLUMN

NUMBERS = pa.record_batch({"d": [nan, 2.0, 0.0, None, -inf], "e": [nan, 1.0, nan, 1.0, 0.0], "k": [0, 1, 2, 3, 4]})


def kept(condition, rows=NUMBERS):
    graph = Graph()
    graph.endpoint("out", graph.source("in").filter(condition))
    plan = bind(graph, {"in": rows.schema})
    return evaluate(plan, [("in", rows)])["out"]


@pytest.mark.parametrize(
    ("condition", "ks"),
    [
        ("d > 1", [0, 1]),
        ("d >= 2", [0, 1]),
        ("d < 1", [2, 4]),
        ("d <= 2", [1, 2, 4]),
        ("d = d", [0, 1, 2, 4]),
        ("d != d", []),
        ("d <> e", [1, 2, 4]),
        ("d = e", [0]),
        ("d < e", [2, 4]),
        ("d > e", [1]),
        ("not (d > 1)", [2, 4]),
        ("d between 0 and 2", [1, 2]),
        ("sqrt(d) > 1", [0, 1, 4]),
        ("case when d > 1 then 1 else 0 end = 1", [0, 1]),
        ("k > 2", [3, 4]),
        ("null", []),  # as df.where("null")
        ("not null", []),
        ("null or k > 2", [3, 4]),
    ],
)
def test_nan_is_above_all_numbers_and_null_is_not_true(condition, ks):
    assert kept(condition).column("k").to_pylist() == ks


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (r"s = 'a\tb'", "has a backslash"),
        (r"s in ('x', 'a\tb')", "has a backslash"),
        (r"s like 'a\_b'", "has a backslash"),
        ("trim(s) = 'x'", "strips only spaces in Spark"),
        ("upper(s) = 'X'", "other tables"),
        ("ln(d) < 0", "is null in Spark"),
        ("greatest(d, 1.0) > 1", "takes NaN for something else"),
        ("c / 2 = 1", "of decimals is rounded otherwise"),
        ("c % 2 = 1", "of decimals is rounded otherwise"),
        ("padded = 'a'", r"is a char\(n\)"),
    ],
)
def test_what_would_differ_is_refused(condition, message):
    told = pa.field("padded", pa.string(), metadata={COLUMN: '{"name":"padded","type":"char(5)"}'})
    kinds = [("s", pa.string()), ("d", pa.float64()), ("c", pa.decimal128(22, 2)), told]
    rows = pa.record_batch([["a"], [1.0], [Decimal(1)], ["a    "]], schema=pa.schema(kinds))
    with pytest.raises(InvalidArgument, match=message):
        kept(condition, rows)


def test_an_input_without_columns_is_refused():
    graph = Graph()
    graph.endpoint("out", graph.source("in"))
    with pytest.raises(InvalidArgument, match="input 'in' has no columns"):
        bind(graph, {"in": pa.schema([])})
