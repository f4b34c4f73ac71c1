"""Users' functions in rules: what they are called with, and what may go wrong."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evenflow.errors import FunctionError
from evenflow.rules.expressions.functions import CHUNK, UserFunction
from evenflow.rules.operator import RuleOperator
from tests.support.rules_runs import push


def test_functions_are_called_with_so_many_values_at_most():
    calls = []

    def f(values):
        calls.append(len(values))
        return values.to_numpy() * 2

    found, _ = push(RuleOperator("select f(x) y from T", {"f": f}), {"x": pa.array(np.arange(2.0 * CHUNK + 5))})
    assert calls == [CHUNK, CHUNK, 5]
    assert found[-1]["y"] == 2 * (2 * CHUNK + 4)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: 1 / 0, "function 'f' of rule 'mine' raised ZeroDivisionError: division by zero"),
        (lambda x: x[:1], "function 'f' of rule 'mine' returned 1 values for 3 rows"),
        (lambda x: 5, "function 'f' of rule 'mine' returned int: return a Series or an array"),
        (
            lambda x: pd.DataFrame({"x": x}),
            "function 'f' of rule 'mine' returned DataFrame: return a Series or an array",
        ),
        (lambda x: dict.fromkeys("abc", 1.0), "function 'f' of rule 'mine' returned dict: return a Series or an array"),
        (lambda x: "123", "function 'f' of rule 'mine' returned str: return a Series or an array"),
        (lambda x: b"123", "function 'f' of rule 'mine' returned bytes: return a Series or an array"),
        (lambda x: {1.0, 2.0, 3.0}, "function 'f' of rule 'mine' returned set: return a Series or an array"),
        (lambda x: ["a", "b", "c"], "function 'f' of rule 'mine' returned what is no double"),
        (UserFunction(lambda x: ["1", "2", "c"], pa.int64()), "returned what is no int64"),
        (lambda x, y: x, "function 'f' of rule 'mine' raised TypeError"),
    ],
)
def test_functions_that_fail(function, says):
    operator = RuleOperator({"mine": "select f(x) as y from T where f(x) > 0"}, {"f": function})
    with pytest.raises(FunctionError) as caught:
        push(operator, {"x": pa.array([1.0, 2.0, 3.0])})
    assert says in str(caught.value)


def test_whole_numbers_that_a_double_cannot_hold_are_rounded():
    operator = RuleOperator("select f(x) as y from T", {"f": lambda x: x * 0 + 2**53 + 1})
    assert push(operator, {"x": pa.array([1, 2])})[0] == [{"y": 2.0**53}] * 2


def test_functions_get_what_pandas_udfs_get():
    seen = []

    def f(i, text, when, one):
        seen.extend([i.tolist(), text.tolist(), str(when.dtype), one.tolist()])
        return pd.Series(["u", None])

    function = UserFunction(f, pa.string())
    columns = {"i": pa.array([1, 2]), "t": pa.array(["a", None]), "w": pa.array([0, 1], pa.timestamp("us"))}
    found, _ = push(RuleOperator("select f(i, t, w, 'c') as y from T", {"f": function}), columns)
    assert found == [{"y": "u"}, {"y": None}]
    assert seen == [[1, 2], ["a", None], "datetime64[us]", ["c", "c"]]


class Product:
    """Of two numbers; in pairs, each number is looked at once."""

    def __init__(self):
        self.called, self.prepared, self.met = 0, 0, 0

    def __call__(self, one, other):
        self.called += len(one)
        return one * other

    def prepare(self, numbers):
        self.prepared += len(numbers)
        return numbers.to_numpy()

    def meet(self, one, other):
        self.met += len(one[1])
        return one[0][one[1]] * other[0][other[1]]


def test_a_function_may_prepare_what_comes_in_many_pairs():
    product = Product()
    operator = RuleOperator("select sum(f(A.x, B.x)) s from T.std:lastevent() A, T.win:length(9) B", {"f": product})
    found, _ = push(operator, {"x": pa.array(np.arange(1.0, 21.0))})
    assert [row["s"] for row in found[:3]] == [None, 2.0, 9.0]
    assert found[-1]["s"] == 20.0 * sum(range(11, 20))
    pairs = sum(min(9, n) for n in range(20))
    assert (product.called, product.met) == (0, pairs)
    assert product.prepared <= 40 < pairs


@pytest.mark.parametrize(
    "rule", ["select f(x, x) y from T", "select sum(f(A.x, B.x + 0)) y from T.std:lastevent() A, T.win:length(9) B"]
)
def test_where_there_are_no_columns_of_pairs_nothing_is_prepared(rule):
    product = Product()
    found, _ = push(RuleOperator(rule, {"f": product}), {"x": pa.array([2.0, 3.0])})
    assert found[-1]["y"] == (9.0 if "T.std" not in rule else 6.0)
    assert product.called
    assert not product.prepared


def test_what_goes_wrong_with_pairs_is_said_as_ever():
    class Wrong(Product):
        def meet(self, one, other):
            return super().meet(one, other)[:1]

    operator = RuleOperator("select sum(f(A.x, B.x)) s from T.std:lastevent() A, T.win:length(9) B", {"f": Wrong()})
    with pytest.raises(FunctionError, match="function 'f' of the rule returned 1 values for 3 rows"):
        push(operator, {"x": pa.array([1.0, 2.0, 3.0])})
