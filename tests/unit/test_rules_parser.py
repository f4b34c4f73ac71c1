"""Rules as text: what they parse to, and what is said about those that are none."""

import pickle

import pytest

from evenflow.errors import InvalidArgument
from evenflow.rules.language import syntax as s
from evenflow.rules.language import tree
from evenflow.rules.language.errors import RuleError, Text
from evenflow.rules.language.parser import parse
from evenflow.rules.language.printing import KEYWORDS, show
from evenflow.rules.language.variables import Variables
from tests.support.rules_runs import PAPER


def expression(text):
    return parse(f"select {text} as it from T").select[0].expression


def test_the_paper_s_rule():
    rule = parse(PAPER, Variables({"H": 500, "tau": 0.2}))
    last, windowed = rule.sources
    assert rule.select == (s.Star(),)
    assert last == s.Source("Tweet", None, (s.View("std", "lastevent"),), "LE")
    assert windowed.views == (s.View("std", "groupwin", ("fingerprint",)), s.View("win", "length", (500,)))
    assert rule.where == s.Binary("=", s.Column("LE", "fingerprint"), s.Column("TW", "fingerprint"))
    call = s.Call("TWEET", "SIMILARITY", (s.Column("LE", "TEXT"), s.Column("TW", "TEXT")))
    assert rule.having == s.Binary("<=", s.Aggregate("max", call), s.Literal(0.2))
    assert (rule.having.line, rule.having.column) == (5, 8)


def test_a_pattern_alone_selects_all():
    text = "every a=Tick(price > 100) -> b=Tick(symbol = a.symbol) where timer:within(10 sec)"
    rule = parse(text)
    assert rule.select == (s.Star(),)
    first = s.Atom("a", "Tick", s.Binary(">", s.Column(None, "price"), s.Literal(100)))
    second = s.Atom("b", "Tick", s.Binary("=", s.Column(None, "symbol"), s.Column("a", "symbol")))
    assert rule.pattern == s.Followed(s.Every(first), s.Within(second, 10.0))
    assert parse(f"select * from pattern [{text}]") == rule


A, B, C = (s.Atom(name.lower(), name) for name in "ABC")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a=A -> b=B -> c=C", s.Followed(s.Followed(A, B), C)),
        ("a=A or b=B and c=C", s.Or(A, s.And(B, C))),
        ("a=A and not b=B -> c=C", s.Followed(s.And(A, s.Not(B)), C)),
        ("every [2:3] a=A", s.Every(s.Repeat(A, 2, 3))),
        ("[4] (a=A -> b=B)", s.Repeat(s.Followed(A, B), 4, 4)),
        ("(a=A -> b=B) where timer : within (1 min 500 msec)", s.Within(s.Followed(A, B), 60.5)),
        ("every a=A where timer:within(1 day)", s.Every(s.Within(A, 86400.0))),
        ("A", s.Atom(None, "A")),
    ],
)
def test_patterns(text, tree):
    assert parse(text).pattern == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3", s.Binary("+", s.Literal(1), s.Binary("*", s.Literal(2), s.Literal(3)))),
        ("1 - 2 - 3", s.Binary("-", s.Binary("-", s.Literal(1), s.Literal(2)), s.Literal(3))),
        (
            "not a = 1 or b",
            s.Binary("or", s.Unary("not", s.Binary("=", s.Column(None, "a"), s.Literal(1))), s.Column(None, "b")),
        ),
        ("'it''s' || \"x\"", s.Binary("||", s.Literal("it's"), s.Literal("x"))),
        ("`a ``b`.`select`", s.Column("a `b", "select")),
        ("x NOT IN (1, null)", s.In(s.Column(None, "x"), (s.Literal(1), s.Literal(None)), True)),
        (
            "x between 1 and 2 and y",
            s.Binary("and", s.Between(s.Column(None, "x"), s.Literal(1), s.Literal(2)), s.Column(None, "y")),
        ),
        ("x <> -.5", s.Binary("!=", s.Column(None, "x"), s.Unary("-", s.Literal(0.5)))),
        ("Count(*)", s.Aggregate("count", None)),
        ("STDDEV(distinct x)", s.Aggregate("stddev", s.Column(None, "x"), True)),
        ("case when a then 1 else 2e3 end", s.Case(((s.Column(None, "a"), s.Literal(1)),), s.Literal(2000.0))),
        ("TRUE is not null", s.IsNull(s.Literal(True), True)),
        ("a[0].price", s.Column("a[0]", "price")),
    ],
)
def test_expressions(text, tree):
    assert expression(text) == tree


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10 sec", 10),
        ("500 msec", 0.5),
        ("2 min", 120),
        ("1 hour", 3600),
        ("1 day", 86400),
        ("1.5 h 3 milliseconds", 5400.003),
        ("2 minutes 1 second", 121),
        ("7 ms", 0.007),
        ("3 DAYS", 259200),
        ("1m 1s", 61),
        ("10sec", 10),
        ("1.5h", 5400),
        ("1e1 sec", 10),
    ],
)
def test_times(text, seconds):
    (view,) = parse(f"select * from T.win:time({text})").sources[0].views
    assert view.timed
    assert view.arguments == (pytest.approx(seconds),)


def test_comments_and_a_semicolon():
    assert parse("select * -- all\n/* of\nit */ from T // here\n;") == parse("select * from T")


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("select", 1, 7, "the rule ends where an expression or '*' was expected"),
        ("", 1, 1, "the rule ends where a name, '(', '[', EVERY, NOT, SELECT or timer:interval(...) was expected"),
        ("select *\nfrom", 2, 5, "the rule ends where a name or PATTERN was expected"),
        ("select * from T where\n  price > ", 2, 10, "the rule ends where an expression was expected"),
        ("select a b c from T", 1, 12, "'c' where ',' or FROM was expected"),
        ("select from T", 1, 8, "'from' where an expression or '*' was expected"),
        ("select * from T group a", 1, 23, "'a' where BY was expected"),
        ("select 'abc from T", 1, 8, "a string that does not end"),
        ("select * from T where (a = 1", 1, 29, "where ')' was expected"),
        ("select * from T.win:time(10 x)", 1, 29, "a unit of time (msec, sec, min, hour, day)"),
        ("select * from T.win(5)", 1, 20, "'(' where ':' was expected"),
        ("every a=Tick ->", 1, 16, "where a name, '(', '[', EVERY, NOT or timer:interval(...) was expected"),
        ("a=A where x", 1, 11, "'x' where timer:within(...) was expected"),
        ("select # from T", 1, 8, "'#' where an expression"),
        ("select * from T where a not 5", 1, 29, "'5' where BETWEEN, IN or LIKE was expected"),
        ("select max(*) from T", 1, 8, "only count(*) does"),
        ("select max(a, b) from T", 1, 8, "max takes one argument, here are 2"),
        ("select f(distinct a) from T", 1, 8, "'f' is no aggregate"),
        ("[3:2] A", 1, 2, "[3:2] repeats nothing"),
        (
            "select 1 from T having 1 = 1 extra",
            1,
            30,
            "'extra' where LIMIT, OUTPUT or the end of the rule was expected",
        ),
        ("select x * 1_000 from T", 1, 12, "a number runs into a name"),
        ("select 5x from T", 1, 8, "a number runs into a name"),
        ("select 5s from T", 1, 8, "a number runs into a name"),
        ("select 0x10 from T", 1, 8, "a number runs into a name"),
        ("select 1.5e from T", 1, 8, "a number runs into a name"),
        ("select 2e3x from T", 1, 8, "a number runs into a name"),
        ("select * from T.win:length(5x)", 1, 28, "a number runs into a name"),
        ("select * from T where a == 1", 1, 26, "write = instead of =="),
        ("SELCT * FROM T", 1, 7, "a rule starts with SELECT, or is a pattern"),
    ],
)
def test_what_is_wrong(text, line, column, says):
    with pytest.raises(RuleError) as caught:
        parse(text)
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_the_place_is_shown():
    with pytest.raises(RuleError) as caught:
        parse(Text("select *\n\tfrom T,", "mine"))
    assert str(caught.value) == (
        "rule 'mine': line 2, column 9: the rule ends where a name was expected\n    \tfrom T,\n    \t       ^"
    )
    assert isinstance(caught.value, InvalidArgument)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.line, again.column) == (str(caught.value), 2, 9)


@pytest.mark.parametrize("text", [f"select {'- ' * 5000}1 from T", f"select {'1 + ' * 5000}1 from T"])
def test_nested_too_deeply(text):
    with pytest.raises(RuleError, match="nested too deeply"):
        parse(text)


@pytest.mark.parametrize("joint", ["or", "and"])
def test_long_chains_are_not_deep(joint):
    rule = parse(f"select * from T where {f' {joint} '.join(f'x = {n}' for n in range(3000))}")
    assert tree.depth(rule) < 20
    found = [node.value for node in tree.walk(rule) if isinstance(node, s.Literal)]
    assert found == list(range(3000))


def test_every_keyword_can_be_a_name_in_backquotes():
    for word in KEYWORDS - {"null", "true", "false"}:
        assert show(parse(f"select `{word}` from T")) == f"select `{word}` from T"
        with pytest.raises(RuleError):
            parse(f"select {word} from T")


@pytest.mark.parametrize(
    "text",
    [
        "select price m, x s from T d",
        "select x first, y events from T until",
        "select until, output, limit, hour, m from T limit where until > events",
        "every s=M -> m=D(s > m)",
    ],
)
def test_words_that_mean_something_elsewhere_are_names(text):
    assert parse(show(parse(text))) == parse(text)
