"""RuleOperator: the paper's rule, several rules and streams, large and null texts, state, laws."""

import pickle
import pkgutil
import subprocess
import sys
from importlib import import_module

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import evenflow.operators
import evenflow.rules
from evenflow.errors import FunctionError, InvalidArgument
from evenflow.operators.keyed import identity
from evenflow.rules.expressions.frame import RuleFrame
from evenflow.rules.operator import RuleOperator
from evenflow.rules.windows.memory import BLOCK
from evenflow.testing import check_operator
from tests.support.rules_runs import PAPER, push

ISSUE = """SELECT * FROM Tweet.std:lastevent() LE, Tweet.std:groupwin(fingerprint).win:length(500) TW
           WHERE LE.fingerprint = TW.fingerprint
           HAVING max(similarity(LE.text, TW.text)) <= 0.2"""


def overlap(one, other):
    """The share of words that two texts have in common; null if a text is."""
    found = []
    for a, b in zip(one, other, strict=True):
        if a is None or b is None:
            found.append(None)
        else:
            mine, theirs = set(a.split()), set(b.split())
            found.append(len(mine & theirs) / max(1, len(mine | theirs)))
    return pd.Series(found, dtype=float)


TEXTS = [
    "storm hits coast",
    "storm hits coast hard",
    "cup final tonight",
    None,
    "storm coast",
    "final of the cup tonight",
    "x",
]


@pytest.mark.parametrize(
    ("rule", "variables"), [(ISSUE, {}), (PAPER, {"H": 500, "tau": 0.2}), (PAPER, {"h": np.int32(500), "τ": 0.2})]
)
@pytest.mark.parametrize("frame", [None, 1, 3])
def test_first_stories(rule, variables, frame):
    """Listing 1.1 is as the paper prints it, with a Greek letter; users may give that by its name."""
    operator = RuleOperator(rule, {"similarity": overlap}, variables=variables, key=["fingerprint"])
    columns = {"fingerprint": pa.array([1] * 7), "text": pa.array(TEXTS)}
    found, origins = push(operator, columns, [1] * 7, frame)
    assert origins == [2, 6]  # the first row has no pairs, a null text has no similarity
    assert [row["text"] for row in found] == ["cup final tonight", "x"]
    assert operator.schema(pa.schema({"fingerprint": pa.int64(), "text": pa.string()})).names == ["fingerprint", "text"]


def test_first_stories_of_keys_do_not_meet():
    operator = RuleOperator(ISSUE, {"similarity": overlap}, key=["fingerprint"])
    columns = {"fingerprint": pa.array([1, 2, 1, 2]), "text": pa.array(["a b", "a b", "c", "a"])}
    assert push(operator, columns, [1, 2, 1, 2])[1] == [2]


def test_a_null_key_is_equal_to_nothing():
    operator = RuleOperator(ISSUE.replace("<= 0.2", "is null"), {"similarity": overlap}, key=["fingerprint"])
    columns = {"fingerprint": pa.array([None, None, 1], pa.int64()), "text": pa.array(["a", "b", "c"])}
    assert push(operator, columns, [0, 0, 1])[1] == [0, 1, 2]


def test_texts_of_a_megabyte():
    large = ["a" * 2**20 + str(n) for n in range(40)]
    calls = []

    def longest(one, other):
        calls.append(len(one))
        return (one.str.len() + other.str.len()).astype(float)

    text = """select max(f(A.text, B.text)) m, count(*) n from T.std:lastevent() A, T.win:length(30) B
              where A.text != B.text"""
    found, _ = push(RuleOperator(text, {"f": longest}), {"text": pa.array(large)})
    assert [row["n"] for row in found] == [min(30, n) for n in range(40)]
    assert found[-1]["m"] == 2 * (2**20 + 2)
    assert max(calls) <= 64  # not many such texts are copied at a time


def test_windows_longer_than_a_block_of_pairs():
    count = BLOCK + 10
    operator = RuleOperator("select count(*) n, sum(B.x) s from T.std:lastevent() A, T.win:time(1 hour) B", time="t")
    zeros = {"x": pa.array(np.ones(count)), "t": pa.array(np.zeros(count, np.int64))}
    rows = pa.record_batch(zeros)
    units, keys = np.zeros(count, np.int32), np.zeros(count, np.int64)
    bound = operator._running(rows.schema)
    memory = next(state for state in bound.world.states if hasattr(state, "pairs"))
    frame = RuleFrame(rows, units, keys, np.zeros(count, np.int64), np.zeros(count, np.int64))
    memory.enter(units, keys, keys, None, rows, frame.times, frame.latest)
    found, _ = operator.process(rows.slice(0, 1), units[:1], keys[:1])
    assert found.to_pylist() == [{"n": count, "s": float(count)}]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"rules": None}, "rules=None: give a text, or several by name or in a list"),
        ({"rules": 5}, "rules=5: give a text"),
        ({"rules": b"select x from T"}, "rules=b'select x from T': give a text"),
        ({"rules": [5]}, "rules has 'rule1': 5: give names and texts"),
        ({"functions": [len]}, "functions=[<built-in function len>]: give a dict of functions by their names"),
        ({"time": 5}, "time=5: give the name of a column"),
        ({"time": "t", "lateness_s": True}, "lateness is True: give seconds from 0 on"),
    ],
)
def test_arguments_of_the_wrong_kind(arguments, says):
    with pytest.raises(InvalidArgument) as caught:
        RuleOperator(**{"rules": "select x from T", **arguments})
    assert says in str(caught.value)


def test_several_rules_are_told_apart():
    rules = {
        "high": "select x from T where x > 2",
        "mean": "select x, avg(x) as mean from T.win:length(2)",
        "pattern": "a=T(x > 2) -> b=T(x < 2)",
    }
    found, origins = push(RuleOperator(rules), {"x": pa.array([1.0, 3.0, 1.0])})
    assert origins == [0, 1, 1, 2, 2]
    none = {"x": None, "mean": None, "a_x": None, "b_x": None}
    assert found == [
        none | {"rule": "mean", "x": 1.0, "mean": 1.0},
        none | {"rule": "high", "x": 3.0},
        none | {"rule": "mean", "x": 3.0, "mean": 2.0},
        none | {"rule": "mean", "x": 1.0, "mean": 2.0},
        none | {"rule": "pattern", "a_x": 3.0, "b_x": 1.0},
    ]
    assert next(iter(found[0])) == "rule"
    unnamed, _ = push(RuleOperator(list(rules.values())[:2]), {"x": pa.array([5.0])})
    assert [row["rule"] for row in unnamed] == ["rule1", "rule2"]


def test_rules_share_what_is_the_same():
    calls = []

    def f(values):
        calls.append(len(values))
        return values

    rules = [
        "select avg(f(x)) from T(y > 0).win:length(3) where x > 1",
        "select avg(F(t.X)) + 1 as other from T(Y > 0).win:length(3) t where t.x > 1 having avg(f(x)) > 0",
        "select avg(f(x)) from T(y > 0).win:length(4) where x > 1",
        "select count(*) n from T.std:lastevent() A, T.win:length(3) B",
        "select max(B.y) m from T.std:lastevent() LE, T.win:length(3) B where LE.x > 0",
        "select sum(x) from T.win:length_batch(2)",
        "select sum(y) from T.win:length_batch(2) where x > 1",
    ]
    operator = RuleOperator(rules, {"f": f, "F": f})
    push(operator, {"x": pa.array([2.0, 3.0]), "y": pa.array([1.0, 1.0])})
    kinds = [type(state).__name__ for state in operator._engine.world.states]
    assert kinds == ["Rings", "Rings", "Rings", "Memory", "OpenBatches"]  # f and F are two functions
    assert len(calls) == 3


def test_two_streams():
    rules = {
        "pairs": "select T.price, N.score from Tick.win:length(2) T, News.win:length(1) N where T.price > N.score",
        "lead": "select price, max(N.score) as top from Tick T, News.win:length(9) N",
        "ticks": "select * from Tick where price > 3",
        "after": "select a.score, b.price from pattern [every a=News -> b=Tick]",
    }
    operator = RuleOperator(
        rules, streams={"Tick": ["k", "price"], "News": ["k", "score"]}, stream_column="stream", key=["k"]
    )
    columns = {
        "k": pa.array([1] * 5),
        "price": pa.array([4.0, None, None, 5.0, 2.0]),
        "score": pa.array([None, 3.0, 6.0, None, None]),
        "stream": pa.array(["Tick", "News", "News", "Tick", "Tick"]),
    }
    found, origins = push(operator, columns)
    numbered = RuleOperator(rules, streams=operator.streams, stream_column="stream", key=["k"])
    by_number = push(numbered, {**columns, "stream": pa.array([0, 1, 1, 0, 0], pa.int32())})
    assert by_number == (found, origins)
    shown = [
        (place, {k: v for k, v in row.items() if v is not None}) for place, row in zip(origins, found, strict=True)
    ]
    assert shown == [
        (0, {"rule": "lead", "price": 4.0}),
        (0, {"rule": "ticks", "price": 4.0, "k": 1}),
        (1, {"rule": "pairs", "price": 4.0, "score": 3.0}),
        (3, {"rule": "lead", "price": 5.0, "top": 6.0}),
        (3, {"rule": "ticks", "price": 5.0, "k": 1}),
        (3, {"rule": "after", "score": 3.0, "price": 5.0}),
        (3, {"rule": "after", "score": 6.0, "price": 5.0}),
        (4, {"rule": "lead", "price": 2.0, "top": 6.0}),
    ]
    columns["stream"] = pa.array(["Tick", "Tock", "News", "Tick", "Tick"])
    with pytest.raises(FunctionError, match="column 'stream' is 'Tock' in a row; streams are 'Tick', 'News'"):
        push(operator, columns)


def test_late_rows_go_to_their_own_column():
    operator = RuleOperator("select t, count(*) n from T.win:time(10 sec)", time="t", lateness_s=2)
    found, origins = push(operator, {"t": pa.array([10, 7, 8, 30, 20, 28]), "x": pa.array(list("abcdef"))})
    assert origins == [0, 1, 2, 3, 4, 5]
    assert [(row["t"], row["n"]) for row in found] == [(10, 1), (None, None), (8, 2), (30, 1), (None, None), (28, 2)]
    assert [row["late"] for row in found if row["late"]] == [{"t": 7, "x": "b"}, {"t": 20, "x": "e"}]
    assert operator.tallies() == {"late": 2}
    assert pickle.loads(pickle.dumps(operator)).tallies() == {"late": 0}


@pytest.mark.parametrize("frame", [None, 1])
def test_a_window_is_as_it_was_when_the_row_came(frame):
    """A row that comes later but belongs before others is not seen by those before it."""
    operator = RuleOperator("select A.t, count(*) n, max(B.t) as m from T A, T.win:time(10 sec) B", time="t")
    found, _ = push(operator, {"t": pa.array([10, 12, 13, 11, 14])}, frame=frame)
    assert [(row["n"], row["m"]) for row in found] == [(0, None), (1, 10.0), (2, 12.0), (3, 13.0), (4, 13.0)]


def test_times_that_are_null_are_refused():
    operator = RuleOperator("select t from T.win:time(1 sec)", time="t")
    with pytest.raises(FunctionError, match="column 't' is the time and is null in 1 rows"):
        push(operator, {"t": pa.array([1, None])})


RULES = [
    "select k, avg(x), max(x), count(*) from T.win:length(5) where x > 1 having count(*) > 1",
    "select k, g, sum(x) from T(x > 0).win:time(9 sec) group by g",
    "select k, stddev(x) from T.std:groupwin(g).win:length(3)",
    "select g, sum(x) from T group by g",
    "select A.t, B.g, B.t as bt from T.std:lastevent() A, T.win:time(6 sec) B where A.x > B.x",
    "select k, g, max(f(A.x, B.x)) from T A, T.win:length(4) B where A.k = B.k and A.g != B.g".replace(
        "k, g", "A.k, A.g"
    ),
    "select g, count(*), avg(x) from T.win:time_batch(7 sec) group by g",
    "select t, g, avg(x) from T.std:groupwin(g).win:length_batch(3) where x > 2",
    "every a=T(x > 5) -> b=T(x < a.x and g = a.g) where timer:within(10 sec)",
]


def product(one, other):
    return one * other


def sample(count):
    random = np.random.default_rng(3)
    return pa.record_batch(
        {
            "k": pa.array(random.integers(0, 5, count)),
            "x": pa.array(random.integers(0, 9, count).astype(float), mask=random.random(count) < 0.1),
            "g": pa.array(random.choice(["a", "b", "long text"], count), mask=random.random(count) < 0.1),
            "t": pa.array(np.arange(count) - random.integers(0, 6, count)),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lateness", [None, 2])
def test_laws(rule, lateness):
    operator = RuleOperator(rule, {"f": product}, key=["k"], time="t", lateness_s=lateness)
    check_operator(operator, sample(150), key="k", rounds=2, time="t")


@pytest.mark.parametrize("rule", [rule for rule in RULES if "time" in rule])
def test_laws_of_rows_in_order(rule):
    rows = sample(150)
    rows = rows.take(pc.sort_indices(rows["t"]))
    operator = RuleOperator(rule, {"f": product}, key=["k"], time="t", lateness_s=2, in_order=True)
    check_operator(operator, rows, key="k", rounds=2, time="t")


@pytest.mark.slow
def test_laws_of_many_rules():
    operator = RuleOperator(RULES, {"f": product}, key=["k"], time="t", lateness_s=2)
    check_operator(operator, sample(100), key="k", rounds=1, copies=2, units=3, time="t")


def test_state_may_come_before_rows():
    rows = sample(300)
    rule = "select k, sum(x) s from T.win:length(5)"
    one, other, whole = (RuleOperator(rule, key=["k"]) for _ in range(3))
    units, keys = np.zeros(300, np.int32), rows["k"].to_numpy()
    expected, _ = whole.process(rows, units, keys)
    first, _ = one.process(rows.slice(0, 200), units[:200], keys[:200])
    state = pickle.loads(pickle.dumps(one.extract(0)))
    assert one.extract(0) is None
    other.install(0, state)
    assert other.sizes(np.array([0, 1], np.int32)).tolist()[0] > 0
    other.install(0, other.extract(0))
    second, _ = other.process(rows.slice(200), units[200:], keys[200:])
    assert pa.Table.from_batches([first, second]).to_pylist() == expected.to_pylist()


def test_memory_is_bounded_by_the_windows():
    operator = RuleOperator("select max(A.x - B.x) from T.std:lastevent() A, T.win:length(3) B")
    batches = RuleOperator("select x from T.win:length_batch(3)")
    for _ in range(50):
        rows = pa.record_batch({"x": pa.array(np.zeros(1000))})
        for each in (operator, batches):
            each.process(rows, np.zeros(1000, np.int32), np.arange(1000) % 10)
    for each in (operator, batches):
        (state,) = each._engine.world.states
        assert state.store.length < 5000
        assert each.sizes(np.array([0], np.int32))[0] < 20_000


def test_an_operator_is_what_it_was_given():
    operator = RuleOperator("select f(x) y from T", {"f": product}, key=["k"], time="t")
    again = pickle.loads(pickle.dumps(operator))
    assert identity(operator) == identity(again)
    assert identity(operator) != identity(RuleOperator("select f(x) z from T", {"f": product}, key=["k"], time="t"))
    long, short = (RuleOperator("select count(*) n from T.win:length(H)", variables={"H": n}) for n in (5, 6))
    assert identity(long) == identity(pickle.loads(pickle.dumps(long))) != identity(short)


@pytest.mark.parametrize(
    ("rules", "more", "matters"),
    [
        ("select x from T(x > 1) where x < 5 having x != 2", {}, False),
        (["select x from T", "select *, x + 1 as y from T where x > 0"], {}, False),
        ("select count(*) from T", {}, True),
        ("select x from T.std:lastevent()", {}, True),
        ("every a=T -> b=T", {}, True),
        ("select max(A.x - B.x) from T A, T.win:length(3) B", {}, True),
        (["select x from T", "select sum(x) from T.win:length(2)"], {}, True),
        ("select sum(x) from T.win:length(2)", {"as_they_come": True}, False),
    ],
)
def test_whether_the_order_of_rows_matters(rules, more, matters):
    assert pickle.loads(pickle.dumps(RuleOperator(rules, **more))).order_sensitive == matters


def signatures():
    packages = evenflow.rules, evenflow.operators
    modules = [
        f"{package.__name__}.{found.name}" for package in packages for found in pkgutil.iter_modules(package.__path__)
    ]
    functions = [
        value for name in modules for value in vars(import_module(name)).values() if hasattr(value, "signatures")
    ]
    return {f"{function.__module__}.{function.__qualname__}": list(function.signatures) for function in functions}


def work(rule, lateness):
    operator = RuleOperator(rule, {"f": product}, key=["k"], time="t", lateness_s=lateness)
    whole = sample(300)
    for part in (whole, whole.slice(0, 0), whole.slice(7, 1)):
        part = pa.ipc.read_record_batch(pa.py_buffer(bytearray(part.serialize())), part.schema)
        keys = part["k"].to_numpy()
        operator.process(part, keys.astype(np.int32), keys)
    operator.sizes(np.arange(5, dtype=np.int32))
    for unit in range(5):
        state = pickle.loads(pickle.dumps(operator.extract(unit)))
        if state is not None:
            operator.install(unit, state)
    for seconds in (20, 1_000):
        operator.on_time(seconds * 1_000_000, np.arange(5, dtype=np.int32))
    operator.process(whole, whole["k"].to_numpy().astype(np.int32), whole["k"].to_numpy())
    operator.on_end(np.arange(5, dtype=np.int32))


def late_compilation():
    """In a process of its own: what is compiled although a rule over a window, and one over a pattern, are warm."""
    RuleOperator([RULES[0], RULES[-1]], key=["k"], time="t").warm_up(sample(1).schema)
    before = signatures()
    for rule in RULES:
        for lateness in (None, 2):
            work(rule, lateness)
    print({name: kinds for name, kinds in signatures().items() if kinds != before[name]} or "fine")


def test_nothing_is_compiled_after_warming_up():
    command = [sys.executable, "-c", "from tests.unit.test_rules_operator import late_compilation as run; run()"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "fine\n"
