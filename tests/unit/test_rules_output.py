"""OUTPUT and LIMIT: which of a rule's results come out."""

import numpy as np
import pyarrow as pa
import pytest

from evenflow.rules.language.errors import RuleError
from evenflow.rules.language.parser import parse
from evenflow.rules.operator import RuleOperator
from evenflow.testing import check_operator
from tests.support.rules_runs import push


def rows(seconds, keys=None):
    keys = keys or [1] * len(seconds)
    return {"k": pa.array(keys), "t": pa.array(seconds), "x": pa.array(range(len(seconds)))}


def found(output, seconds, keys=None, frame=None, source="T"):
    columns = rows(seconds, keys)
    operator = RuleOperator(f"select x from {source} {output}", key=["k"], time="t")
    return [row["x"] for row in push(operator, columns, columns["k"].to_numpy(), frame)[0]]


@pytest.mark.parametrize("frame", [None, 1, 3])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("output first every 3 events", [0, 3, 6]),
        ("OUTPUT LAST EVERY 3 EVENTS", [2, 5]),
        ("output first every 1 event", [0, 1, 2, 3, 4, 5, 6]),
        ("where x != 1 output last every 2 events", [2, 4, 6]),
        ("output first every 10 sec", [0, 3, 6]),  # seconds 0, 12 and 30
        ("output last every 10 sec", [2, 5]),  # the last one is not over
    ],
)
def test_some_of_the_results_of_a_key(frame, output, expected):
    assert found(output, [0, 4, 9, 12, 13, 19, 30], frame=frame) == expected


def test_each_key_has_its_own():
    assert found("output last every 2 events", [0] * 6, [1, 2, 1, 1, 2, 1]) == [2, 4, 5]
    assert found("output first every 5 sec", [0, 1, 2, 6], [1, 2, 1, 2]) == [0, 1, 3]


def test_patterns_and_variables():
    rule = "select a.x as x from pattern [every a=T -> b=T] output last every N events"
    columns = rows([0, 1, 2, 3, 4])
    operator = RuleOperator(rule, variables={"N": 2}, key=["k"], time="t")
    assert [row["x"] for row in push(operator, columns, [1] * 5)[0]] == [1, 3]


def test_time_that_passes_ends_a_stretch():
    operator = RuleOperator("select x from T output last every 10 sec", key=["k"], time="t", in_order=True)
    batch = pa.record_batch(rows([0, 4, 12], [1, 1, 2]))
    assert operator.process(batch, np.array([1, 1, 2], np.int32), batch["k"].to_numpy())[0].num_rows == 0
    units = np.array([1, 2], np.int32)
    assert operator.on_time(9_999_999, units) is None
    assert operator.on_time(10_000_000, units).to_pylist() == [{"x": 1}]
    assert operator.on_end(units).to_pylist() == [{"x": 2}]


def test_the_first_rows_of_a_window():
    assert found("limit 2", [0] * 7, source="T.win:length_batch(3)") == [0, 1, 3, 4]
    operator = RuleOperator("select k, count(*) n from T.win:length_batch(4) group by k, x % 2 limit 1", key=["k"])
    assert push(operator, rows([0] * 8), [1] * 8)[0] == [{"k": 1, "n": 2}] * 2


@pytest.mark.parametrize(
    "output", ["output last every 3 events", "output first every 4 sec", "output last every 4 sec"]
)
def test_the_laws_of_operators(output):
    random = np.random.default_rng(2)
    sample = {"k": random.integers(0, 5, 100), "t": np.sort(random.integers(0, 40, 100)), "x": np.arange(100)}
    operator = RuleOperator(f"select k, x from T where x % 3 > 0 {output}", key=["k"], time="t", in_order=True)
    check_operator(operator, pa.table(sample), key="k", rounds=2, time="t")


def test_names_that_are_no_keywords():
    rule = parse("select output, limit as every_limit, first from T where output > limit")
    assert rule.pace is rule.limit is None
    assert parse("select x from T output where x > 1").sources[0].alias == "output"


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("select x from T output every 3 events", "OUTPUT ALL is not there: write OUTPUT FIRST EVERY"),
        ("select x from T output snapshot every 3 sec", "OUTPUT SNAPSHOT is not there"),
        ("select x from T output first every 0 events", "OUTPUT EVERY 0 is no number of rows"),
        ("select x from T output first every 0 sec", "OUTPUT takes a time such as 10 sec"),
        (
            "select count(*) from T.win:length_batch(3) output last every 2 events",
            "does not stand beside rules over a b",
        ),
        (
            "select count(*) from T group by x output last every 2 events",
            "does not stand beside GROUP BY of what is not",
        ),
        (
            "select a.x from pattern [every a=T -> timer:interval(3 sec)] output last every 2 events",
            "OUTPUT does not stand beside timer:interval",
        ),
        ("select x from T limit 3", "LIMIT is for the rows of a batch window"),
        ("select x from T.win:length_batch(3) limit 0", "LIMIT 0 is no number of rows"),
    ],
)
def test_what_is_refused(rule, says):
    with pytest.raises(RuleError) as caught:
        RuleOperator(rule, key=["k"], time="t").schema(pa.record_batch(rows([0])).schema)
    assert says in str(caught.value)
    assert caught.value.line == 1


def test_output_by_time_needs_a_time():
    with pytest.raises(RuleError, match="OUTPUT by time needs the time of the rows: give time="):
        RuleOperator("select x from T output first every 3 sec").schema(pa.schema({"x": pa.int64()}))


def test_a_pattern_behind_output_forgets_what_has_waited_for_too_long():
    rule = (
        "select a.x as x from pattern [every a=T -> b=T(x < a.x) where timer:within(5 sec)] output first every 2 events"
    )
    operator = RuleOperator(rule, key=["k"], time="t", in_order=True)
    batch = pa.record_batch(rows([0, 1, 2]))
    units = np.zeros(3, np.int32)
    operator.process(batch, units, batch["k"].to_numpy())
    held = operator.sizes(units[:1])[0]
    assert operator.on_time(60_000_000, units[:1]) is None
    assert operator.sizes(units[:1])[0] < held / 2
