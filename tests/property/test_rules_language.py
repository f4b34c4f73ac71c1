"""The rule language: trees to text and back; expressions against a plain interpreter."""

import math
from datetime import UTC, timedelta, timezone

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.rules.expressions.binding import Scope
from evenflow.rules.expressions.compiling import compile_expression
from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.errors import RuleError, Text
from evenflow.rules.language.parser import parse
from evenflow.rules.language.printing import show
from tests.support.operators_model import close
from tests.support.rules_model import evaluate

NAMES = st.one_of(
    st.sampled_from(["a", "Tick", "select", "x y", "é", "`", "min", "sec", "_1"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=5),
)
LITERALS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 2**70),
    st.floats(0, allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.dates(),
    st.datetimes(timezones=st.none() | st.just(UTC) | st.just(timezone(-timedelta(hours=3, minutes=30)))),
).map(s.Literal) | st.integers(1, 10**9).map(lambda n: s.Stretch(n / 1000))
OPERATORS = ["+", "-", "*", "/", "%", "||", "=", "!=", "<", "<=", ">", ">=", "and", "or"]
WORDS = [
    "select",
    "*",
    "from",
    "T",
    "where",
    "a",
    "=",
    "1",
    "(",
    ")",
    "[",
    "]",
    "->",
    "'x",
    "`",
    ",",
    ".",
    ":",
    "every",
]
PLAIN = st.text("fgh", min_size=1, max_size=3)


def grown(inner):
    lists = st.lists(inner, min_size=1, max_size=3).map(tuple)
    yes = st.booleans()
    return st.one_of(
        st.builds(s.Unary, st.sampled_from(["not", "-"]), inner),
        st.builds(s.Binary, st.sampled_from(OPERATORS), inner, inner),
        st.builds(s.In, inner, lists, yes),
        st.builds(s.Between, inner, inner, inner, yes),
        st.builds(s.Like, inner, inner, yes),
        st.builds(s.IsNull, inner, yes),
        st.builds(s.Case, st.lists(st.tuples(inner, inner), min_size=1, max_size=2).map(tuple), st.none() | inner),
        st.builds(s.Call, st.none() | NAMES, PLAIN, st.just(()) | lists),
        st.builds(s.Aggregate, st.sampled_from(s.AGGREGATES), inner, yes),
        st.builds(s.Cast, inner, st.sampled_from(["int", "decimal(10, 2)", "decimal(5)", "string"])),
        st.just(s.Aggregate("count", None)),
    )


EXPRESSIONS = st.recursive(LITERALS | st.builds(s.Column, st.none() | NAMES, NAMES), grown, max_leaves=12)
SECONDS = st.integers(1, 10**9).map(lambda n: n / 1000)
ATOMS = st.builds(s.Atom, st.none() | NAMES, NAMES, st.none() | EXPRESSIONS)
RANGES = st.tuples(st.integers(0, 5), st.integers(1, 5)).map(lambda pair: (pair[0], pair[0] + pair[1]))
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(s.Every, inner),
        st.builds(s.Not, inner),
        st.builds(s.Followed, inner, inner),
        st.builds(s.And, inner, inner),
        st.builds(s.Or, inner, inner),
        st.builds(lambda pattern, ends: s.Repeat(pattern, *ends), inner, RANGES),
        st.builds(s.Within, inner, SECONDS),
        st.builds(s.Interval, SECONDS),
        st.builds(s.Until, inner, inner, st.integers(0, 3), st.none() | st.integers(3, 5)),
    ),
    max_leaves=6,
).filter(tree.atoms)
VIEWS = st.one_of(
    st.builds(s.View, NAMES, NAMES, st.lists(st.integers(0, 9) | NAMES, max_size=2).map(tuple)),
    st.builds(s.View, NAMES, NAMES, st.tuples(SECONDS), st.just(True)),
)
SOURCES = st.builds(s.Source, NAMES, st.none() | EXPRESSIONS, st.lists(VIEWS, max_size=2).map(tuple), st.none() | NAMES)
SELECTS = st.lists(
    st.builds(s.Star, st.none() | NAMES) | st.builds(s.Item, EXPRESSIONS, st.none() | NAMES), min_size=1, max_size=3
).map(tuple)


def rules(**given):
    more = st.lists(EXPRESSIONS, max_size=2).map(tuple)
    either = st.none() | EXPRESSIONS
    paces = st.builds(s.Pacing, st.sampled_from(["first", "last"]), st.integers(1, 99))
    paces = st.none() | paces | paces.map(lambda pace: s.Pacing(pace.which, seconds=pace.events / 2))
    limits = st.none() | st.integers(1, 9)
    return st.builds(s.Rule, SELECTS, where=either, group=more, having=either, pace=paces, limit=limits, **given)


@given(rules(sources=st.lists(SOURCES, min_size=1, max_size=2).map(tuple)) | rules(pattern=PATTERNS))
@settings(max_examples=300)
def test_a_tree_as_text_parses_to_the_tree(rule):
    assert parse(show(rule)) == rule


@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS)).map(" ".join))
@settings(max_examples=300)
def test_any_text_parses_or_is_refused(text):
    try:
        found = parse(text)
    except RuleError as error:
        found = error
    assert min(found.line, found.column) >= 1 if isinstance(found, RuleError) else parse(show(found)) == found


COLUMNS = {"i": pa.int64(), "j": pa.int32(), "f": pa.float64(), "t": pa.string(), "b": pa.bool_()}
INTS = st.sampled_from(["i", "j"]).map(lambda n: s.Column(None, n)) | st.sampled_from([0, 1, 3, None]).map(s.Literal)
FLOATS = st.just(s.Column(None, "f")) | st.sampled_from([0.5, -2.25]).map(s.Literal)
PLAIN_TEXTS = st.just(s.Column(None, "t")) | st.sampled_from(["", "a", "ab", None]).map(s.Literal)
PLACES = st.integers(-4, 4).map(lambda n: s.Literal(n) if n >= 0 else s.Unary("-", s.Literal(-n)))
PARTS = st.tuples(PLAIN_TEXTS, PLACES) | st.tuples(PLAIN_TEXTS, PLACES, PLACES)
TEXTS = PLAIN_TEXTS | PARTS.map(lambda parts: s.Call(None, "substring", parts))
YES = st.booleans()


@st.composite
def numbers(draw, depth=2):
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(INTS | FLOATS)
    inner = numbers(depth - 1)
    made = draw(st.integers(0, 5))
    if made == 5:
        return s.Cast(draw(inner), "double")
    if made <= 1:
        return s.Binary(draw(st.sampled_from("+-*/%")), draw(inner), draw(inner))
    if made == 2:
        return s.Unary("-", draw(inner))
    if made == 3:
        return s.Case(((draw(booleans(depth - 1)), draw(inner)),), draw(st.none() | inner))
    return s.Call(None, "coalesce", (draw(inner), draw(inner)))


@st.composite
def booleans(draw, depth=2):
    if depth == 0:
        return draw(st.just(s.Column(None, "b")) | st.sampled_from([True, False, None]).map(s.Literal))
    inner, number = booleans(depth - 1), numbers(depth - 1)
    made = draw(st.integers(0, 6))
    compare = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    if made == 0:
        return s.Unary("not", draw(inner))
    if made == 1:
        return s.Binary(draw(st.sampled_from(["and", "or"])), draw(inner), draw(inner))
    if made == 2:
        return s.Binary(draw(compare), draw(number), draw(number))
    if made == 3:
        return s.Binary(draw(compare), draw(TEXTS), draw(TEXTS))
    if made == 4:
        return s.In(draw(number), tuple(draw(st.lists(number, min_size=1, max_size=2))), draw(YES))
    if made == 5:
        return s.Between(draw(number), draw(number), draw(number), draw(YES))
    return draw(
        st.builds(s.Like, TEXTS, st.sampled_from(["a%", "_", "%b%", ""]).map(s.Literal), YES)
        | st.builds(s.IsNull, inner, YES)
        | st.builds(s.IsNull, TEXTS, YES)
    )


VALUES = st.lists(
    st.tuples(
        st.none() | st.integers(-5, 5),
        st.none() | st.integers(-2, 2),
        st.none() | st.sampled_from([0.0, 0.5, -1.75, 3.0]),
        st.none() | st.sampled_from(["", "a", "ab", "b\nb"]),
        st.none() | st.booleans(),
    ),
    max_size=6,
)


@given(numbers() | booleans() | st.builds(s.Binary, st.just("||"), TEXTS, TEXTS), VALUES)
@settings(max_examples=500)
def test_expressions(expression, rows):
    parts = [list(part) for part in zip(*rows, strict=True)] or [[] for _ in COLUMNS]
    arrays = {("T", name): pa.array(part, kind) for part, (name, kind) in zip(parts, COLUMNS.items(), strict=True)}
    scope = Scope(Text(""), {"T": pa.schema(COLUMNS)})
    compiled = compile_expression(expression, scope)
    found = compiled.evaluate(arrays, len(rows))
    assert found.type == compiled.type
    expected = [evaluate(expression, lambda node, row=row: row[list(COLUMNS).index(node.name)]) for row in rows]
    for one, other in zip(found.to_pylist(), expected, strict=True):
        if isinstance(one, (int, float)) and not isinstance(one, bool):
            assert other is not None
            assert math.isclose(one, other, rel_tol=1e-12) or close(float(one), float(other))
        else:
            assert one == other
