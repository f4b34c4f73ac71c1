"""Values of expressions: large and small numbers, rounding, lists behind `in`; and rules that are long or deep."""

from decimal import Decimal

import pyarrow as pa
import pytest

from evenflow.errors import FunctionError
from evenflow.rules.errors import RuleError
from evenflow.rules.operator import RuleOperator
from tests.unit.rules_runs import push, values

BIG = 2**53 + 1


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("sqrt(x)", [float(BIG) ** 0.5, 2.0, None]),
        ("power(x, 1)", [float(BIG), 4.0, None]),
        ("ln(x) > 0 and log10(x) > 0 and exp(x) > 0", [True, True, None]),
        ("ceil(x)", [BIG, 4, None]),
        ("floor(x)", [BIG, 4, None]),
        ("round(x)", [BIG, 4, None]),
        ("round(x, 308)", [BIG, 4, None]),
        ("round(x, -1)", [BIG // 10 * 10, 0, None]),
    ],
)
def test_large_whole_numbers(expression, expected):
    assert values(expression, {"x": pa.array([BIG, 4, None])}) == expected


@pytest.mark.parametrize(
    ("digits", "expected"),
    [
        (0, [3.0, -3.0, 1e300, 1.7e308, 1235.0, None]),
        (2, [2.5, -2.5, 1e300, 1.7e308, 1234.57, None]),
        (308, [2.5, -2.5, 1e300, 1.7e308, 1234.567, None]),
        (-2, [0.0, 0.0, 1e300, 1.7e308, 1200.0, None]),
    ],
)
def test_rounding(digits, expected):
    column = pa.array([2.5, -2.5, 1e300, 1.7e308, 1234.567, None])
    assert values(f"round(x, {digits})", {"x": column}) == expected
    assert values("round(x)", {"x": pa.array([float("nan")])})[0] != 0
    assert values("round(x, 1)", {"x": pa.array([1.25], pa.float32())}) == pytest.approx([1.3])


@pytest.mark.parametrize(("digits", "value"), [(-1, 2**63 - 1), (-308, 1.7e308)])
def test_what_cannot_be_rounded_is_said_with_the_rule(digits, value):
    operator = RuleOperator({"mine": f"select round(x, {digits}) as it from T"})
    with pytest.raises(FunctionError, match=r"round\(x, - \d+\) of rule 'mine' fails: .*ound"):
        push(operator, {"x": [value]})


CENTS = pa.decimal128(12, 2)
MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("expression", "kind", "expected"),
    [
        ("x + y", pa.decimal128(22, 2), "1000000000000000000.10"),
        ("y - x", pa.decimal128(22, 2), "999999999999999999.90"),
        ("x * x", pa.decimal128(25, 4), "0.0100"),
        ("x * y", pa.decimal128(32, 2), "100000000000000000.00"),
        ("-x", CENTS, "-0.10"),
        ("case when x > 0 then x else 0 end", pa.decimal128(21, 2), "0.10"),
    ],
)
def test_decimals_are_exact(expression, kind, expected):
    columns = {"x": pa.array([Decimal("0.10")], CENTS), "y": pa.array([10**18])}
    operator = RuleOperator(f"select {expression} as it from T")
    assert operator.schema(pa.schema({name: array.type for name, array in columns.items()})).field("it").type == kind
    assert values(expression, columns) == [Decimal(expected)]


def test_whole_numbers_and_decimals_are_compared_exactly():
    columns = {"x": pa.array([Decimal(BIG)], pa.decimal128(38, 18)), "y": pa.array([BIG - 1]), "z": pa.array([BIG])}
    for expression in (
        "x > y",
        "x != y",
        "x = z",
        "x in (y, z)",
        "not x in (1, 9007199254740992)",
        "x between z and z",
    ):
        assert values(expression, columns) == [True]


@pytest.mark.parametrize(
    ("expression", "wrapped"), [("x + 1", -(2**63)), ("-1 * x - 2", MOST), ("x * x", 1), ("- (-1 - x)", -(2**63))]
)
def test_whole_numbers_that_are_too_large(expression, wrapped):
    with pytest.raises(FunctionError, match=r"of the rule fails: .*overflow"):
        values(expression, {"x": [MOST]})
    operator = RuleOperator(f"select {expression} as it from T").planned(ansi=False)
    found, _ = push(operator, {"x": [MOST]})
    assert found == [{"it": wrapped}]


def test_the_least_whole_number():
    assert values("-9223372036854775808", {"x": [1]}) == [-(2**63)]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.float32(), pa.decimal128(20, 1)])
def test_in_is_a_chain_of_comparisons(kind):
    column = {"x": pa.array([0, 1, 2, None, 5], kind)}
    for options in ("1, 2.0, 7", "1, null", "-0.0, 5", "x + 1, 2", "null"):
        chain = " or ".join(f"x = {option}" for option in options.split(", "))
        assert values(f"x in ({options})", column) == values(chain, column)
        assert values(f"x not in ({options})", column) == values(f"not ({chain})", column)


def test_in_with_zeros_nan_and_texts():
    numbers = {"x": pa.array([0.0, -0.0, float("nan"), float(BIG)])}
    assert values("x in (0, 1.5)", numbers) == [True, True, False, False]
    assert values("x in (9007199254740993, 0.5)", {"x": pa.array([BIG - 1, BIG])}) == [False, True]
    texts = {"x": pa.array(["a", "b", None], pa.large_string())}
    assert values("x in ('a', 'c')", texts) == [True, False, None]


MANY = range(2000)


@pytest.mark.parametrize(
    "text",
    [
        f"select x from T where x in ({', '.join(str(n) for n in MANY if n % 2)})",
        f"select x from T where not x not in ({', '.join(f'x * 0 + {n}' for n in range(300) if n % 2)})",
        f"select x from T where {' or '.join(f'x = {n}' for n in MANY if n % 2)}",
        f"select x from T where {' and '.join(f'x != {n}' for n in MANY if n % 2 == 0)}",
        f"select x from T where case {' '.join(f'when x = {n} then {n % 2}' for n in range(500))} else 1 end = 1",
        f"select a.x as x from pattern [every a=T({' and '.join(f'x != {n}' for n in MANY if n % 2 == 0)})]",
    ],
)
def test_long_rules(text):
    found, _ = push(RuleOperator(text), {"x": pa.array([7, 8, 9, 10, 11])})
    assert [row["x"] for row in found] == [7, 9, 11]


DEEP = {"sum": ("x + ", ""), "minus": ("- ", ""), "calls": ("abs(", ")"), "case": ("case when x = 1 then ", " end")}


def deep(kind, levels):
    before, after = DEEP[kind]
    text = before * levels + "x" + after * levels
    return RuleOperator({"mine": f"select {text} as it from T where {text} != 0 group by {text}"})


@pytest.mark.parametrize("kind", DEEP)
def test_deep_rules_run(kind):
    assert len(push(deep(kind, 100), {"x": [1]})[0]) == 1


@pytest.mark.parametrize("levels", [170, 190, 300, 1000])
@pytest.mark.parametrize("kind", DEEP)
def test_rules_that_are_too_deep_are_refused_before_they_run(kind, levels):
    def refused():
        try:
            deep(kind, levels).schema(pa.schema({"x": pa.int64()}))
        except RuleError as error:
            return str(error)
        return ""

    message = refused()
    assert message or levels < 200
    if message:
        assert "rule 'mine'" in message
        assert "nested too deeply" in message
    else:
        assert len(push(deep(kind, levels), {"x": [1]})[0]) == 1
