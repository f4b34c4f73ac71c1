"""Tasks of a stored query whose rest Spark does not want: `isEmpty` and `limit` in foreachBatch are no failures."""

import pytest

from evenflow.control.controller import Controller
from evenflow.control.events import (
    CancelInstruction,
    FeederJoinedEvent,
    MessageEvent,
    PeerLeftEvent,
    RegionOpenedEvent,
    SaveEndedEvent,
    SaveInstruction,
    SendInstruction,
    StageFacts,
)
from evenflow.model.messages import (
    EvaluationLost,
    FeederBegan,
    FeederEnded,
    FeederUnread,
    KeyedDirectory,
    LoadState,
    StateLoaded,
    WorkerHello,
)
from evenflow.policy import Hash

WORKER = 10


class Scene:
    """A controller with one stored region `r` and one worker, which loads what it is told to at once."""

    def __init__(self):
        self.controller = Controller(1)
        self.out = []
        self.do(RegionOpenedEvent(0.0, "r", "op", Hash(), 6, durable=True))
        self.do(MessageEvent(0.0, WORKER, WorkerHello(0, "h", 1, 1, transfer_port=900)))

    def do(self, event):
        found = self.controller.handle(event)
        self.out += found
        for each in found:
            if isinstance(each, SaveInstruction):
                self.do(SaveEndedEvent(0.0, each))
            elif isinstance(each, SendInstruction) and isinstance(each.message, LoadState):
                self.do(MessageEvent(0.0, WORKER, StateLoaded("r", "query q", each.message.load)))

    def task(self, peer, stage, partition, epoch=0, attempt=0):
        """A task of a stage of two, which has its first row; it is the only stage that Spark has."""
        facts = StageFacts(2, 2, inputs=2, live=frozenset({stage}))
        self.do(FeederJoinedEvent(0.0, peer, "r", partition, attempt, "q", epoch, stage, run="1", facts=facts))
        self.do(MessageEvent(0.0, peer, FeederBegan(partition)))

    def through(self, *peers):
        for peer in peers:
            self.do(MessageEvent(0.0, peer, FeederEnded({"0.1": 1})))
            self.do(PeerLeftEvent(0.0, peer, "done"))

    def unread(self, *peers):
        for peer in peers:
            self.do(MessageEvent(0.0, peer, FeederUnread()))
            self.do(PeerLeftEvent(0.0, peer, "done"))

    def told(self, peer):
        return [type(each.message) for each in self.out if isinstance(each, SendInstruction) and each.peer == peer]

    @property
    def cancelled(self):
        return [each.stage for each in self.out if isinstance(each, CancelInstruction)]


@pytest.fixture
def scene():
    made = Scene()
    made.task(101, "0", 0)
    made.task(102, "0", 1)
    return made


def test_the_others_go_on_and_the_batch_is_evaluated_again(scene):
    scene.unread(101)
    assert EvaluationLost not in scene.told(102)
    scene.unread(102)
    scene.task(103, "1", 0)
    scene.task(104, "1", 1)
    assert [scene.told(peer)[:1] for peer in (103, 104)] == [[KeyedDirectory]] * 2
    scene.through(103, 104)
    scene.task(105, "2", 0, epoch=1)
    assert scene.told(105) == [KeyedDirectory]
    assert scene.cancelled == []


def test_what_was_not_read_to_its_end_does_not_count(scene):
    scene.unread(101)
    scene.through(102)
    scene.task(105, "2", 0, epoch=1)
    assert scene.told(105) == [EvaluationLost]


def test_a_task_that_failed_elsewhere_comes_again(scene):
    """Spark wants its partition after all: its stage comes to nothing."""
    scene.unread(101)
    scene.task(103, "0", 0, attempt=1)
    assert [scene.told(103)[-1], scene.told(102)[-1]] == [EvaluationLost, EvaluationLost]
    assert scene.cancelled == ["0"]


def test_tasks_that_have_not_noticed_yet_are_in_nobodys_way(scene):
    scene.task(103, "1", 0)
    assert [scene.told(peer)[-1] for peer in (101, 102, 103)] == [EvaluationLost, EvaluationLost, KeyedDirectory]
    scene.do(PeerLeftEvent(0.0, 101, "done"))
    scene.do(PeerLeftEvent(0.0, 102, "done"))
    scene.task(104, "1", 1)
    scene.through(103, 104)
    scene.task(105, "2", 0, epoch=1)
    assert scene.told(105) == [KeyedDirectory]
    assert scene.cancelled == []
