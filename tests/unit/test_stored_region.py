"""The controller and a keyed operator whose state is stored."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from evenflow.control.batches.stored_queries import LEFT_S
from evenflow.control.controller import Controller
from evenflow.control.events import (
    CancelInstruction,
    FeederJoinedEvent,
    MessageEvent,
    PeerLeftEvent,
    RegionOpenedEvent,
    ReplaceInstruction,
    SaveEndedEvent,
    SaveInstruction,
    SendInstruction,
    StageFacts,
    TickEvent,
)
from evenflow.model.checkpoint import Base, Begun, Saved, WholeAttempt
from evenflow.model.entries import EventEntry
from evenflow.model.messages import (
    Committed,
    EvaluationLost,
    FeederBegan,
    FeederEnded,
    FeederFailed,
    FeederUnread,
    LoadState,
    OperatorReady,
    RowsDiffer,
    SaveAgain,
    StateLoaded,
    UnitsSaved,
    WorkerAlive,
    WorkerHello,
    WorkerReport,
)
from evenflow.policy import Hash
from evenflow.runtime.driver.queries import Queries
from tests.support.records import fields_of

UNITS = 6


class Scene:
    """A controller with one stored region `r` and one worker, peer 10."""

    def __init__(self):
        self.controller = Controller(1)
        self.out = []
        self.slow = ()
        """What the store takes long to keep: kinds of saves."""
        self.do(RegionOpenedEvent(0.0, "r", "op", Hash(), UNITS, durable=True))
        self.do(MessageEvent(0.0, 10, WorkerHello(0, "h", 1, 1, transfer_port=900)))

    def do(self, event):
        found = self.controller.handle(event)
        self.out += found
        for save in (each for each in found if isinstance(each, SaveInstruction) and each.kind not in self.slow):
            self.do(SaveEndedEvent(0.0, save))

    def feeder(self, peer, epoch, partition=0, attempt=0, of=1, rows=True, tasks=0, stage="", run="1", time=0.0):
        facts = StageFacts(tasks or of, of, inputs=of)
        about = (partition, attempt, "q", epoch, stage or f"s{epoch}")
        joined = FeederJoinedEvent(time, peer, "r", *about, run=run, task=peer)
        self.do(replace(joined, facts=facts))
        if rows:
            self.do(MessageEvent(0.0, peer, FeederBegan(partition)))

    def batch(self, epoch):
        peer = 100 + epoch
        self.feeder(peer, epoch)
        self.do(MessageEvent(0.0, peer, FeederEnded({"0.1": 1})))
        self.do(PeerLeftEvent(0.0, peer, "done"))

    def heard(self, peer, kind):
        return [
            each.message
            for each in self.out
            if isinstance(each, SendInstruction) and each.peer == peer and isinstance(each.message, kind)
        ]

    def recorded(self, kind):
        return [fields_of(each) for each in self.out if isinstance(each, EventEntry) and each.event == kind]


@pytest.fixture
def scene():
    return Scene()


def test_a_worker_hears_that_its_snapshot_came_too_late(scene):
    """Or it would take units for saved whose logs are kept for want of a snapshot."""
    for epoch in range(4):
        scene.batch(epoch)
    late, good = (np.array([unit], np.int32) for unit in (0, 1))
    scene.do(MessageEvent(0.0, 10, UnitsSaved("r", "query q", 0, "late", late)))
    scene.do(MessageEvent(0.0, 10, UnitsSaved("r", "query q", 1, "good", good)))
    assert scene.heard(10, SaveAgain) == [SaveAgain("r", "query q", 0, late)]
    assert [fields["epoch"] for fields in scene.recorded("snapshot-too-late")] == [0]


def test_a_stage_that_cannot_count_any_more_is_given_up_once(scene):
    """Or Spark would try each of its tasks four times, to be refused each time."""
    scene.batch(0)
    scene.do(PeerLeftEvent(0.0, 10, "killed"))
    assert not [each for each in scene.out if isinstance(each, CancelInstruction)]  # all of it is noted: it may count
    scene.do(MessageEvent(0.0, 11, WorkerHello(0, "h", 1, 1, transfer_port=900)))
    scene.feeder(201, 1, 0, of=2)
    scene.feeder(202, 1, 1, of=2)
    scene.do(PeerLeftEvent(0.0, 201, "broke off"))
    scene.do(PeerLeftEvent(0.0, 202, "broke off"))
    (cancel,) = [each for each in scene.out if isinstance(each, CancelInstruction)]
    assert cancel.stage == "s1"
    assert cancel.reason.startswith("region r: partition 0 of batch 1 of query q broke off")


def test_a_query_that_is_stopped_is_no_loss(scene):
    scene.feeder(201, 0)
    assert scene.controller.run_of(201) == "1"
    assert scene.controller.run_of(10) == ""
    scene.do(PeerLeftEvent(0.0, 201, "closed", stopped=True))
    (stopped,) = scene.recorded("attempt-stopped")
    assert stopped["why"].startswith("the query was stopped in the middle of batch 0, which is run again when")
    assert not scene.recorded("attempt-poisoned")


def loading(stall_timeout):
    """Two workers, peers 10 and 11, one of which has loaded at 2 s; a task of batch 1 waits for the other."""
    scene = Scene()
    scene.controller = Controller(2, stall_timeout=stall_timeout)
    scene.do(RegionOpenedEvent(0.0, "r", "op", Hash(), UNITS, durable=True))
    for worker in range(2):
        scene.do(MessageEvent(0.0, 10 + worker, WorkerHello(worker, "h", 1, 1, transfer_port=900)))
    scene.batch(0)
    scene.do(PeerLeftEvent(1.0, 10, "killed"))
    scene.do(MessageEvent(1.0, 12, WorkerHello(0, "h", 1, 1, transfer_port=900)))
    scene.do(FeederJoinedEvent(1.0, 101, "r", 0, 0, "q", 1, "s1", run="1", facts=StageFacts(1, 1, inputs=1)))
    scene.do(MessageEvent(1.0, 101, FeederBegan(0)))
    scene.out.clear()
    scene.do(MessageEvent(2.0, 12, StateLoaded("r", "query q", 1)))
    return scene


def test_a_worker_that_answers_nothing_while_its_state_is_needed_is_replaced():
    scene = loading(stall_timeout=5.0)
    for now in range(2, 7):
        scene.do(MessageEvent(float(now), 12, WorkerReport(0, 0, 0.0)))
        scene.do(TickEvent(float(now)))
    assert not [each for each in scene.out if isinstance(each, ReplaceInstruction)]
    scene.do(MessageEvent(6.5, 12, WorkerReport(0, 0, 0.0)))
    scene.do(TickEvent(6.6))
    (replace,) = [each for each in scene.out if isinstance(each, ReplaceInstruction)]
    assert (replace.peer, replace.worker) == (11, 1)
    (lost,) = scene.recorded("worker-lost")
    assert lost["worker"] == 1
    (told,) = scene.heard(101, EvaluationLost)
    assert told.reason.startswith(
        "worker 1 was lost (it answered nothing for 7 s while its state was needed, and is replaced), and with it"
    )
    assert scene.controller.live() == 1
    scene.do(TickEvent(20.0))
    scene.do(MessageEvent(21.0, 11, WorkerReport(5, 5, 0.0)))  # it wakes, and is nobody any more
    scene.do(MessageEvent(21.0, 11, StateLoaded("r", "query q", 1)))
    scene.do(MessageEvent(22.0, 13, WorkerHello(1, "h", 1, 1, transfer_port=900)))
    assert [(worker.state, worker.incarnation) for worker in scene.controller.workers(22.0)] == [
        ("live", 2),
        ("live", 2),
    ]


@pytest.mark.parametrize(
    "sign",
    [
        MessageEvent(5.0, 11, WorkerAlive()),
        MessageEvent(5.0, 11, WorkerReport(0, 0, 0.0)),
        MessageEvent(5.0, 11, OperatorReady("op")),
    ],
)
def test_a_worker_that_says_anything_is_waited_for(sign):
    scene = loading(stall_timeout=5.0)
    scene.do(sign)
    scene.do(TickEvent(9.0))
    assert not [each for each in scene.out if isinstance(each, ReplaceInstruction)]
    scene.do(TickEvent(10.5))
    assert [each.worker for each in scene.out if isinstance(each, ReplaceInstruction)] == [1]


def test_a_worker_that_is_merely_busy_is_left_alone():
    """Nobody waits for state: there is no deadline for those that have a long call to make."""
    scene = Scene()
    scene.controller = Controller(1, stall_timeout=5.0)
    scene.do(RegionOpenedEvent(0.0, "r", "op", Hash(), UNITS, durable=True))
    scene.do(MessageEvent(0.0, 10, WorkerHello(0, "h", 1, 1, transfer_port=900)))
    scene.feeder(101, 0)
    scene.do(TickEvent(1000.0))
    assert not [each for each in scene.out if isinstance(each, ReplaceInstruction)]
    assert scene.controller.live() == 1


def test_a_batch_that_cannot_be_noted_for_good_is_told_at_once(scene):
    scene.batch(0)
    scene.feeder(101, 1)
    save = next(each for each in scene.out if isinstance(each, SaveInstruction) and each.kind == "epoch")
    scene.do(SaveEndedEvent(0.0, save, "the store fails now and then"))
    assert not scene.heard(101, EvaluationLost)
    scene.do(SaveEndedEvent(0.0, save, "CorruptState: blob q/epoch/3: it fails its checksum", final=True))
    (told,) = scene.heard(101, EvaluationLost)
    assert told.reason == ("the checkpoint cannot be written: CorruptState: blob q/epoch/3: it fails its checksum")


class Stream:
    """A query, as far as it matters here."""

    def __init__(self, active, failure=None):
        self.isActive, self._failure = active, failure

    def exception(self):
        return self._failure


class Session:
    """A session with queries by id, which after their end are not to be had any more."""

    def __init__(self, **streams):
        self.there = streams

    @property
    def streams(self):
        return SimpleNamespace(get=self.there.get)


def test_a_query_was_stopped_if_it_ended_and_did_not_fail():
    session = Session(a=Stream(True), b=Stream(True), c=Stream(True))
    queries = Queries(session)
    for name in "abcd":
        queries.meet(name, f"run-{name}")
    there, session.there = session.there, {}
    there["b"].isActive = there["c"].isActive = False
    there["c"]._failure = "it failed"
    assert [queries.stopped(f"run-{name}") for name in "abcdx"] == [False, True, False, False, False]


@pytest.mark.parametrize("stage", [{"of": 2, "tasks": 1}, {"of": 1}], ids=["of a part", "of one task"])
def test_a_look_at_the_batch_that_breaks_off_is_not_cancelled(scene, stage):
    """take(1) has what it wants and lets the rest be: its stage is over, or nearly, and must not fail."""
    scene.feeder(201, 0, **stage)
    scene.do(PeerLeftEvent(0.0, 201, "broke off"))
    assert scene.recorded("attempt-poisoned")
    assert not [each for each in scene.out if isinstance(each, CancelInstruction)]


def test_a_task_that_says_why_it_failed_is_not_tried_again(scene):
    scene.feeder(201, 0)
    scene.do(MessageEvent(0.0, 201, FeederFailed("the operator failed")))
    assert [each.stage for each in scene.out if isinstance(each, CancelInstruction)] == ["s0"]


# -- what the store is told, and who waits for that


def saves(scene, kind):
    return [each.content for each in scene.out if isinstance(each, SaveInstruction) and each.kind == kind]


def told(scene, peer):
    return len(scene.heard(peer, Committed))


def test_what_is_noted_of_a_batch(scene):
    scene.feeder(201, 0, 0, of=2)
    scene.feeder(202, 0, 1, of=2)
    assert saves(scene, "begun") == [Begun(0, 1, run="1")]
    scene.do(MessageEvent(0.0, 201, FeederEnded({"0.1": 1})))
    assert (told(scene, 201), saves(scene, "whole")) == (1, [])
    scene.do(MessageEvent(0.0, 202, FeederEnded({"0.1": 2})))
    assert saves(scene, "whole") == [WholeAttempt(0, 1, {"0.1": 2}, (0, 1), 2, run="1", repeatable=True)]
    assert told(scene, 202) == 1
    scene.feeder(203, 1)
    assert [base.key for base in saves(scene, "epoch")] == [(0, 1)]
    assert saves(scene, "begun")[1] == Begun(1, 1, (0, 1), "1")


def test_the_last_task_waits_for_the_note_and_has_no_rows(scene):
    scene.slow = ("whole",)
    scene.feeder(201, 0, 0, of=2)
    scene.feeder(202, 0, 1, of=2, rows=False)
    scene.do(MessageEvent(0.0, 201, FeederEnded({"0.1": 1})))
    scene.do(MessageEvent(0.0, 202, FeederEnded({})))
    assert (told(scene, 201), told(scene, 202)) == (1, 0)
    (save,) = [each for each in scene.out if isinstance(each, SaveInstruction) and each.kind == "whole"]
    scene.do(SaveEndedEvent(0.0, save))
    assert told(scene, 202) == 1


def test_no_task_ends_before_it_is_noted_that_its_attempt_has_begun(scene):
    scene.slow = ("begun",)
    scene.feeder(201, 0, 0, of=2)
    scene.do(MessageEvent(0.0, 201, FeederEnded({"0.1": 1})))
    assert not told(scene, 201)
    (save,) = [each for each in scene.out if isinstance(each, SaveInstruction)]
    scene.do(SaveEndedEvent(0.0, save))
    assert told(scene, 201) == 1


@pytest.mark.parametrize("kind", ["begun", "whole"])
def test_what_cannot_be_noted_costs_the_attempt(scene, kind):
    scene.slow = (kind,)
    scene.feeder(201, 0)
    scene.do(MessageEvent(0.0, 201, FeederEnded({"0.1": 1})))
    (save,) = [each for each in scene.out if isinstance(each, SaveInstruction) and each.kind == kind]
    scene.do(SaveEndedEvent(0.0, save, "the disk is full"))
    told = [message.reason for message in scene.heard(201, EvaluationLost)]
    assert told == ["the checkpoint cannot be written: the disk is full"] * (kind == "whole")
    epochs = scene.controller.region("r").evaluations.stored["query q"]
    assert not epochs.attempt.whole


def test_a_worker_that_is_lost_when_all_is_durable_costs_nothing(scene):
    scene.slow = ("whole",)
    scene.feeder(201, 0, 0)
    scene.do(MessageEvent(0.0, 201, FeederEnded({"0.1": 1})))
    scene.do(PeerLeftEvent(0.0, 10, "killed"))
    assert not scene.heard(201, EvaluationLost)
    (save,) = [each for each in scene.out if isinstance(each, SaveInstruction) and each.kind == "whole"]
    scene.do(SaveEndedEvent(0.0, save))
    assert told(scene, 201) == 1


def test_what_the_store_has_is_gone_on_with():
    scene = Scene()
    saved = Saved(Base(), (WholeAttempt(0, 1, {"0.1": 1}, (0,), 8),), Begun(0, 1))
    facts = StageFacts(1, 1, inputs=1)
    scene.do(FeederJoinedEvent(0.0, 201, "r", 0, 0, "q", 1, "s1", run="2", saved=saved, facts=facts))
    assert [base.key for base in saves(scene, "epoch")] == [(0, 1)]
    assert [log.epoch for log in scene.heard(10, LoadState)[0].logs] == [0]


@pytest.mark.parametrize(("run", "said"), [("1", True), ("2", False)])
def test_rows_that_differ_in_one_start_of_the_query_are_to_be_persisted(scene, run, said):
    """To run the batch afresh helps nobody whose second action gets other rows each time."""
    scene.batch(0)
    scene.feeder(300, 0, rows=False, stage="again", run=run)
    scene.do(MessageEvent(1.0, 10, RowsDiffer("r", "query q", 0, 2, "more rows come")))
    (lost,) = scene.heard(300, EvaluationLost)
    assert "its source gives other rows now: more rows come." in lost.reason
    assert ("In foreachBatch, call persist() before the first action" in lost.reason) == said


def test_a_repeat_is_left_only_long_after_its_last_task(scene):
    """Spark may have no slot for the next one; only then units may move."""
    scene.batch(0)
    region = scene.controller.region("r")
    scene.feeder(300, 0, rows=False, of=2, stage="again", time=1000.0)
    epochs = region.evaluations.stored["query q"]
    epochs.load([0])
    epochs.loaded(0)
    assert epochs.repeating
    scene.do(MessageEvent(1000.0, 300, FeederUnread()))
    for past, left in ((LEFT_S - 1, False), (LEFT_S + 1, True)):
        assert (region.evaluations.idle_s("query q", 1000.0 + past) > LEFT_S) == left
