"""Variables of rules: they stand for their values as if these were written there."""

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evenflow.errors import InvalidArgument
from evenflow.rules.language.parser import parse
from evenflow.rules.language.printing import show
from evenflow.rules.language.variables import Variables
from evenflow.rules.operator import RuleOperator
from tests.support.rules_runs import push

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("text", "value", "written"),
    [
        ("select x from T where x > V", 5, "select x from T where x > 5"),
        ("select x from T where x > v", -5, "select x from T where x > -5"),
        ("select x * V as y from T", 0.05, "select x * 0.05 as y from T"),
        ("select x * V as y from T", Decimal("1.50"), "select x * 1.50 as y from T"),
        ("select x from T where g = `V` and true", "V", "select x from T where g = 'V' and true"),
        ("select x from T where b = V", False, "select x from T where b = false"),
        ("select count(*) from T.win:length(V)", np.int16(7), "select count(*) from T.win:length(7)"),
        ("select count(*) from T.win:time(V min 3 sec)", 0.5, "select count(*) from T.win:time(33 sec)"),
        ("every a=T -> b=T where timer:within(V)", timedelta(minutes=1), "every a=T -> b=T where timer:within(60 sec)"),
        ("select t + V as y from T", np.timedelta64(60 * 10**9, "ns"), "select t + 60 sec as y from T"),
        ("select t + V as y from T", timedelta(minutes=1), "select t + 60 sec as y from T"),
        ("select x from T where t > V", date(2026, 1, 31), "select x from T where t > date '2026-01-31'"),
        ("select x from T where t > V", NOON, "select x from T where t > timestamp '2026-01-31 12:00:00+01:00'"),
        ("[V] a=T -> [1:V] b=T(x > V)", 2, "[2] a=T -> [1:2] b=T(x > 2)"),
    ],
)
def test_a_variable_is_its_value(text, value, written):
    found, wanted = parse(text, Variables({"V": value})), parse(written)
    assert found == wanted
    assert show(found) == show(wanted)


def test_a_number_of_a_variable_has_its_own_digits_beside_decimals():
    columns = {"x": pa.array([Decimal("0.30")], pa.decimal128(5, 2))}
    rule = "select x * V as y, x = a + b as same from T"
    found, _ = push(RuleOperator(rule, variables={"V": Decimal("1.5"), "a": 0.1, "b": 0.2}), columns)
    assert found == [{"y": Decimal("0.450"), "same": True}]


def test_a_column_of_an_alias_is_no_variable():
    found, _ = push(RuleOperator("select T.V1 as y, v as z from T", variables={"v": 1}), {"V1": pa.array([3])})
    assert found == [{"y": 3, "z": 1}]


@pytest.mark.parametrize(
    ("text", "variables", "message"),
    [
        ("select x from T where x > H", None, "unknown column 'H'.*variables={'H': ...}\n.*\n +\\^"),
        ("select x from T.win:length(H)", {}, "win:length takes a number of rows.*'H' is no variable.*\n.*\n +\\^"),
        ("select x from T.win:time(S)", {}, "win:time takes a time.*'S' is no variable"),
        ("select x from T.win:time(S sec)", {}, "unknown variable 'S': give it by variables={'S': ...}\n"),
        ("[N] a=T", {}, "unknown variable 'N'"),
        ("[N] a=T", {"N": 0}, r"\[0:0\] repeats nothing"),
        ("[N] a=T", {"N": 1.5}, r"\[1.5:1.5\] repeats nothing: give whole numbers"),
        ("a=T where timer:within(S)", {"S": "10"}, "line 1, column 24: variable 'S' is '10': a number is needed here"),
        ("select x from T.win:length(H)", {"H": 2.5}, "win:length takes a number of rows"),
        ("select x from T.win:length(H)", {"H": True}, "variable 'H' is True: a number is needed here"),
        ("select x from T where x > H", {"H": "a"}, "'>' does not fit x, which is int64, and 'a', which is string"),
        ("select x from T where x > h", {"H": 1, "h ": 2}, "variables has 'h ', which no rule uses"),
        ("select x + hi as y from T", {"Hi": 1, "HI": 2}, "variable 'hi' may be 'HI' or 'Hi'"),
        ("select x from T", {"H": 1}, "variables has 'H', which no rule uses: leave it out"),
        (
            "select x + X as y from T",
            {"X": 1},
            "variables has 'X', and there is a column 'x': give the variable another",
        ),
        ("select x + H as y from T", {"H": None}, "variables has H=None: give a number, a text, a boolean, a date"),
        ("select x + H as y from T", {"H": [1]}, r"variables has H=\[1\]: give a number"),
        ("select x + H as y from T", {"H": float("nan")}, "variables has H=nan: give a number that can be written"),
        ("select x + H as y from T", {1: 2}, "variables has the name 1: give a string"),
        ("select x + H as y from T", [1], r"variables=\[1\]: give a dict"),
        ("select x + H as y from T", {"H": 1 << 64}, "18446744073709551616 is too large for a whole number"),
    ],
)
def test_what_is_said_of_variables(text, variables, message):
    with pytest.raises(InvalidArgument, match=message):
        RuleOperator(text, variables=variables, time="t").schema(pa.schema({"x": pa.int64(), "t": pa.int64()}))


def test_a_variable_is_used_if_one_of_several_rules_uses_it():
    operator = RuleOperator(["select x from T", "select x + V as y from T"], variables={"V": 1})
    assert push(operator, {"x": pa.array([1])})[0][1] == {"rule": "rule2", "x": None, "y": 2}


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("select count(*) from T.win:time(V min)", timedelta(minutes=1), "'V' is a span of time: leave out the unit"),
        ("select x from T where t > V", np.datetime64("NaT"), "give a number, a text"),
        ("select x from T where t > V", pd.NaT, "give a number, a text"),
    ],
)
def test_a_variable_that_cannot_be_meant(text, value, said):
    with pytest.raises(InvalidArgument, match=said):
        parse(text, Variables({"V": value}))
