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
from evenflow.runtime.cluster.arguments.tuning import DETECT, KEYED, RUN, Tuning, tuning_of, with_tuning
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
        (
            lambda c: c.keyed(None, "k", None, balance="flux", unit=3),
            "take unit: did you mean 'units' or 'tuning'? Give units as",
        ),
        (lambda c: c.keyed(None, "k", None, balance=Mock(), orderby="t"), "did you mean 'order_by' or "),
        (lambda c: c.ordered_map(None, None, "x long", inputs="pandas"), "did you mean 'input'?"),
        (lambda c: c.join(None, None, "k", sufixes=("a", "b")), "join does not take sufixes: did you mean 'suffixes'?"),
        (lambda c: c.keyed(None, "k", None, t_gap=8), "keyed does not take t_gap: it is a setting of another verb's"),
        (lambda c: c.run(None, {}, units=8), "run does not take units: it is a setting of another verb's"),
        (lambda c: c.keyed(None, "k", None, units=None), "units=None: give a value, or leave it out for 1024"),
        (
            lambda c: c.join(None, None, "k", skew_byte=1),
            "join does not take skew_byte: did you mean 'skew_bytes'? Give",
        ),
        (lambda c: Tuning(skew_byte=1), "Tuning.__init__ does not take skew_byte; did you mean 'skew_bytes' or"),
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
    check_options({"delta_min": 1, "order_by": 1}, KEYED_BALANCES, "flux", Cluster.join, Cluster.keyed)
    check_options({"orderby": 1}, KEYED_BALANCES, "flix", Cluster.keyed)  # the name of the balance comes first
    with pytest.raises(InvalidArgument, match=r"th_imbalance; did you mean 'th_imb'\? it takes delta_min"):
        keyed_balance_named("flux", th_imbalance=1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"units": 0}, "units=0: give a whole number from the workers to 1,000,000"),
        ({"units": "64"}, "units='64': give a whole number"),
        ({"units": True}, "units=True: give a whole number"),
        ({"spread": "rage"}, "spread='rage': one of 'hash', 'modulo', 'range'"),
        ({"bounds": 5}, "bounds=5: give a list of values of the key"),
        ({"bounds": "ab"}, "bounds='ab': give a list of values of the key"),
        ({"skew_bytes": "some"}, "skew_bytes='some': give bytes as a whole number"),
        ({"split_keys": "yes"}, "split_keys is 'yes': give True or False"),
        ({"transfer": "mail"}, "transfer='mail': one of 'direct', 'store'"),
        ({"queue_rows": 0}, "queue_rows=0: give a whole number of rows, at least 1"),
        ({"queue_bytes": "1k"}, "queue_bytes='1k': give bytes as a whole number"),
        ({"t_gap": "soon"}, "t_gap='soon': give seconds from 0 up"),
    ],
)
def test_a_tuning_that_cannot_work(given, said):
    with pytest.raises(InvalidArgument, match=re.escape(said)):
        Tuning(**given)


def test_what_is_left_out_of_a_tuning_stays_as_it_is():
    assert Tuning(bounds=iter([1, 2])).given == {"bounds": (1, 2)}
    assert tuning_of("keyed", Tuning(units=np.int64(7)), KEYED) == Tuning(**{**KEYED, "units": 7})
    assert tuning_of("detect", None, DETECT).units == 4096


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: c.keyed(None, "k", None, tuning=3), "tuning=3: give an ef.Tuning"),
        (
            lambda c: c.run(None, {}, tuning=Tuning(units=8)),
            "run cannot use units=8 of its tuning: leave it out; it t",
        ),
        (
            lambda c: c.ordered_map(None, None, "x long", tuning=Tuning(units=8)),
            "ordered_map cannot use units=8 of its",
        ),
        (lambda c: c.join(None, None, "k", tuning=Tuning(t_gap=1)), "join cannot use t_gap=1 of its tuning"),
        (lambda c: c.detect(None, "", key="k", tuning=Tuning(queue_rows=1)), "detect cannot use queue_rows=1 of its"),
        (lambda c: Cluster(None, tuning=Tuning(units=8)), "Cluster cannot use units=8 of its tuning"),
        (
            lambda c: c.keyed(None, "k", None, units=8, tuning=Tuning(units=8)),
            "Cluster.keyed got units= and tuning=: give",
        ),
        (lambda c: Cluster(None, t_gap=1, tuning=Tuning()), "Cluster got t_gap= and tuning=: give it as tuning="),
    ],
)
def test_a_tuning_that_does_not_fit_its_verb(call, said):
    with pytest.raises(InvalidArgument, match=re.escape(said)):
        call(no_cluster())


VERBS = {
    "Cluster.keyed": (lambda c, **old: c.keyed(None, "k", None, **old), KEYED),
    "Cluster.join": (lambda c, **old: c.join(None, None, "k", **old), KEYED),
    "Cluster.detect": (lambda c, **old: c.detect(None, "", key="k", **old), DETECT),
    "Cluster.run": (lambda c, **old: c.run(None, {}, **old), RUN),
    "first_story": (lambda c, **old: first_story(None, cluster=c, **old), KEYED),
    "Cluster": (lambda c, **old: Cluster(None, workers=0, **old), {"t_gap": "read"}),
}


@pytest.mark.parametrize(("verb", "name"), [(verb, name) for verb, (_, usual) in VERBS.items() for name in usual])
def test_a_setting_that_moved_into_the_tuning_is_still_a_keyword(verb, name):
    call, usual = VERBS[verb]
    said = re.escape(f"{verb}({name}=…) is deprecated and goes with the next version: give tuning=ef.Tuning({name}=…)")
    value = [1, 2] if usual[name] is None else usual[name]
    with (
        pytest.warns(DeprecationWarning, match=said) as warned,
        pytest.raises((InvalidArgument, AttributeError)) as error,
    ):
        call(no_cluster(), **{name: value})  # it goes on to the arguments and the cluster that are none
    assert name not in str(error.value)
    assert [each.filename for each in warned] == [__file__]


def test_a_setting_given_as_a_keyword_is_in_the_tuning():
    @with_tuning("verb", KEYED)
    def verb(*, tuning=None, **options):
        return tuning, options

    with pytest.warns(DeprecationWarning, match="give tuning=ef.Tuning"):
        assert verb(units=8, bounds=[3], delta_min=1) == (Tuning(units=8, bounds=[3]), {"delta_min": 1})
    assert verb(tuning=Tuning(units=8)) == (Tuning(units=8), {})
