"""Rules over windows against a plain interpreter, for any rows, any batches and any moves."""

from collections import Counter
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.rules.operator import RuleOperator
from evenflow.rules.windows import grouped
from tests.support import operators_model, rules_model, rules_time

pytestmark = pytest.mark.slow

KEYS, TEXTS = [-(2**63), 0, 1, 7], [None, "a", "b", "", "aé"]
SEEDS = st.integers(0, 2**32 - 1)


def many(seed, count):
    """Rows as below, but always many: lists that are drawn are mostly short."""
    random = np.random.default_rng(seed)
    x = [None if value == 10 else int(value) for value in random.integers(-3, 11, count)]
    texts = [TEXTS[place] for place in random.integers(0, len(TEXTS), count)]
    times = np.clip(np.arange(count) // 2 - random.integers(0, 9, count) ** 2 // 8, 0, 25)
    keys = [KEYS[place] for place in random.integers(0, random.integers(1, 5), count)]
    return list(zip(keys, x, texts, times.tolist(), (random.random(count) < 0.5).tolist(), strict=True))


ROWS = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.one_of(st.none(), st.integers(-3, 9)),
        st.sampled_from(TEXTS),
        st.integers(0, 25),
        st.booleans(),
    ),
    max_size=60,
)
UNITS = [1, 3, 1000]
AGGREGATES = [
    "count(*)",
    "count(x)",
    "count(g)",
    "sum(x)",
    "avg(x)",
    "min(x)",
    "max(x + 1)",
    "stddev(x)",
    "sum(x * x) / 2",
]
LISTED = ["count(distinct x)", "count(distinct g)", "first(x)", "first(g)", "last(x + 1)", "min(g)", "max(g || 'x')"]
EDGES = ["window_start()", "window_end()", "window_end() - 1"]
PREVIOUS = ["prev(x)", "prev(2, g)", "prev(3, x)"]
WHERE = ["", " where x > 1", " where g = 'a' or x is null", " where not (g like 'a%')"]
GROUP = ["", " group by g", " group by k", " group by g, x % 2"]
HAVING = ["", " having count(*) > 1", " having max(x) > 2 and x is not null", " having avg(x) <= 3"]
FILTER = ["", "(x != 2)", "(g is not null and b)"]
SLIDING = [
    "",
    ".std:lastevent()",
    ".win:length(1)",
    ".win:length(4)",
    ".win:time(5 sec)",
    ".win:time(1 min)",
    ".std:groupwin(g).win:length(2)",
    ".std:groupwin(k).win:length(3)",
    ".std:groupwin(g).win:time(6 sec)",
]
BATCHES = [
    ".win:length_batch(1)",
    ".win:length_batch(3)",
    ".win:time_batch(4 sec)",
    ".win:time_batch(10 sec)",
    ".std:groupwin(g).win:length_batch(2)",
    ".std:groupwin(g).win:time_batch(5 sec)",
]
LATENESS = [None, 0, 3, 100]


def table(rows):
    keys, x, g, t, b = [list(part) for part in zip(*rows, strict=True)] or [[] for _ in range(5)]
    batch = pa.record_batch(
        {
            "k": pa.array(keys, pa.int64()),
            "x": pa.array(x, pa.int32()),
            "g": pa.array(g, pa.string()),
            "t": pa.array(t, pa.int64()),
            "b": pa.array(b, pa.bool_()),
        }
    )
    return batch, keys, t


def check(text, rows, units, seed, lateness=None, functions=None, plain=None):
    batch, keys, times = table(rows)
    operator = RuleOperator(text, functions, key=["k"], time="t", lateness_s=lateness)
    hashes, homes = operators_model.hashed(keys, units)
    found, origin = operators_model.moving(operator, batch, homes, hashes, seed=seed, sizes=(0, 1, 2, 5, 30))
    expected, late = rules_model.run(text, batch.to_pylist(), keys, times, functions=plain, lateness=lateness)
    assert found.schema == operator.schema(batch.schema)
    results = found.to_pylist()
    if lateness is not None:
        given_late = [(place, row.pop("late")) for place, row in zip(origin.tolist(), results, strict=True)]
        at = [place for place, row in given_late if row is not None]
        assert at == late
        assert [row for _, row in given_late if row is not None] == [batch.to_pylist()[place] for place in late]
        keep = [row is None for _, row in given_late]
        results = [row for row, kept in zip(results, keep, strict=True) if kept]
        origin = origin[np.array(keep, bool)]
    assert origin.tolist() == [place for place, _ in expected]
    for one, (_, other) in zip(results, expected, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if isinstance(value, float) or isinstance(other[name], float):
                assert operators_model.close(value, other[name]), (name, one, other)
            else:
                assert value == other[name], (name, one, other)


class Draw:
    """Choices that are even: parts of a rule that hypothesis draws one by one are mostly the same."""

    def __init__(self, seed):
        self.random = Random(seed)

    def one(self, options):
        return self.random.choice(options)

    def some(self, options):
        return ", ".join(self.random.sample(options, self.random.randint(1, 3)))

    def check(self, text, rows, lateness=None, **more):
        """Against the rows that are given, if any, or many."""
        seed = self.random.getrandbits(32)
        check(text, rows or many(seed, self.random.randint(20, 60)), self.one(UNITS), seed, lateness, **more)


FEW = st.just([]) | ROWS


@given(SEEDS, FEW, st.sampled_from([0, grouped.FEW]))
@settings(max_examples=150)
def test_sliding(seed, rows, few):
    """Whether groups are let go all the time or never."""
    draw = Draw(seed)
    source = f"T{draw.one(FILTER)}{draw.one(SLIDING)}{draw.one(WHERE)}{draw.one(GROUP)}{draw.one(HAVING)}"
    with patch.object(grouped, "FEW", few):
        draw.check(f"select k, g, x, {draw.some(AGGREGATES)} from {source}", rows, draw.one(LATENESS))


@given(SEEDS, FEW)
@settings(max_examples=100)
def test_values_of_the_window(seed, rows):
    draw = Draw(seed)
    source = f"T{draw.one(FILTER)}{draw.one(SLIDING[1:])}{draw.one(WHERE)}{draw.one(GROUP)}{draw.one(HAVING)}"
    select = draw.some(LISTED + PREVIOUS)
    draw.check(f"select k, g, x, {select} from {source}", rows, draw.one(LATENESS))


PACES = [f" output {which} every {many}" for which in ("first", "last") for many in ("1 event", "3 events", "4 sec")]


@given(SEEDS, FEW)
@settings(max_examples=80)
def test_some_of_the_results(seed, rows):
    draw = Draw(seed)
    source = f"T{draw.one(FILTER)}{draw.one(SLIDING)}{draw.one(WHERE)}{draw.one(['', ' group by k'])}"
    if draw.one([True, False]):
        source = f"{draw.one(LEADS)} A, {draw.one(OTHERS)} B"
        text = f"select A.t, B.t as bt from {source}{draw.one(PAIRWISE)}{draw.one(PACES)}"
    else:
        text = f"select t, x, count(*) from {source}{draw.one(HAVING)}{draw.one(PACES)}"
    if draw.one([True, False]):
        draw.check(text, rows, draw.one(LATENESS))
    else:
        lateness, end = draw.one([(None, True), (0, True), (0, False), (3, True), (3, False)])
        check_in_time(text, rows or many(seed, 50), draw.one(UNITS), seed, lateness, end)


@given(SEEDS, FEW)
@settings(max_examples=40)
def test_rows_that_pass(seed, rows):
    draw = Draw(seed)
    draw.check(f"select *, x * 2 as y from T{draw.one(FILTER)}{draw.one(SLIDING)}{draw.one(WHERE)}", rows)


@given(SEEDS, FEW)
@settings(max_examples=150)
def test_batches(seed, rows):
    draw = Draw(seed)
    source = f"T{draw.one(FILTER)}{draw.one(BATCHES)}{draw.one(WHERE)}{draw.one(GROUP)}{draw.one(HAVING)}"
    some = draw.some(AGGREGATES + LISTED + (EDGES if "win:time" in source else []))
    limit = draw.one(["", "", " limit 1", " limit 2"])
    draw.check(f"select {draw.one(['', 'g, ', 'x, '])}{some} from {source}{limit}", rows, draw.one(LATENESS))


TIMED = [".win:time(5 sec)", ".std:groupwin(g).win:time(6 sec)", *(each for each in BATCHES if "time" in each)]


def check_in_time(text, rows, units, seed, lateness, end, plain=None, functions=None):
    """Against rows in the order of their times, however they come and whatever time passes between them."""
    batch, keys, times = table(rows)
    operator = RuleOperator(text, functions, key=["k"], time="t", lateness_s=lateness, in_order=True)
    driver = rules_time.Moving(operator, batch, keys, units, lateness=lateness, seed=seed)
    at = 0
    while at < batch.num_rows:
        size = batch.num_rows if lateness is None else int(driver.random.choice([1, 2, 5, 30]))
        driver.frame(np.arange(at, min(at + size, batch.num_rows)))
        at += size
    if end:
        driver.end()
    there = [place for place in range(len(rows)) if place not in {*driver.late, *driver.held.tolist()}]
    some = [batch.to_pylist()[place] for place in there]
    given = [keys[place] for place in there], [times[place] for place in there]
    expected = rules_model.in_time(text, some, *given, functions=plain, now=None if end else driver.now)
    late = [row.pop("late") for row in driver.results if "late" in row]
    assert sum(row is not None for row in late) == len(driver.late)
    found = [row for row in driver.results if any(value is not None for value in row.values())]
    assert Counter(map(shown, found)) == Counter(
        shown(row) for row in expected if any(v is not None for v in row.values())
    )


def shown(row):
    return str(
        {name: round(float(value), 6) if isinstance(value, float | int) else value for name, value in row.items()}
    )


@given(SEEDS, FEW)
@settings(max_examples=80)
def test_windows_when_time_passes(seed, rows):
    draw = Draw(seed)
    source = f"T{draw.one(FILTER)}{draw.one(TIMED)}{draw.one(WHERE)}{draw.one(GROUP)}{draw.one(HAVING)}"
    some = draw.some(AGGREGATES + LISTED + (EDGES if "time_batch" in source else []))
    text = f"select {draw.one(['', 'g, ', 'x, '])}{some} from {source}"
    lateness, end = draw.one([(None, True), (0, True), (0, False), (3, True), (3, False), (100, True)])
    check_in_time(text, rows or many(seed, 50), draw.one(UNITS), seed, lateness, end)


LEADS = ["T.std:lastevent()", "T", "T(x > 0).std:lastevent()"]
OTHERS = [
    "T.win:length(3)",
    "T(b).win:length(2)",
    "T.win:time(5 sec)",
    "T.std:groupwin(k).win:length(4)",
    "T.std:lastevent()",
]
PAIRWISE = [
    "",
    " where A.k = B.k",
    " where A.x > B.x",
    " where A.k = B.k and A.g = B.g and A.x > 0",
    " where B.x in (1, 2, A.x)",
]
OVER_PAIRS = [
    "count(distinct B.x)",
    "first(B.g)",
    "max(B.g)",
    "last(B.x)",
    "count(*)",
    "sum(B.x)",
    "max(A.x - B.x)",
    "avg(A.x * B.x)",
    "stddev(B.x)",
    "min(near(A.x, B.x))",
]
ENDS = ["", " having count(*) = 0", " having max(near(A.x, B.x)) <= 2", " having A.x > 1"]


def near(one, other):
    return (one - other).abs()


def plain_near(one, other):
    return None if one is None or other is None else abs(one - other)


FUNCTIONS = {"functions": {"near": near}, "plain": {"near": plain_near}}


@given(SEEDS, FEW)
@settings(max_examples=120)
def test_join_with_aggregates(seed, rows):
    draw = Draw(seed)
    lead, other = draw.one(LEADS), draw.one(OTHERS)
    turned = draw.one([False, True]) and "lastevent" not in other
    items = f"{other} B, {lead} as A" if turned else f"{lead} A, {other} as B"
    text = f"select A.k, A.g, {draw.some(OVER_PAIRS)} from {items}{draw.one(PAIRWISE)}{draw.one(ENDS)}"
    draw.check(text, rows, draw.one(LATENESS), **FUNCTIONS)


@given(SEEDS, FEW)
@settings(max_examples=25)
def test_joins_when_time_passes(seed, rows):
    draw = Draw(seed)
    text = f"select A.t, B.t as bt, B.g from {draw.one(LEADS)} A, T.win:time(5 sec) B{draw.one(PAIRWISE)}"
    check_in_time(text, rows or many(seed, 50), draw.one(UNITS), seed, draw.one([0, 3]), True)


@given(SEEDS, FEW)
@settings(max_examples=80)
def test_join_of_pairs(seed, rows):
    draw = Draw(seed)
    select = draw.one(["*", "A.t, B.t as bt, B.g", "A.k, A.x, near(A.x, B.x) as d"])
    text = f"select {select} from {draw.one(LEADS)} A, {draw.one(OTHERS)} B{draw.one(PAIRWISE)}"
    draw.check(text, rows, draw.one(LATENESS), **FUNCTIONS)


@given(SEEDS, FEW)
@settings(max_examples=40)
def test_a_window_for_each_value_in_a_join(seed, rows):
    draw = Draw(seed)
    rows = [row for row in rows or many(seed, 50) if row[2] is not None]
    source = f"T.std:groupwin(g).{draw.one(['win:length(2)', 'win:time(5 sec)'])}"
    draw.check(f"select A.t, count(*), sum(B.x) from T.std:lastevent() A, {source} B where A.g = B.g", rows)


BOTH = [
    "select A.t, B.t as bt from L.win:length(2) A, R.win:length(3) B",
    "select A.t, B.t as bt, B.g from L.win:time(5 sec) A, R(x > 0).win:length(2) B where A.x >= B.x or A.g = B.g",
    "select A.t, B.t as bt from L A, R.win:time(6 sec) B where A.x is not null",
    "select A.t, B.t as bt from R.std:lastevent() B, L.win:length(4) A",
    "select A.t, count(*), sum(B.x) from R.win:time(9 sec) B, L.std:lastevent() A where A.x > B.x",
    "select t, count(*), max(x) from R(x > 0).win:time(5 sec)",
    "select t, avg(x) from L.win:time(8 sec) group by g",
    "select t, sum(x) from L(x > 0).win:time(3 sec) group by x",
    "select count(*), sum(x) from R.win:time_batch(6 sec)",
]


@given(SEEDS, FEW)
@settings(max_examples=120)
def test_two_streams(seed, rows):
    draw = Draw(seed)
    text, lateness, units = draw.one(BOTH), draw.one(LATENESS), draw.one(UNITS)
    rows = rows or many(seed, 50)
    batch, keys, times = table(rows)
    names = ["L" if row[4] else "R" for row in rows]
    batch = batch.append_column("s", pa.array(names, pa.string()))
    columns = {"streams": {"L": batch.schema.names[:5], "R": batch.schema.names[:5]}, "stream_column": "s"}
    operator = RuleOperator(text, key=["k"], time="t", lateness_s=lateness, **columns)
    hashes, homes = operators_model.hashed(keys, units)
    found, origin = operators_model.moving(operator, batch, homes, hashes, seed=seed, sizes=(0, 1, 2, 5, 30))
    expected, late = rules_model.run(text, batch.to_pylist(), keys, times, streams="s", lateness=lateness)
    results = [
        (place, tuple(value for name, value in row.items() if name != "late"))
        for place, row in zip(origin.tolist(), found.to_pylist(), strict=True)
        if place not in late
    ]
    assert [place for place, _ in results] == [place for place, _ in expected]
    for (_, one), (_, other) in zip(results, expected, strict=True):
        assert (
            all(map(operators_model.close, one, other.values())) if "g" not in other else one == tuple(other.values())
        )
