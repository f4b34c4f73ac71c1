"""Aggregates of the values themselves: count(distinct), first, last, prev, min and max of texts."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from evenflow.rules.language.errors import RuleError
from evenflow.rules.operator import RuleOperator
from evenflow.testing import check_operator
from tests.support.rules_runs import push

NAN = float("nan")


def found(select, columns, source="T.win:length(3)", keys=None, frame=None):
    rows, _ = push(RuleOperator(f"select {select} as it from {source}"), columns, keys, frame)
    return [row["it"] for row in rows]


@pytest.mark.parametrize("frame", [None, 1, 2])
@pytest.mark.parametrize(
    ("select", "values", "expected"),
    [
        ("count(distinct x)", pa.array([1, 1, None, 2, 3]), [1, 1, 1, 2, 2]),
        ("count(distinct x)", pa.array([NAN, NAN, 0.0, -0.0, None]), [1, 1, 2, 2, 1]),
        ("count(distinct x)", pa.array(["a", "", "a", "é", "a"]), [1, 2, 2, 3, 2]),
        ("count(distinct x)", pa.array([Decimal("1.0"), Decimal("2.0"), None, None, None]), [1, 2, 2, 1, 0]),
        ("count(distinct x)", pa.array([[1], [1], [1, 2], None, []]), [1, 1, 2, 2, 2]),
        ("first(x)", pa.array([None, 1, 2, 3, 4]), [None, None, None, 1, 2]),
        ("last(x)", pa.array([{"a": 1}, None, {"a": 2}]), [{"a": 1}, None, {"a": 2}]),
        ("prev(x)", pa.array(["a", None, "c", "d"]), [None, "a", None, "c"]),
        ("prev(2, x)", pa.array([1.5, 2.5, 3.5, 4.5]), [None, None, 1.5, 2.5]),
        ("prev(3, x)", pa.array([1, 2, 3, 4]), [None, None, None, None]),  # the window has three rows
        ("min(x)", pa.array(["b", None, "a", "Z", "é"]), ["b", "b", "a", "Z", "Z"]),
        ("max(x)", pa.array(["b", None, "a", "Z", "é"], pa.large_string()), ["b", "b", "b", "a", "é"]),
        ("max(x)", pa.array([None, None], pa.string()), [None, None]),
    ],
)
def test_values_of_the_last_rows(frame, select, values, expected):
    assert found(select, {"x": values}, frame=frame) == expected


def test_in_windows_that_end_together():
    columns = {"x": pa.array(["b", "a", None, "b", "c", "c"])}
    source = "T.win:length_batch(3)"
    assert found("count(distinct x)", columns, source) == [2, 2]
    assert found("min(x)", columns, source) == ["a", "b"]
    assert found("first(x)", columns, source) == ["b", "b"]
    assert found("last(x)", columns, source) == [None, "c"]
    none = found("first(x)", columns, "T.win:length_batch(3) where x = 'z'")
    assert none == [None, None]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("select count(distinct x) from T", "line 1, column 8: count(distinct x) needs a window, such as win:length(1"),
        ("select first(g) from T group by x", "first(g) needs a window"),
        ("select max(g) from T", "max(g) needs a window"),
        ("select sum(distinct x) from T.win:length(3)", "sum(distinct x) is not to be had: only count takes distinct"),
        ("select prev(x) from T.win:length_batch(3)", "prev(x) stands in rules over win:length or win:time of one"),
        ("select prev(B.x) from T A, T.win:length(3) B", "prev(B.x) stands in rules over"),
        ("select prev(0, x) from T.win:length(3)", "prev(n, value) takes a number of rows from 1 on"),
        ("select prev(x, 2) from T.win:length(3)", "prev(n, value) takes a number of rows from 1 on"),
        ("select x from T.win:length(3) where prev(x) > 1", "prev(x) cannot stand in WHERE"),
        ("select first(x, 2) from T.win:length(3)", "first takes one argument, here are 2"),
        ("select count(distinct m) from T.win:length(3)", "m is a map"),
    ],
)
def test_what_is_refused(text, says):
    schema = pa.schema({"x": pa.int64(), "g": pa.string(), "m": pa.map_(pa.string(), pa.string())})
    with pytest.raises(RuleError) as caught:
        RuleOperator(text).schema(schema)
    assert says in str(caught.value)


def test_the_laws_of_operators():
    select = "k, count(distinct x) n, first(g) f, max(g) m, prev(x) p"
    rule = f"select {select} from T.win:time(5 sec) where x > 1 group by g"
    random = np.random.default_rng(1)
    rows = pa.table(
        {
            "k": random.integers(0, 5, 200),
            "x": random.integers(0, 6, 200),
            "g": pa.array(random.choice(["a", "b", ""], 200)),
            "t": np.arange(200) // 3,
        }
    )
    check_operator(RuleOperator(rule, key=["k"], time="t"), rows, key="k", rounds=2, time="t")
