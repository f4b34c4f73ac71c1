"""Values of expressions: large and small numbers, rounding, lists behind `in`; and rules that are long or deep."""

from decimal import Decimal

import pyarrow as pa
import pytest

from evenflow.errors import FunctionError
from evenflow.rules.language.errors import RuleError
from evenflow.rules.operator import RuleOperator
from tests.support.rules_runs import push, values

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
        ("x + y", pa.decimal128(23, 2), "1000000000000000000.10"),
        ("y - x", pa.decimal128(23, 2), "999999999999999999.90"),
        ("x * x", pa.decimal128(25, 4), "0.0100"),
        ("x * y", pa.decimal128(33, 2), "100000000000000000.00"),
        ("-x", CENTS, "-0.10"),
        ("case when x > 0 then x else 0 end", CENTS, "0.10"),
        ("case when x > 0 then x else 9999999999 end", pa.decimal128(22, 2), "0.10"),
        ("case when x > 0 then 0.125 else x end", pa.decimal128(13, 3), "0.125"),
        ("coalesce(x, 0.0, y)", pa.decimal128(22, 2), "0.10"),
        ("greatest(x, 0.11)", CENTS, "0.11"),
        ("coalesce(z, p)", pa.decimal128(38, 18), "1.000000000000000000"),
        ("x * 2", pa.decimal128(14, 2), "0.20"),
        ("-2 * x", pa.decimal128(14, 2), "-0.20"),
        ("x - 100", pa.decimal128(13, 2), "-99.90"),
        ("x + 0.1", pa.decimal128(13, 2), "0.20"),
        ("x + .100", pa.decimal128(14, 3), "0.200"),
        ("x * -0.05", pa.decimal128(15, 4), "-0.0050"),
        ("x * (1 - 0.05)", pa.decimal128(17, 4), "0.0950"),
        ("x * - (0.1 + 0.2)", pa.decimal128(15, 3), "-0.030"),
        ("x * case when y > 0 then 0.9 else 0.85 end", pa.decimal128(15, 4), "0.0900"),
        ("x + y * 0.5", pa.decimal128(24, 2), "500000000000000000.10"),
        ("x + b", pa.decimal128(13, 2), "7.10"),
        ("a * 2", pa.decimal128(22, 2), "246913578024691357.82"),
        ("-(a * 2)", pa.decimal128(22, 2), "-246913578024691357.82"),
        ("sum(a * 2)", pa.decimal128(32, 2), "246913578024691357.82"),
        ("sum(a) * 2", pa.decimal128(32, 2), "246913578024691357.82"),
        ("avg(a * 2)", pa.decimal128(26, 6), "246913578024691357.820000"),
        ("max(a * 0.5)", pa.decimal128(22, 3), "61728394506172839.455"),
        ("q - 1", pa.decimal128(17, 6), "0.500000"),
        ("q * 3", pa.decimal128(18, 6), "4.500000"),
        ("q * y", pa.decimal128(37, 6), "1500000000000000000.000000"),
        ("q * a * q", pa.decimal128(38, 6), "277777775277777777.547500"),
        ("p + 1", pa.decimal128(38, 17), "100000000000000000000.00000000000000000"),
        ("p + 0.1", pa.decimal128(38, 17), "99999999999999999999.10000000000000000"),
        ("z * z", pa.decimal128(38, 37), "1"),
        ("0.5 * 3 * z", pa.decimal128(38, 35), "1.5"),
        ("x + null", pa.decimal128(13, 2), None),
    ],
)
def test_decimals_are_exact(expression, kind, expected):
    columns = {
        "x": pa.array([Decimal("0.10")], CENTS),
        "y": pa.array([10**18]),
        "a": pa.array([Decimal("123456789012345678.91")], pa.decimal128(20, 2)),
        "q": pa.array([Decimal("1.5")], pa.decimal128(16, 6)),
        "p": pa.array([Decimal("99999999999999999999")], pa.decimal128(38, 18)),
        "z": pa.array([Decimal("0." + "9" * 38)], pa.decimal128(38, 38)),
        "b": pa.array([7], pa.int8()),
    }
    operator = RuleOperator(f"select {expression} as it from T")
    assert operator.schema(pa.schema({name: array.type for name, array in columns.items()})).field("it").type == kind
    assert values(expression, columns) == [None if expected is None else Decimal(expected)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("y * 0.5", [0.5]),
        ("0.1 + 0.2", [0.1 + 0.2]),
        ("x * 1e-1", [0.01]),
        ("x * f", [0.01]),
        ("x * coalesce(f, 0.5)", [0.01]),
        ("f in (0.1, 1)", [True]),
        ("f = 0.1", [True]),
    ],
)
def test_constants_with_a_point_are_doubles_where_no_decimal_is(expression, expected):
    columns = {"x": pa.array([Decimal("0.10")], CENTS), "y": [1], "f": [0.1]}
    found = values(expression, columns)
    assert [type(one) for one in found] == [type(one) for one in expected]
    assert found == pytest.approx(expected, rel=1e-15)


def test_decimals_among_doubles_are_the_nearest_ones():
    texts = ["-37.571429", "78.142857", "0.3", "123456789.123456", "0.000001"]
    columns = {"x": pa.array([Decimal(text) for text in texts], pa.decimal128(16, 6)), "f": list(map(float, texts))}
    assert values("x = f and x / 1 = f and x * 1e0 = f", columns) == [True] * 5


def test_decimals_are_compared_with_constants_exactly():
    columns = {
        "a": pa.array([Decimal("24691357802469135780.00")], pa.decimal128(38, 2)),
        "x": pa.array([Decimal("0.3")]),
    }
    for expression in (
        "a = 24691357802469135780.0",
        "a < 24691357802469135780.01",
        "a > 24691357802469135779.999",
        "a in (1, 24691357802469135780.0)",
        "a not in (24691357802469135780.1, 24691357802469135779.0)",
        "a between 24691357802469135780.00 and 24691357802469135780.0",
        "x = 0.1 + 0.2",
        "x = -(-0.1 - 0.2)",
        "x * 2 = 0.6",
        "0.1 + 0.2 in (x)",
        "nullif(x, 0.3) is null",
    ):
        assert values(expression, columns) == [True], expression


def test_results_that_do_not_fit_a_decimal():
    most = {"x": pa.array([None, Decimal(10**38 - 1), Decimal(7)], pa.decimal128(38, 0))}
    operator = RuleOperator({"mine": "select x * 2 as it from T"})
    with pytest.raises(
        FunctionError, match=r"x \* 2 of rule 'mine' fails: the result is too large for decimal\(38, 0\)"
    ):
        push(operator, most)
    found, _ = push(RuleOperator("select x * 2 as it, x + 1 as more from T").planned(ansi=False), most)
    assert [tuple(row.values()) for row in found] == [(None, None), (None, None), (14, 8)]


def test_constants_of_one_value_and_several_types_are_not_mixed_up():
    columns = {"x": pa.array([Decimal("0.10")], CENTS)}
    found, _ = push(RuleOperator("select sum(x * 0.1) as a, sum(x * 0.10) as b, sum(x * 1e-1) as c from T"), columns)
    assert [str(value) for value in found[0].values()] == ["0.010", "0.0100", "0.010000000000000002"]


def test_constants_with_too_many_digits_are_refused():
    with pytest.raises(RuleError, match="has more than 38 digits: write fewer, or a double, which has an exponent"):
        values(f"x * 0.{'1' * 39}", {"x": [1.0]})
    assert values(f"x * 0.{'1' * 39}e0", {"x": [1.0]}) == pytest.approx([1 / 9])


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
