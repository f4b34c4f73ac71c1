"""Keyed operators against their models, for any rows, any batches and any moves."""

import math

import pyarrow as pa
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.operators.aggregates import functions
from evenflow.operators.aggregates import rolling as home
from evenflow.operators.aggregates.distinct import DistinctCount
from evenflow.operators.aggregates.last import LastValue
from evenflow.operators.aggregates.several import Aggregates
from evenflow.operators.joins.join import WindowJoin
from tests.support import operators_model as model

HOWS = st.sampled_from(["count", "sum", "mean", "min", "max", "std"])
KEYS = st.sampled_from([-(2**63), -1, 0, 1, 2**32, 2**63 - 1])
NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0]),
    st.floats(-1e4, 1e4),
    st.integers(-3, 3).map(float),
)
TIMES = st.integers(0, 60)
WINDOWS = st.integers(1, 9)
SEEDS = st.integers(0, 2**32 - 1)
UNITS = st.sampled_from([1, 3, 1000, 100_001])


def lines(*parts):
    return st.lists(st.tuples(KEYS, *parts), max_size=80)


def moved(operator, columns, keys, units, seed):
    keys, homes = model.hashed(keys, units)
    return model.moving(operator, pa.record_batch(columns), homes, keys, seed=seed, sizes=(0, 1, 2, 5, 30))


def parts(rows, count):
    return [list(part) for part in zip(*rows, strict=True)] or [[] for _ in range(count)]


@given(HOWS, WINDOWS, lines(NUMBERS), UNITS, SEEDS)
def test_last_rows(how, window, rows, units, seed):
    keys, values = parts(rows, 2)
    operator = getattr(home, f"Rolling{how.title()}")("v", rows=window)
    table, _ = moved(operator, {"v": pa.array(values, pa.float64())}, keys, units, seed)
    model.assert_close(table[operator.into].to_pylist(), model.rolling(how, keys, values, window))


@given(HOWS, WINDOWS, lines(NUMBERS, TIMES), UNITS, SEEDS)
def test_last_seconds(how, window, rows, units, seed):
    keys, values, times = parts(rows, 3)
    operator = getattr(home, f"Rolling{how.title()}")("v", seconds=window, time="t")
    columns = {"v": pa.array(values, pa.float64()), "t": pa.array(times, pa.int64())}
    table, _ = moved(operator, columns, keys, units, seed)
    model.assert_close(table[operator.into].to_pylist(), model.rolling_time(how, keys, values, times, window))


@given(HOWS, lines(NUMBERS), UNITS, SEEDS)
@settings(max_examples=50)
def test_all_rows(how, rows, units, seed):
    keys, values = parts(rows, 2)
    operator = getattr(home, f"Running{how.title()}")("v")
    table, _ = moved(operator, {"v": pa.array(values, pa.float64())}, keys, units, seed)
    model.assert_close(table[operator.into].to_pylist(), model.rolling(how, keys, values, 10**9))


@given(lines(st.one_of(st.none(), st.text(max_size=3))), UNITS, SEEDS)
def test_last_value(rows, units, seed):
    keys, values = parts(rows, 2)
    table, _ = moved(LastValue("v"), {"v": pa.array(values, pa.string())}, keys, units, seed)
    assert table["v_last"].to_pylist() == model.last(keys, values)


@given(lines(st.one_of(st.none(), st.sampled_from([-(2**63), 2**63 - 1, 0, 42, 1]))), UNITS, SEEDS)
def test_distinct_count(rows, units, seed):
    keys, values = parts(rows, 2)
    hashes = [42 if value is None else value for value in values]
    columns = {"v": pa.array(values, pa.int64()), "xxhash64(v)": pa.array(hashes, pa.int64())}
    table, _ = moved(DistinctCount("v"), columns, keys, units, seed)
    assert table["v_distinct"].to_pylist() == model.distinct(keys, values)


ODD = st.sampled_from(["", "a", "ab", "b", "ä", "\U0001f40e", "\uffff", "a\0"])
TEXTS = st.one_of(st.none(), ODD, st.text(max_size=3))
PICKED = {
    "min": functions.min("s"),
    "max": functions.max("s"),
    "first": functions.first("s"),
    "first_known": functions.first("s", ignorenulls=True),
    "last": functions.last("s"),
    "last_known": functions.last("s", ignorenulls=True),
    "count_distinct": functions.count_distinct("s"),
}
COMPUTED = {"sum": functions.sum("v"), "std": functions.stddev("v"), "var": functions.variance("v")}


@given(st.sampled_from(["all", "rows", "seconds"]), WINDOWS, lines(TEXTS, NUMBERS, TIMES), UNITS, SEEDS)
def test_several_aggregates(kind, window, rows, units, seed):
    keys, texts, values, times = parts(rows, 4)
    how = {"all": {}, "rows": {"rows": window}, "seconds": {"seconds": window, "time": "t"}}[kind]
    hashes = [0 if text is None else xxhash.xxh64_intdigest(text) >> 1 for text in texts]
    columns = {"s": pa.array(texts, pa.string()), "v": pa.array(values, pa.float64()), "t": pa.array(times, pa.int64())}
    operator = Aggregates({"rows": functions.count(), **PICKED, **COMPUTED}, **how)
    table, _ = moved(operator, columns | {"xxhash64(s)": pa.array(hashes, pa.int64())}, keys, units, seed)
    expected = model.windows(keys, how.get("rows"), times, how.get("seconds"))
    assert table["rows"].to_pylist() == [len(places) for places in expected]
    for name in PICKED:
        assert table[name].to_pylist() == [model.picked(name, [texts[i] for i in places]) for places in expected]
    for name in COMPUTED:
        found = [model.aggregate(name, [values[i] for i in places]) for places in expected]
        model.assert_close(table[name].to_pylist(), found)


@given(st.booleans(), WINDOWS, lines(st.sampled_from("LR"), TIMES), UNITS, SEEDS)
def test_window_join(timed, window, rows, units, seed):
    keys, tags, times = parts(rows, 3)
    columns = {"tag": pa.array(tags, pa.string()), "t": pa.array(times, pa.int64()), "n": range(len(keys))}
    how = {"seconds": window, "time": "t"} if timed else {"rows": window}
    columns["n"] = pa.array(columns["n"], pa.int64())
    table, origin = moved(WindowJoin("tag", "L", "R", **how), columns, keys, units, seed)
    expected = model.joined(keys, tags, **({"times": times, "seconds": window} if timed else {"rows": window}))
    found = list(zip(table["left_n"].to_pylist(), table["right_n"].to_pylist(), origin.tolist(), strict=True))
    assert found == expected
