"""Arguments of the wrong kind: one clear error each."""

import re
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException

from evenflow.errors import ClusterStartError, InvalidArgument
from evenflow.graph.build.builder import Graph
from evenflow.policy import KEYED_BALANCES, keyed_balance_named
from evenflow.runtime.cluster.arguments.amounts import budgets_of, check_move, gap_of
from evenflow.runtime.cluster.arguments.verbs import check_dataframe, check_options, check_ordered
from evenflow.runtime.cluster.cluster import Cluster
from evenflow.runtime.cluster.plans.detect import seconds_of
from evenflow.runtime.cluster.plans.first_story import first_story
from evenflow.runtime.cluster.spark.restarts import supervise
from evenflow.runtime.cluster.spark.slots import SlotUse


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"restarts": "x"}, "restarts='x': give a number of at least 0"),
        ({"restarts": 1.5}, "restarts=1.5"),
        ({"restarts": -1}, "restarts=-1"),
        ({"restarts": True}, "restarts=True"),
        ({"backoff": "1"}, "backoff='1': give seconds, above 0"),
        ({"backoff": None}, "backoff=None"),
        ({"healthy": "long"}, "healthy='long'"),
        ({"cluster": "local"}, "cluster is 'local': give a Cluster"),
    ],
)
def test_supervise(wrong, said):
    with pytest.raises(InvalidArgument, match=said):
        supervise(lambda: pytest.fail("it must not be started"), **wrong)


def test_supervise_needs_a_function():
    with pytest.raises(InvalidArgument, match="start_query is 'query': give a function that starts the query"):
        supervise("query")


@pytest.mark.parametrize(
    ("units", "target"),
    [
        *((units, 0) for units in ("3", 3, [3.0], ["3"], None, [True], [9], [-1])),
        *(([0], target) for target in (None, "1", 1.0, 4, -1, True)),
    ],
)
def test_moves(units, target):
    with pytest.raises(InvalidArgument, match=r"give a list of units from 0 to 8, and a worker from 0 to 3"):
        check_move(units, target, 9, 4)


def test_a_move_that_makes_sense():
    assert check_move(np.array([1, 8]), np.int32(3), 9, 4) == [1, 8]
    assert check_move(range(2), 0, 9, 4) == [0, 1]
    assert check_move((unit for unit in (1, 8)), 0, 9, 4) == [1, 8]


@pytest.mark.parametrize("balance", ["dlb-h", "dlb-l", "lptf"])
@pytest.mark.parametrize("name", ["theta", "window", "window_rows", "least_rows", "least_gain"])
@pytest.mark.parametrize("wrong", ["x", {}, True, [1], float("nan"), float("inf"), -1])
def test_balances_by_load(balance, name, wrong):
    with pytest.raises(InvalidArgument, match=f"{name} is .*: give"):
        keyed_balance_named(balance, **{name: wrong})


def test_a_balance_takes_numbers_of_numpy():
    assert keyed_balance_named("dlb-h", theta=np.int64(3), window=np.float32(0.5)).theta == 3


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("10 seconds", 10),
        ("1 SECOND", 1),
        ("1 hour 5 minutes", 3900),
        (" 1 week", 604_800),
        ("1.5 min 500ms", 90.5),
        ("2 days 1 us", 172_800.000001),
        (timedelta(minutes=2), 120),
        (0.25, 0.25),
    ],
)
def test_lateness(given, seconds):
    assert seconds_of(given) == seconds


@pytest.mark.parametrize(
    "wrong", ["soon", "", "10", "seconds", "1 parsec", "-1 second", "1 hour and 2", True, [1], b"1 s"]
)
def test_no_lateness(wrong):
    with pytest.raises(InvalidArgument, match=r"lateness=.*: give seconds, or a text such as '10 seconds'"):
        seconds_of(wrong)


class Workers:
    """A cluster whose workers come back one by one, each time they are waited for."""

    def __init__(self, *live):
        self.live = list(live)
        self.waits = 0

    def await_workers(self, _timeout):
        self.waits += 1
        if self.live[0] < 2:
            raise ClusterStartError(f"{self.live[0]} of 2 workers started")

    def workers(self):
        count = self.live.pop(0)
        return [SimpleNamespace(state="live" if place < count else "starting") for place in range(2)]


@pytest.mark.parametrize(("live", "waits"), [((2,), 1), ((1,), 1), ((0, 0, 1), 3), ((0, 2), 2)])
def test_supervise_goes_on_with_the_workers_that_come_back(live, waits, monkeypatch):
    """Not all of them may ever do; that must not end a query that is to be kept running."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    failing = SimpleNamespace(awaitTermination=Mock(side_effect=StreamingQueryException("lost")))
    ending = SimpleNamespace(awaitTermination=lambda _: True)
    cluster = Workers(*live)
    assert supervise(iter([failing, ending]).__next__, cluster) is ending
    assert cluster.waits == waits


def test_a_pandas_dataframe_is_none_of_sparks():
    with pytest.raises(InvalidArgument, match=r"pandas.DataFrame, not a DataFrame of Spark: spark.createDataFrame"):
        check_dataframe(pd.DataFrame({"x": [1]}))
    with pytest.raises(InvalidArgument, match="df is a list, not a DataFrame of Spark: give one"):
        check_dataframe([1])


@pytest.mark.parametrize("ordered", ["id", None, 0, ["id"]])
def test_ordered_is_yes_or_no(ordered):
    with pytest.raises(InvalidArgument, match=r"ordered=.*: give True, or False"):
        check_ordered(ordered)


def test_memory_for_all_workers_or_for_some():
    assert budgets_of("1m", 3, True) == dict.fromkeys(range(3), 1 << 20)
    assert budgets_of({1: "64k", np.int64(2): 1 << 20}, 3, True) == {1: 65_536, 2: 1 << 20}


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        (None, "memory=None: give bytes"),
        ({}, "memory={}: give bytes"),
        ("1k", "memory='1k': give bytes"),
        ({3: "1m"}, "memory has worker 3: give workers from 0 to 2"),
        ({"0": "1m"}, "memory has worker '0'"),
        ({0: None}, "memory of worker 0 is None: give bytes"),
        ({0: "x"}, "memory='x'"),
    ],
)
def test_wrong_memory(memory, said):
    with pytest.raises(InvalidArgument, match=said):
        budgets_of(memory, 3, True)


def test_memory_cannot_be_set_where_there_is_no_budget():
    with pytest.raises(InvalidArgument, match=r"this cluster has no memory budget: give Cluster\(memory=...\) one"):
        budgets_of("1m", 3, False)


def test_t_gap():
    assert [gap_of(each, True) for each in (None, "read", 0, 2.5)] == [None, "read", 0, 2.5]
    for wrong in ("soon", -1, True, float("nan"), float("inf")):
        with pytest.raises(InvalidArgument, match="t_gap="):
            gap_of(wrong, True)
    with pytest.raises(InvalidArgument, match="no memory"):
        gap_of(1.0, False)
    assert gap_of(None, False) is None


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (
            SlotUse(6, 4, 0),
            "4 tasks of its workers and 0 others run. All workers have a slot, and 3 of them had",
        ),
        (
            SlotUse(6, 2, 1),
            "2 tasks of its workers and 1 others run. Slots are free, so Spark was still starting",
        ),
        (SlotUse(6, 2, 4), "in which 2 tasks of its workers and 4 others run. No slot is free. Use master local"),
        (SlotUse(3, 3, 0), "No slot is free. Use master local"),
    ],
)
def test_workers_that_do_not_start_say_what_was_seen(use, said):
    text = use.why_waiting(3, 4, 60.0, "Use master local[5,4] or more")
    assert text.startswith(f"1 of 4 workers started within 60 s; the session has {use.slots} task slots, ")
    assert said in text
    assert ("start_timeout" in text) != ("local" in text)  # one remedy, not both


def no_cluster():
    """A cluster that has not been started: enough to have arguments refused."""
    made = Cluster.__new__(Cluster)
    made._life = Mock()
    return made


def stream():
    return Graph().source("rows")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: c.keyed(None, "k", None, orderby="t"), "keyed does not take orderby: did you mean 'order_by' or "),
        (lambda c: c.keyed(None, "k", None, balance="flux", unit=3), "keyed does not take unit: did you mean 'units'?"),
        (lambda c: c.keyed(None, "k", None, balance=Mock(), orderby="t"), "did you mean 'order_by' or "),
        (lambda c: c.ordered_map(None, None, "x long", inputs="pandas"), "did you mean 'input'?"),
        (lambda c: c.join(None, None, "k", sufixes=("a", "b")), "join does not take sufixes: did you mean 'suffixes'?"),
        (lambda c: c.join(None, None, "k", skew_byte=1), "join does not take skew_byte: did you mean 'skew_bytes'?"),
        (lambda c: c.detect(None, "", key="k", latenes=1), "detect does not take latenes: did you mean 'lateness'?"),
        (lambda c: c.run(None, {}, placment="greedy"), "run does not take placment: did you mean 'placement'?"),
        (
            lambda c: first_story(None, cluster=c, histroy=3),
            "first_story does not take histroy: did you mean 'history'?",
        ),
        (lambda c: Cluster(None, worker=2), "Cluster.__init__ does not take worker; did you mean 'workers'?"),
        (lambda c: stream().map(len, "x long", orderd=True), "Stream.map does not take orderd; did you mean 'ordered'"),
        (lambda c: stream().keyed("k", None, unit=2), "Stream.keyed does not take unit; did you mean 'units'?"),
        (lambda c: stream().join(stream(), "k", row=1), "Stream.join does not take row; did you mean 'rows'"),
        (lambda c: stream().detect("", key="k", Time="t"), "Stream.detect does not take Time; did you mean 'time'?"),
        (lambda c: stream().filter("x", comutative=True), "did you mean 'commutative'?"),
    ],
)
def test_a_misspelt_keyword_is_told_the_right_one(call, said):
    with pytest.raises(InvalidArgument, match=re.escape(said)):
        call(no_cluster())


def test_parameters_of_balances_are_no_misspelt_keywords():
    check_options({"delta_min": 1, "skew_bytes": 1}, KEYED_BALANCES, "flux", Cluster.join, Cluster.keyed)
    check_options({"orderby": 1}, KEYED_BALANCES, "flix", Cluster.keyed)  # the name of the balance comes first
    with pytest.raises(InvalidArgument, match=r"th_imbalance; did you mean 'th_imb'\? it takes delta_min"):
        keyed_balance_named("flux", th_imbalance=1)
