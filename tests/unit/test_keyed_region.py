"""The controller and a keyed operator: who owns what when workers, feeders and moves come in an awkward order."""

from math import inf

import numpy as np
import pytest

from evenflow.control.controller import Controller
from evenflow.control.events import (
    FeederJoinedEvent,
    MessageEvent,
    MoveAskedEvent,
    PeerLeftEvent,
    RegionOpenedEvent,
    SendInstruction,
    StopEvent,
    TickEvent,
    WarnInstruction,
)
from evenflow.control.moves.patience import MARKERS_S, PATIENCE_S
from evenflow.model import MoveUnits
from evenflow.model.messages import (
    AbandonMoves,
    ConsumerReport,
    EvaluationLost,
    FeederArrivals,
    FeederBegan,
    FeederDraining,
    FeederEnded,
    FeederFailed,
    ForgetEvaluation,
    KeyedDirectory,
    MoveReport,
    ReleaseUnits,
    WorkerHello,
)
from evenflow.policy import Hash
from evenflow.policy.keyed.cep.dlb import DlbH
from tests.support.records import fields_of

UNITS = 6


class Scene:
    """A controller with one keyed region `r`; worker w is peer 10 + w, its second incarnation 20 + w, ..."""

    def __init__(self, workers=3, stall_timeout=inf, opened=0.0):
        self.controller = Controller(3, stall_timeout=stall_timeout)
        self.told = []
        self.events = []
        self.do(RegionOpenedEvent(opened, "r", "op", Hash(), UNITS))
        for worker in range(workers):
            self.join(worker)

    def do(self, event):
        for each in self.controller.handle(event):
            (self.told if isinstance(each, SendInstruction) else self.events).append(each)

    def join(self, worker, incarnation=1):
        self.do(
            MessageEvent(0.0, 10 * incarnation + worker, WorkerHello(worker, "h", 1, 1, transfer_port=900 + worker))
        )

    def lose(self, peer):
        self.do(PeerLeftEvent(0.0, peer, "killed"))

    def feeder(self, peer, stage="1", partition=0, begin=True):
        self.do(FeederJoinedEvent(0.0, peer, "r", partition, stage=stage))
        if begin:
            self.do(MessageEvent(0.0, peer, FeederBegan(partition)))

    def move(self, units, source, target):
        self.do(MoveAskedEvent(0.0, MoveUnits("r", tuple(units), source, target)))

    def report(self, worker, outcome, move=1):
        self.do(MessageEvent(0.0, 10 + worker, MoveReport("r", move, outcome)))

    def heard(self, peer, kind):
        return [each.message for each in self.told if each.peer == peer and isinstance(each.message, kind)]

    @property
    def region(self):
        return self.controller.region("r")

    @property
    def owners(self):
        return self.region.movements.table.owners.tolist()


def test_units_are_dealt_out_when_the_first_rows_come():
    scene = Scene()
    scene.feeder(100)
    assert scene.heard(100, KeyedDirectory)[-1].owners.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_feeder_that_came_before_the_workers_learns_who_owns_what():
    """Whatever feeders were told must be what later feeders are told, as long as there is state."""
    scene = Scene(workers=0)
    scene.feeder(100)
    for worker in (2, 1):
        scene.join(worker)
    scene.lose(11)
    scene.join(0)
    told = [message for message in scene.heard(100, KeyedDirectory) if message.workers]
    assert set(told[0].owners.tolist()) <= {1, 2}
    if not scene.heard(100, EvaluationLost):
        assert told[0].owners.tolist() == scene.owners


def test_nothing_is_dealt_anew_while_it_is_moving():
    scene = Scene(workers=2)
    scene.move([2], 0, 1)
    scene.join(2)
    scene.feeder(100)
    scene.report(0, "undelivered")
    scene.report(1, "discarded")
    scene.report(0, "restored")
    assert scene.heard(100, ReleaseUnits)[-1].worker == scene.owners[2] == 0


def test_a_lost_source_ends_its_movements_even_if_nobody_feeds():
    scene = Scene()
    scene.move([0], 0, 1)
    scene.lose(10)
    assert scene.region.movements.moving == 0


def test_movements_that_are_given_up_have_an_end_in_the_log_and_at_the_workers():
    scene = Scene()
    scene.feeder(100)
    scene.move([0], 0, 1)
    scene.lose(12)
    assert [fields_of(each)["move"] for each in scene.events if each.event in ("moved", "move-undone")] == [1]
    assert all(any(1 in message.moves for message in scene.heard(peer, AbandonMoves)) for peer in (10, 11))


def test_a_feeder_whose_evaluation_is_over_may_begin_with_no_worker_there():
    scene = Scene(workers=1)
    scene.feeder(100)
    scene.feeder(101, partition=1, begin=False)
    scene.lose(10)
    scene.do(MessageEvent(0.0, 101, FeederBegan(0)))
    assert scene.heard(101, EvaluationLost)


def test_a_feeder_leaves_by_the_name_that_it_came_with():
    """Its rows may be of another partition than its task: whoever reads the log finds who is still there."""
    scene = Scene()
    scene.feeder(100, partition=4, begin=False)
    scene.do(MessageEvent(0.0, 100, FeederBegan(1)))
    scene.do(PeerLeftEvent(1.0, 100, "done"))
    told = [fields_of(each) for each in scene.events if each.event in ("feeder-joined", "feeder-left")]
    assert [each["partition"] for each in told] == [4, 4]


def test_a_refused_feeder_leaves_nothing():
    scene = Scene()
    scene.feeder(100)
    scene.do(MessageEvent(0.0, 100, FeederEnded()))
    scene.do(PeerLeftEvent(0.0, 100, "done"))
    scene.feeder(101)
    assert scene.heard(101, EvaluationLost)
    scene.do(MessageEvent(0.0, 101, FeederEnded()))
    scene.do(PeerLeftEvent(0.0, 101, "done"))
    assert not scene.controller.feeders


@pytest.mark.parametrize(("stopped", "told"), [(True, "evaluation-stopped"), (False, "evaluation-ended")])
def test_a_query_that_is_stopped_on_purpose_is_told_from_one_that_broke_off(stopped, told):
    scene = Scene()
    scene.do(FeederJoinedEvent(0.0, 100, "r", 0, stage="1", query="q"))
    scene.do(MessageEvent(0.0, 100, FeederBegan(0)))
    scene.do(PeerLeftEvent(1.0, 100, "closed", stopped=stopped))
    assert [each.event for each in scene.events if each.event.startswith("evaluation-")] == [told]


def test_a_feeder_whose_evaluation_ended_while_it_waited_for_workers_hears_no_more():
    scene = Scene(workers=0)
    scene.feeder(100)
    scene.feeder(101, partition=1)
    scene.do(MessageEvent(0.0, 101, FeederFailed("on purpose")))
    assert [fields_of(e)["error"] for e in scene.events if e.event == "feeder-failed"] == ["on purpose"]
    scene.join(0)
    scene.do(TickEvent(1.0))
    assert [type(each.message) for each in scene.told if each.peer == 100] == [EvaluationLost]


def test_losing_a_worker_costs_every_evaluation():
    scene = Scene()
    scene.feeder(100, stage="1")
    scene.feeder(101, stage="2")
    scene.lose(11)
    assert [len(scene.heard(peer, EvaluationLost)) for peer in (100, 101)] == [1, 1]
    assert [message.evaluation for message in scene.heard(10, ForgetEvaluation)] == ["stage 1", "stage 2"]
    assert set(scene.owners) == {0, 2}


def test_stopping_is_no_loss():
    scene = Scene()
    scene.feeder(100)
    scene.feeder(101, partition=1)
    scene.move([0], 0, 1)
    scene.events.clear()
    scene.do(StopEvent(1.0))
    scene.do(MessageEvent(1.1, 100, FeederFailed("the cluster is stopping")))
    for peer in (100, 101, 10, 11, 12):
        scene.lose(peer)
    scene.do(TickEvent(1e6))
    told = ["cluster-stopping", "feeder-left", "feeder-left", *["worker-stopped"] * 3]
    assert [each.event for each in scene.events] == told


@pytest.mark.parametrize(("silent", "told"), [("target", ["quiet"]), ("source", [])])
def test_workers_that_do_not_answer_cost_the_state(silent, told):
    scene = Scene(stall_timeout=100.0)
    scene.feeder(100)
    scene.move([0], 0, 1)
    for outcome in told:
        scene.report(0, outcome)
    for time in (MARKERS_S, PATIENCE_S + MARKERS_S, 100.0):
        scene.do(TickEvent(time))
    assert not scene.heard(100, EvaluationLost)
    scene.do(TickEvent(100.0 + PATIENCE_S))
    reason, worker = scene.heard(100, EvaluationLost)[0].reason, 1 if silent == "target" else 0
    assert "could be neither moved nor taken back" in reason
    assert f"worker {worker} has not answered for 1" in reason
    assert "give Cluster a longer stall_timeout" in reason
    assert scene.region.movements.moving == 0


@pytest.mark.parametrize(("balance", "asked"), [(Hash, 1), (DlbH, 2)])
def test_who_goes_by_arrivals_is_asked_until_all_rows_are_through(monkeypatch, balance, asked):
    times = []
    monkeypatch.setattr(balance, "decide", lambda self, snapshot: times.append(snapshot.time) or [])
    scene = Scene()
    balancing = scene.region.balancing
    balancing.balance = balance()
    scene.feeder(100)
    balancing.decide(1.0, scene.region.feeders, scene.region.draining)
    scene.do(MessageEvent(1.5, 100, FeederDraining()))
    balancing.decide(2.0, scene.region.feeders, scene.region.draining)
    assert len(times) == asked


@pytest.mark.parametrize(
    ("batches", "warned"),
    [
        ([("1", 0), ("1", 1), ("1", 2), ("2", 0), ("2", 1)], 1),  # once
        ([("1", 0), ("2", 0), ("3", 1)], 0),  # one partition each
        ([("1", 0), ("2", 1), ("2", 0)], 1),
    ],
)
def test_rows_that_meet_in_the_order_of_arrival_are_warned_of_once(batches, warned):
    scene = Scene(workers=0)
    scene.do(RegionOpenedEvent(0.0, "s", "op", Hash(), UNITS, order_warning="order_by= is the remedy"))
    for peer, (stage, partition) in enumerate(batches, 100):
        scene.do(FeederJoinedEvent(0.0, peer, "s", partition, stage=stage))
        scene.do(MessageEvent(0.0, peer, FeederBegan(partition)))
    assert [each for each in scene.events if isinstance(each, WarnInstruction)] == [
        WarnInstruction("order_by= is the remedy")
    ] * warned


def test_nobody_warns_where_order_does_not_matter():
    scene = Scene()
    scene.feeder(100, partition=0)
    scene.feeder(101, partition=1)
    assert not [each for each in scene.events if isinstance(each, WarnInstruction)]


def test_the_event_log_lists_the_units_with_most_rows(monkeypatch):
    monkeypatch.setattr("evenflow.control.regions.balancing.LISTED_UNITS", 2)
    scene = Scene(opened=500.0)
    scene.feeder(1)
    rows = np.array([5, 0, 70, 1, 9, 0])

    def period(time):
        had = np.flatnonzero(rows).astype(np.int32)
        scene.do(MessageEvent(time, 1, FeederArrivals(had, rows[had])))
        nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
        for worker in range(3):
            scene.do(
                MessageEvent(time, 10 + worker, ConsumerReport("r", 1.0, 0.5, 0.5, 0, 0, *nothing, *nothing, *nothing))
            )

    for time in range(501, 513):
        period(float(time))
    listed = [each for each in scene.events if each.event == "unit-rows"]
    assert [each.time for each in listed] == [501.0, 511.0]  # soon, and then every ten seconds
    assert fields_of(listed[0]) == {
        "region": "r", "seconds": 1.0, "rows": 85, "units": [2, 4], "unit_rows": [70, 9], "others": 2,
    }  # fmt: skip
    assert fields_of(listed[1])["unit_rows"] == [700, 90]
