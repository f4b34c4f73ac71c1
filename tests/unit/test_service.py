"""Targets carried out: who is told which weights and shares, what the log says; rows that are dropped, lowest first."""

import numpy as np
import pyarrow as pa
import pytest

from evenflow.control.controller import Controller
from evenflow.control.events import (
    FeederJoinedEvent,
    MessageEvent,
    QosAskedEvent,
    RegionOpenedEvent,
    SendInstruction,
    TickEvent,
)
from evenflow.errors import InvalidArgument
from evenflow.model.entries import EventEntry
from evenflow.model.latency import Latencies, bucket_of
from evenflow.model.messages import (
    Directory,
    FeederBegan,
    FeederReport,
    KeyedDirectory,
    ServiceWeights,
    ShedRows,
    WorkerHello,
)
from evenflow.model.qos import Qos, qos_of, weights_in
from evenflow.policy import Hash, RoundRobin
from evenflow.policy.keyed.fair_queue import ServiceOrder
from evenflow.policy.keyed.sharing import Sharing
from evenflow.policy.keyed.targets import SHARES
from evenflow.runtime.feeder.admission import LEAST, Admission
from evenflow.runtime.feeder.shedding import RECENT, Shedder
from tests.support.records import fields_of


class Regions:
    """Two keyed regions, or ordered ones, on one worker, each with a feeder."""

    def __init__(self, qos, names=("alerts", "means"), units=4):
        self.controller = Controller(1, qos)
        self.controller.handle(MessageEvent(0.0, 1, WorkerHello(0, "here", 1, 1)))
        self.peers = {}
        for peer, name in enumerate(names, 21):
            balance = Hash() if units else RoundRobin()
            self.controller.handle(RegionOpenedEvent(0.0, name, "op", balance, units))
            self.controller.handle(FeederJoinedEvent(0.0, peer, name, stage=str(peer)))
            self.controller.handle(MessageEvent(0.0, peer, FeederBegan(0)))
            self.peers[name] = peer

    def second(self, time, seconds_by_region):
        """Reports of a second in which rows took so long; instructions of the tick after it."""
        for name, seconds in seconds_by_region.items():
            took = Latencies({bucket_of(seconds): 100}, 100 * seconds)
            self.controller.handle(
                MessageEvent(time, self.peers[name], FeederReport(1.0, 100, {}, rows_in=100, latencies=took))
            )
        return self.controller.handle(TickEvent(time))


def told(instructions, cls):
    return [
        (each.peer, each.message)
        for each in instructions
        if isinstance(each, SendInstruction) and isinstance(each.message, cls)
    ]


def test_workers_serve_by_the_weights_of_the_moment():
    regions = Regions({"alerts": Qos(latency_ms=200, weight=4), "means": 2})
    said = [each for second in range(1, 5) for each in regions.second(float(second), {"alerts": 1.0, "means": 1.0})]
    assert told(said, ServiceWeights)[0] == (1, ServiceWeights({"alerts": 8.0}))
    assert not told(said, ShedRows)
    (first, *_) = [each for each in said if isinstance(each, EventEntry) and each.event == "qos"]
    assert fields_of(first) | {"p99_ms": 0} == {
        "region": "alerts",
        "why": "target missed",
        "p99_ms": 0,
        "target_ms": 200,
        "weight": 8.0,
        "shed": 0.0,
    }
    latest = told(said, ServiceWeights)[-1][1]
    again = regions.controller.handle(MessageEvent(5.0, 2, WorkerHello(0, "here", 1, 1)))  # it was started again
    assert (2, latest) in told(again, ServiceWeights)
    calm = [each for second in range(6, 60) for each in regions.second(float(second), {"alerts": 0.01, "means": 1.0})]
    assert told(calm, ServiceWeights)[-1] == (2, ServiceWeights({}))
    assert [fields_of(each)["weight"] for each in calm if isinstance(each, EventEntry) and each.event == "qos"][-1] == 4


@pytest.mark.parametrize("units", [4, 0])
def test_a_region_is_given_another_weight(units):
    regions = Regions({"alerts": Qos(latency_ms=200), "means": 2}, units=units)
    said = regions.controller.handle(QosAskedEvent(1.0, "means", 5.0))
    assert told(said, ServiceWeights) == [(1, ServiceWeights({"means": 5.0}))]
    (entry,) = [each for each in said if isinstance(each, EventEntry)]
    assert (entry.region, entry.why, entry.weight, entry.target_ms) == ("means", "asked for", 5.0, None)
    again = regions.controller.handle(MessageEvent(1.5, 2, WorkerHello(0, "here", 1, 1)))  # it was started again
    assert told(again, ServiceWeights) == [(2, ServiceWeights({"means": 5.0}))]
    regions.controller.handle(QosAskedEvent(1.7, "alerts", 3.0))
    said = [each for second in range(2, 5) for each in regions.second(float(second), {"alerts": 1.0, "means": 1.0})]
    assert told(said, ServiceWeights)[0] == (2, ServiceWeights({"alerts": 6.0, "means": 5.0}))  # its target is missed
    assert regions.controller.handle(QosAskedEvent(9.0, "nobody", 1.0)) == []


def test_a_weight_that_was_asked_for_is_that_of_its_region_alone():
    sharing = Sharing({"means": 2.0})
    sharing.asked["means"] = 5.0
    assert [sharing.weight(name) for name in ("means", "means-2", "other")] == [5.0, 2.0, 1.0]


@pytest.mark.parametrize(("units", "directory"), [(4, KeyedDirectory), (0, Directory)])
def test_feeders_are_told_what_to_drop_those_of_the_next_batch_too(units, directory):
    regions = Regions({"alerts": Qos(latency_ms=200, shed="value")}, ["alerts"], units)
    said = [each for second in range(1, 5) for each in regions.second(float(second), {"alerts": 1.0})]
    assert told(said, ShedRows)[0] == (21, ShedRows(SHARES[1]))
    share = told(said, ShedRows)[-1][1].share
    regions.controller.handle(FeederJoinedEvent(4.0, 31, "alerts", stage="31"))
    later = regions.controller.handle(FeederJoinedEvent(4.0, 32, "alerts", stage="32"))
    later += regions.controller.handle(MessageEvent(4.0, 32, FeederBegan(1)))
    assert [message.shed for _, message in told(later, directory)] == [share]
    dropped = FeederReport(1.0, 1, {}, rows_in=10, shed=9)
    regions.controller.handle(MessageEvent(5.0, 21, dropped))
    assert regions.controller.region("alerts").snapshot(5.0).performance.shed == 9
    (entry,) = [
        each for each in regions.controller.handle(TickEvent(6.0)) if getattr(each, "event", "") == "performance"
    ]
    assert fields_of(entry)["shed"] == 9


def test_the_rows_of_another_day_begin_anew():
    regions = Regions({"alerts": Qos(latency_ms=200, shed="value")}, ["alerts"])
    for second in range(1, 5):
        regions.second(float(second), {"alerts": 1.0})
    assert regions.controller.region("alerts").shed
    assert not told(regions.controller.handle(TickEvent(50.0)), ShedRows)
    assert told(regions.controller.handle(TickEvent(70.0)), ShedRows) == [(21, ShedRows(0.0))]
    assert not told(regions.controller.handle(TickEvent(140.0)), ShedRows)


def test_nobody_drops_rows_by_default():
    regions = Regions({"alerts": Qos(latency_ms=200)}, ["alerts"])
    assert not told([each for s in range(1, 30) for each in regions.second(float(s), {"alerts": 1.0})], ShedRows)


def test_an_order_of_service_takes_new_weights():
    order = ServiceOrder({"a": 3.0})

    def served(rounds):
        names = []
        for _ in range(rounds):
            names.append(order.choose(["a", "b"]))
            order.charge(names[-1], 1.0)
        return names.count("b")

    served(8)
    order.set_weights({"b": 9.0})
    assert served(120) == pytest.approx(90, abs=2)
    order.set_weights({})
    assert served(120) == pytest.approx(30, abs=2)


# -- what a user gives


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"latency_ms": 0}, "latency_ms=0.*milliseconds above 0"),
        ({"latency_ms": float("nan")}, "latency_ms=nan"),
        ({"latency_ms": "200"}, "latency_ms='200'"),
        ({"latency_ms": True}, "latency_ms=True"),
        ({"weight": -1}, "weight=-1.*above 0"),
        ({"weight": None}, "weight=None"),
        ({"latency_ms": 1, "shed": ""}, "shed=''.*name of the column"),
        ({"latency_ms": 1, "shed": 3}, "shed=3"),
        ({"shed": "value"}, "shed='value'.*has no target: give latency_ms"),
    ],
)
def test_bad_targets_are_refused(given, said):
    with pytest.raises(InvalidArgument, match=said):
        Qos(**given)


def test_further_uses_of_a_name_have_its_target():
    given = {"alerts": Qos(latency_ms=5, weight=2), "means": 3.0}
    assert qos_of(given, "alerts-2").latency_ms == 5
    assert qos_of(given, "means-7") == Qos(weight=3.0)
    assert qos_of(given, "other") == Qos()
    assert weights_in(given) == {"alerts": 2, "means": 3.0}


# -- rows that are dropped


def batch(values, kind=None):
    values = pa.array(values, kind)
    return pa.RecordBatch.from_arrays([pa.array(range(len(values))), values], names=["id", "value"])


def kept(shedder, values, kind=None):
    return shedder.kept(batch(values, kind)).column(0).to_pylist()


@pytest.mark.parametrize(
    ("values", "kind", "left"),
    [
        ([5, 1, 4, 2, 3, 0], pa.int64(), [0, 2, 4]),
        ([5.0, None, float("nan"), -2.5, 3.0, None], pa.float64(), [0, 2, 4]),
        ([True, False, True, None], pa.bool_(), [0, 2]),
        (["1.5", "0.5"], pa.decimal128(10, 2), [0]),
        ([7, 7, 7, 7], pa.int8(), [2, 3]),
        ([None, None], pa.int32(), [1]),
    ],
)
def test_the_lowest_values_go_first(values, kind, left):
    shedder = Shedder(1)
    shedder.set_share(0.5)
    given = pa.array(values).cast(kind) if kind == pa.decimal128(10, 2) else pa.array(values, kind)
    assert kept(shedder, given) == left
    assert shedder.count() == len(values) - len(left)
    assert shedder.count() == 0


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_it_is_the_share_that_was_asked_for_whatever_the_batches(size):
    shedder = Shedder(1)
    shedder.set_share(0.35)
    values = np.random.default_rng(1).random(21_000)
    ids = np.concatenate(
        [start + np.array(kept(shedder, values[start : start + size]), int) for start in range(0, 21_000, size)]
    )
    assert shedder.count() == 21_000 - len(ids)
    assert len(ids) / 21_000 == pytest.approx(0.65, abs=0.01)
    gone = np.setdiff1d(np.arange(21_000), ids)
    assert (values[gone] < 0.45).mean() > 0.97


def test_rows_of_a_high_value_stay_although_few_others_come():
    shedder = Shedder(1)
    shedder.set_share(0.4)
    kept(shedder, np.arange(RECENT) % 2)
    assert kept(shedder, [1] * 100 + [0]) == list(range(100))


def test_nothing_is_dropped_unless_it_is_asked_for():
    for shedder in (Shedder(1), Shedder(None)):
        assert kept(shedder, [1, 2, 3]) == [0, 1, 2]
    never = Shedder(None)
    never.set_share(0.9)
    assert kept(never, [1, 2, 3]) == [0, 1, 2]
    over = Shedder(1)
    over.set_share(0.9)
    over.kept(batch([1, 2, 3]))
    over.set_share(0.0)
    assert kept(over, [1, 2, 3]) == [0, 1, 2]
    assert over.kept(batch([], pa.int64())).num_rows == 0


# -- rows that are taken in


def test_no_more_rows_are_taken_in_than_are_served_within_half_the_target():
    admission = Admission(0.4)
    assert not admission.full(0.0, LEAST, 0)
    assert admission.full(0.0, LEAST + 1, 0)  # nobody knows yet
    assert not admission.full(0.5, 9_000, 25_000)  # 50,000 a second: 10,000 in 0.2 s
    assert admission.full(0.6, 11_000, 25_100)
    assert admission.full(1.0, 9_000, 45_000)  # 40,000 a second
    assert not admission.full(1.0, 7_900, 45_000)


def test_without_a_target_rows_are_taken_in_as_ever():
    assert not Admission(None).full(0.0, 10**9, 0)
