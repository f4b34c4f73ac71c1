"""Groups within keys: how values are hashed, and how long groups are kept."""

import datetime
import math

import numpy as np
import pyarrow as pa
import pytest

from evenflow.rules.operator import RuleOperator
from evenflow.rules.windows import groups
from evenflow.rules.windows.grouped import FEW, Grouped


@pytest.mark.parametrize("tail", ["group by symbol", "group by symbol, x"])
def test_grouping_by_the_key_works_where_only_columns_that_are_read_come(tail):
    operator = RuleOperator(f"select count(*) c from T.win:length(3) {tail}", key=["symbol"])
    rows = pa.record_batch({"other": [1.0] * 6, "symbol": list("ababab"), "x": [1] * 6})
    reduced = rows.select(operator.reads(rows.schema))
    found, _ = operator.process(reduced, np.zeros(6, np.int32), np.array([1, 2] * 3))
    assert found.column("c").to_pylist() == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_are_hashed_as_numbers(kind, monkeypatch):
    monkeypatch.setattr(groups, "_objects", None)  # would be one value at a time
    days = pa.array([datetime.date(2026, 1, 1), datetime.date(1960, 1, 1), None, datetime.date(2026, 1, 1)], kind)
    for array in (days, days.slice(1)):
        found = groups.hashes(array).tolist()
        assert [a == b for a in found for b in found] == [a == b for a in array.to_pylist() for b in array.to_pylist()]


def test_texts_of_both_kinds_are_hashed_alike():
    texts = ["a", "", None, "it's", "a"]
    found = groups.hashes(pa.array(texts))
    assert found.tolist() == groups.hashes(pa.array(texts, pa.large_string())).tolist()
    assert len(set(found.tolist())) == 4


def size(operator):
    return int(operator.sizes(np.arange(4, dtype=np.int32)).sum())


def feed(operator, groups, seconds):
    """Rows of four keys and units, each of its group, at its second."""
    count = len(groups)
    keys = np.arange(count, dtype=np.int64) % 4
    columns = {"g": groups, "h": groups % 3, "t": seconds, "x": np.ones(count), "k": keys}
    rows = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    found, _ = operator.process(rows, keys.astype(np.int32), keys)
    return found.column(0).to_numpy()


SPLIT = [
    "select sum(x) from T.win:length(40) group by g",
    "select sum(x), stddev(x) from T.win:time(5 sec) where x > 0 group by g",
    "select sum(x) from T(x > 0).std:groupwin(g).win:time(5 sec)",
    "select sum(x), count(*) from T.std:groupwin(h).win:length(10) group by g",
    "select sum(x) from T.std:lastevent() group by g",
]


@pytest.mark.parametrize("rule", SPLIT)
def test_a_group_is_kept_while_it_has_rows_in_the_window(rule):
    operator = RuleOperator(rule, key=["k"], time="t")
    sizes = []
    for part in range(40):
        numbers = np.arange(1000) + 1000 * part
        assert (feed(operator, numbers, numbers // 40) == 1).all()  # none has had a row before
        sizes.append(size(operator))
    assert max(sizes) < 1_000_000  # 40,000 groups would be 12 MB


@pytest.mark.parametrize("rule", [SPLIT[1], SPLIT[2]])
def test_what_many_groups_took_is_given_back(rule):
    operator = RuleOperator(rule, key=["k"], time="t")
    feed(operator, np.zeros(1000, np.int64), np.zeros(1000, np.int64))
    small = size(operator)
    feed(operator, np.arange(20_000), np.ones(20_000, np.int64))
    large = size(operator)
    for second in range(10, 40):
        feed(operator, np.zeros(1000, np.int64), np.full(1000, second))
    assert large > 20_000 * 200
    assert size(operator) < 10 * small
    assert feed(operator, np.array([5, 5, 7, 5]), np.full(4, 40)).tolist() == [1, 1, 1, 1]  # of four keys


def test_groups_of_a_stream_without_a_window_stay():
    operator = RuleOperator("select sum(x) from T group by g", key=["k"])
    for part in range(5):
        feed(operator, np.arange(4000) + 4000 * part, np.zeros(4000, np.int64))
    assert size(operator) > 20_000 * 80
    assert feed(operator, np.arange(8), np.zeros(8, np.int64)).tolist() == [2.0] * 8


@pytest.mark.parametrize("gap", range(1, 8))
@pytest.mark.parametrize(("window", "held"), [("win:time(5 sec)", 5), ("win:length(4)", 4)])
def test_a_group_goes_with_its_last_row_and_not_before(window, held, gap):
    operator = RuleOperator(f"select sum(x) from T.{window} group by g", key=["k"], time="t")
    for group, second in [(1, 0), *((2, each) for each in range(1, gap))]:
        feed(operator, np.array([group]), np.array([second]))
    (state,) = (state for state in operator._engine.world.states if isinstance(state, Grouped))
    state.pushed = FEW
    state.tidy()
    assert len(state.slots) == (gap <= held) + (gap > 1)
    assert feed(operator, np.array([1]), np.array([gap])).tolist() == [2.0 if gap < held else 1.0]


NESTED = [
    (pa.list_(pa.float64()), [[0.0], [-0.0], [math.nan], [1.0, 2.0], [2.0, 1.0], [], [None], [None, None], None]),
    (pa.list_(pa.list_(pa.int64())), [[[1], [2]], [[1, 2]], [[1, 2], []], [[], [1, 2]], [], [[]], [None], None]),
    (
        pa.struct({"a": pa.string(), "b": pa.float32()}),
        [{"a": "x", "b": -0.0}, {"a": "x", "b": 0.0}, {"a": None, "b": 0.0}, {"a": "x", "b": None}, None],
    ),
    (pa.list_(pa.struct({"a": pa.int32()})), [[{"a": 0}], [{"a": None}], [None], [{"a": 1}], [{"a": 0}, {"a": 0}]]),
]


@pytest.mark.parametrize(("kind", "values"), NESTED)
def test_nested_values_are_equal_where_spark_says_so(kind, values):
    array = pa.array(values, kind)
    whole = pa.concat_arrays([array, array.slice(1)])
    texts = [str(value).replace("-0.0", "0.0") for value in whole.to_pylist()]
    found = groups.hashes(whole).tolist()
    assert len(set(found)) == len(set(texts)) == len(set(zip(found, texts, strict=True)))
