"""Aggregates of whole numbers and decimals, to the last digit: against Python's own, whatever moves."""

import datetime as dt
from decimal import Context, Decimal
from fractions import Fraction

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.operators.aggregates import rolling as home
from evenflow.rules.operator import RuleOperator
from tests.support import operators_model as model

EXACT = Context(prec=100)
LONG = st.one_of(
    st.integers(-3, 3), st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1]), st.integers(-(2**63), 2**63 - 1)
)
DIGITS = [(5, 2), (18, 0), (18, 18), (19, 3), (28, 10), (38, 0), (38, 10), (38, 34), (38, 36), (38, 38)]


@st.composite
def columns(draw):
    """A type, and values of it with keys and times."""
    precision, scale = draw(st.sampled_from([(0, 0), (0, 0), *DIGITS]))
    if precision:
        most = 10**precision - 1
        digits = st.one_of(st.integers(-3, 3), st.sampled_from([most, -most]), st.integers(-most, most))
        kind, value = pa.decimal128(precision, scale), digits.map(lambda number: Decimal(number).scaleb(-scale, EXACT))
    else:
        kind, value = pa.int64(), LONG
    rows = draw(st.lists(st.tuples(st.integers(0, 2), st.none() | value, st.integers(0, 30)), max_size=60))
    keys, values, times = (list(part) for part in zip(*rows, strict=True)) if rows else ([], [], [])
    return kind, keys, values, times


def rounded(number, digits):
    """Half away from 0."""
    scaled = abs(number) * 10**digits
    whole = int(scaled) + (scaled - int(scaled) >= Fraction(1, 2))
    return Fraction(whole if number > 0 else -whole, 10**digits)


def expected(how, kind, window):
    """What Spark gives without spark.sql.ansi.enabled, but that it wraps sums of longs around."""
    known = [Fraction(value) for value in window if value is not None]
    if not known:
        return None
    if how in ("min", "max"):
        return min(known) if how == "min" else max(known)
    total = sum(known)
    if kind == pa.int64():
        if how == "mean":
            return float(total / len(known))
        return total if -(2**63) <= total < 2**63 else None
    digits, scale = min(38, kind.precision + 10), kind.scale
    if abs(total) >= Fraction(10) ** (digits - scale):
        return None
    if how == "sum":
        return total
    digits, scale = min(38, kind.precision + 4), min(38, scale + 4)
    found = rounded(rounded(total / len(known), 39), scale)
    return found if abs(found) < Fraction(10) ** (digits - scale) else None


def windows(keys, times, rows, seconds):
    """For each row, the places of the rows in its window."""
    result = []
    for place, key in enumerate(keys):
        mine = [other for other in range(place + 1) if keys[other] == key]
        if rows is not None:
            mine = mine[-rows:]
        elif seconds is not None:
            latest = max(times[other] for other in mine)
            mine = [other for other in mine if times[other] > latest - seconds]
        result.append(mine)
    return result


def agree(found, how, kind, values, places):
    assert len(found) == len(places)
    for one, window in zip(found, places, strict=True):
        right = expected(how, kind, [values[place] for place in window])
        if isinstance(right, float):
            assert abs(one - right) <= abs(right) * 4e-16
        else:
            assert (None if one is None else Fraction(one)) == right


@given(columns(), st.sampled_from(["sum", "mean", "min", "max"]), st.integers(1, 9), st.integers(0, 2), st.integers())
@settings(max_examples=150)
def test_operators(column, how, length, over, seed):
    kind, keys, values, times = column
    rows, seconds = [(length, None), (None, length), (None, None)][over]
    given = [{"rows": rows}, {"seconds": seconds, "time": "t"}, {}][over]
    name = f"{'Running' if over == 2 else 'Rolling'}{how.title()}"
    operator = getattr(home, name)("v", **given).planned(ansi=False)
    batch = pa.record_batch({"v": pa.array(values, kind), "t": pa.array(times, pa.int64())})
    hashes, homes = model.hashed(keys, 3)
    table, _ = model.moving(operator, batch, homes, hashes, seed=abs(seed) % 2**32, sizes=(0, 1, 2, 5, 30))
    assert table.schema.equals(operator.schema(batch.schema))
    agree(table[operator.into].to_pylist(), how, kind, values, windows(keys, times, rows, seconds))


RULES = {
    "select {0}(v) as r from T": (None, None),
    "select {0}(v) as r from T.win:length({1})": ("rows", None),
    "select {0}(v) as r from T.win:time({1} sec)": (None, "seconds"),
}


@given(columns(), st.sampled_from(["sum", "avg", "min", "max"]), st.integers(1, 9), st.sampled_from(sorted(RULES)))
@settings(max_examples=100)
def test_rules(column, how, length, rule):
    kind, keys, values, times = column
    operator = RuleOperator(rule.format(how, length), key=["k"], time="t").planned(ansi=False)
    batch = pa.record_batch(
        {"v": pa.array(values, kind), "t": pa.array(times, pa.int64()), "k": pa.array(keys, pa.int64())}
    )
    hashes, homes = model.hashed(keys, 3)
    found, _ = operator.process(batch, homes, hashes)
    assert found.schema.equals(operator.schema(batch.schema))
    over = [length if part else None for part in RULES[rule]]
    agree(found["r"].to_pylist(), {"avg": "mean"}.get(how, how), kind, values, windows(keys, times, *over))


@given(
    st.sampled_from(["min", "max"]),
    st.lists(st.none() | st.datetimes(dt.datetime(1600, 1, 1), dt.datetime(2200, 1, 1)), max_size=30),  # noqa: DTZ001
    st.sampled_from([pa.timestamp("us"), pa.date32(), pa.duration("us"), pa.bool_(), pa.int8(), pa.float32()]),
)
@settings(max_examples=60)
def test_what_has_an_order(how, moments, kind):
    make = {
        pa.timestamp("us"): lambda moment: moment,
        pa.date32(): lambda moment: moment.date(),
        pa.duration("us"): lambda moment: moment - dt.datetime(1970, 1, 1),  # noqa: DTZ001
        pa.bool_(): lambda moment: moment.second % 2 == 0,
        pa.int8(): lambda moment: moment.second - 30,
        pa.float32(): lambda moment: moment.second / 4,
    }[kind]
    values = [None if moment is None else make(moment) for moment in moments]
    operator = getattr(home, f"Rolling{how.title()}")("v", rows=4)
    hashes, homes = model.hashed([7] * len(values), 1)
    batch = pa.record_batch({"v": pa.array(values, kind)})
    found = operator.process(batch, homes, hashes)
    assert found.schema.equals(operator.schema(batch.schema))
    assert found.schema.field(1).type == kind
    choose = min if how == "min" else max
    known = [
        [value for value in values[max(0, end - 4) : end] if value is not None] for end in range(1, len(values) + 1)
    ]
    assert found.column(1).to_pylist() == [choose(window) if window else None for window in known]


KINDS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), *(pa.decimal128(*digits) for digits in DIGITS)]


@st.composite
def operands(draw):
    """A type, and a few values of it; or a constant as it is written."""
    if draw(st.integers(0, 2)) == 0:
        text = draw(st.from_regex(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", fullmatch=True))
        value = Decimal(text)
        scale = len(text.partition(".")[2])
        digits = max(len(str(abs(int(value.scaleb(scale, EXACT))))), scale)
        return text, (digits, scale), [value] * 4
    kind = draw(st.sampled_from(KINDS))
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1) - 1
        digits, scale = {8: 3, 16: 5, 32: 10, 64: 20}[kind.bit_width], 0
    else:
        most, digits, scale = 10**kind.precision - 1, kind.precision, kind.scale
    value = st.none() | st.sampled_from([most, -most, 5]) | st.integers(-most, most)
    numbers = draw(st.lists(value, min_size=4, max_size=4))
    return kind, (digits, scale), [None if n is None else Decimal(n).scaleb(-scale, EXACT) for n in numbers]


def as_spark(operator, one, other, a, b):
    """Type and value of `a + b`, `a - b` or `a * b` in Spark, without spark.sql.ansi.enabled."""
    (p1, s1), (p2, s2) = one, other
    scale = s1 + s2 if operator == "*" else max(s1, s2)
    precision = p1 + p2 + 1 if operator == "*" else max(p1 - s1, p2 - s2) + scale + 1
    kept = scale if precision <= 38 else max(38 - (precision - scale), min(scale, 6))
    precision = min(precision, 38)
    if a is None or b is None:
        return pa.decimal128(precision, kept), None
    value = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply}[operator](a, b)
    if operator == "*":
        value = Context(prec=39, rounding="ROUND_HALF_UP").plus(value)
    found = rounded(Fraction(value), kept)
    return pa.decimal128(precision, kept), found if abs(found) < Fraction(10) ** (precision - kept) else None


@given(operands(), operands(), st.sampled_from("+-*"), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
@settings(max_examples=200)
def test_arithmetic(one, other, operator, comparison):
    columns = {name: each for name, each in zip("xy", (one, other), strict=True) if not isinstance(each[0], str)}
    if not any(pa.types.is_decimal(kind) for kind, _, _ in columns.values()):
        return
    a, b = (each[0] if isinstance(each[0], str) else name for name, each in zip("xy", (one, other), strict=True))
    rule = RuleOperator(f"select {a} {operator} {b} as r, {a} {comparison} {b} as c from T").planned(ansi=False)
    batch = pa.record_batch(
        {
            name: pa.array(values, kind) if pa.types.is_decimal(kind) else pa.array(values).cast(kind)
            for name, (kind, _, values) in columns.items()
        }
    )
    hashes, homes = model.hashed([1] * 4, 1)
    found, _ = rule.process(batch, homes, hashes)
    for place, (left, right) in enumerate(zip(one[2], other[2], strict=True)):
        kind, value = as_spark(operator, one[1], other[1], left, right)
        assert found.schema.field("r").type == kind
        result = found["r"][place].as_py()
        assert (None if result is None else Fraction(result)) == value
        known = left is not None and right is not None
        holds = known and {
            "=": left == right,
            "!=": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }
        assert found["c"][place].as_py() == (holds[comparison] if known else None)
