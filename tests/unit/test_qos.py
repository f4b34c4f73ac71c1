"""Weights by name: further uses of a name, and names that nobody has."""

import warnings

import pytest

from evenflow.control.controller import Controller
from evenflow.control.events import RegionOpenedEvent
from evenflow.errors import InvalidArgument
from evenflow.model.entries import EventEntry
from evenflow.model.graphs.weights import weight_of
from evenflow.model.qos import Qos
from evenflow.policy import Hash, RoundRobin
from evenflow.policy.keyed.fair_queue import KEPT, ServiceOrder
from evenflow.policy.keyed.sharing import Sharing
from evenflow.runtime.cluster.arguments.qos import Named, refuse_shedding
from tests.support.records import fields_of


def test_further_uses_of_a_name_have_its_weight():
    qos = {"mean": 4.0, "sum-2": 3.0, "sum": 2.0}
    weights = {
        name: weight_of(qos, name) for name in ("mean", "mean-2", "mean-13", "sum-2", "sum-3", "mean-x", "-2", "")
    }
    assert weights == {"mean": 4, "mean-2": 4, "mean-13": 4, "sum-2": 3, "sum-3": 2, "mean-x": 1, "-2": 1, "": 1}
    assert Sharing(qos).weight("mean-2") == 4


def test_workers_serve_further_uses_by_that_weight():
    order = ServiceOrder({"mean": 3.0})
    served = []
    for _ in range(40):
        served.append(order.choose(["mean-2", "other"]))
        order.charge(served[-1], 1.0)
    assert served.count("mean-2") == 30


def test_operators_that_are_gone_are_forgotten():
    order = ServiceOrder()
    served = []
    for turn in range(10_000):
        served.append(order.choose([f"region-{turn // 10}", "steady"]))
        order.charge(served[-1], 0.01)
    assert served.count("steady") >= 4_000
    assert len(order._virtual) < 2 * KEPT


@pytest.mark.parametrize(("balance", "units"), [(Hash(), 4), (RoundRobin(), 0)], ids=["keyed", "ordered"])
def test_the_log_tells_the_weight_of_each(balance, units):
    (opened,) = Controller(1, {"n": 5.0}).handle(RegionOpenedEvent(0.0, "n-2", "op", balance, units))
    assert isinstance(opened, EventEntry)
    assert fields_of(opened)["weight"] == 5.0


def test_a_name_that_looks_like_one_in_qos():
    named = Named(["rolling-mean"])
    with pytest.warns(UserWarning, match="operator 'roling-mean' has weight 1: .* which has 'rolling-mean'"):
        named.use("roling-mean")
    with pytest.warns(UserWarning, match=r"weights for 'rolling-mean', and no operator .* there were 'roling-mean'"):
        named.check()


@pytest.mark.filterwarnings("error")
def test_nothing_to_warn_of():
    Named([]).use("a")
    unused = Named(["a"])
    unused.check()  # there was no operator at all
    named = Named(["alpha", "beta"])
    for name in ("alpha", "beta", "something else", "alpha"):
        named.use(name)
    named.check()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        late = Named(["alpha", "beta"])
        late.use("alpha")
        late.check()
        late.check()
    assert len(caught) == 1


def test_rows_of_a_graph_are_not_dropped():
    refuse_shedding(Qos(latency_ms=5), "g")
    with pytest.raises(InvalidArgument, match=r"qos of 'g' has shed='worth', and it is a graph: .* Leave shed out"):
        refuse_shedding(Qos(latency_ms=5, shed="worth"), "g")
