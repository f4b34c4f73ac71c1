"""An error in any handler of a region ends that region, with the error told to its tasks; others go on."""

import inspect
from typing import get_args

import numpy as np
import pytest

from evenflow.control.controller import Controller
from evenflow.control.events import (
    CancelInstruction,
    CheckpointTakenEvent,
    Event,
    FeederJoinedEvent,
    GraphPlacing,
    MemoryAskedEvent,
    MessageEvent,
    MoveAskedEvent,
    PeerLeftEvent,
    QosAskedEvent,
    RegionFailedEvent,
    RegionOpenedEvent,
    ReportsAskedEvent,
    ResultUnpersistedEvent,
    Said,
    SaveEndedEvent,
    SaveInstruction,
    SendInstruction,
    StageFacts,
    StopEvent,
    TaskEndedEvent,
    TickEvent,
)
from evenflow.model import MoveUnits
from evenflow.model.checkpoint import Base
from evenflow.model.entries import EventEntry
from evenflow.model.graphs.shape import GraphShape, NodeShape
from evenflow.model.latency import Latencies
from evenflow.model.messages import (
    ConsumerReport,
    EvaluationLost,
    FeederArrivals,
    FeederBegan,
    FeederDraining,
    FeederEnded,
    FeederFailed,
    FeederRefused,
    FeederReport,
    FeederUnread,
    FlowProgress,
    FlowReport,
    KeyedDirectory,
    MemorySet,
    MoveReport,
    OperatorReady,
    RowsDiffer,
    StateLoaded,
    UnitsSaved,
    WorkerAlive,
    WorkerHello,
    WorkerReport,
    WorkerTrouble,
)
from evenflow.model.qos import Qos
from evenflow.policy import Hash, RoundRobin, RoundRobinPlacement
from tests.support.records import fields_of

UNITS = 8
GRAPH = GraphPlacing(
    GraphShape(
        ("s",), (NodeShape("a", "filter", 0, 1, (1,), (-1,)), NodeShape("b", "keyed", 1, UNITS - 1, (), (0,), True))
    ),
    RoundRobinPlacement(),
)
OPENED = {
    "ordered": RegionOpenedEvent(0.0, "bad", "op", RoundRobin()),
    "keyed": RegionOpenedEvent(0.0, "bad", "op", Hash(), UNITS),
    "stored": RegionOpenedEvent(0.0, "bad", "op", Hash(), UNITS, durable=True),
    "graph": RegionOpenedEvent(0.0, "bad", "op", Hash(), UNITS, graph=GRAPH),
}
"""By kind of region, one that is going to break."""
FACTS = StageFacts(2, 2, inputs=2)
BAD, GOOD, LATE = 21, 22, 23
"""The numbers of feeders."""
NONE, LONGS = np.array([], np.int32), np.array([], np.int64)

EVENTS = {
    RegionOpenedEvent: [RegionOpenedEvent(1.0, "third", "op", Hash(), UNITS)],
    RegionFailedEvent: [RegionFailedEvent(1.0, "bad", "on purpose")],
    FeederJoinedEvent: [FeederJoinedEvent(1.0, LATE, "bad", 1, query="q", stage="1", facts=FACTS)],
    SaveEndedEvent: [
        SaveEndedEvent(1.0, SaveInstruction("bad", "q", kind, Base()), "full", True)
        for kind in ("begun", "whole", "epoch")
    ],
    CheckpointTakenEvent: [CheckpointTakenEvent(1.0, "another cluster has it")],
    MoveAskedEvent: [MoveAskedEvent(1.0, MoveUnits("bad", (1,), 0, 1, "asked for"))],
    MemoryAskedEvent: [MemoryAskedEvent(1.0, {0: 100})],
    QosAskedEvent: [QosAskedEvent(1.0, "bad", 2.0)],
    ReportsAskedEvent: [ReportsAskedEvent(1.0, 1)],
    PeerLeftEvent: [PeerLeftEvent(1.0, BAD, "gone"), PeerLeftEvent(1.0, 11, "gone")],
    TaskEndedEvent: [TaskEndedEvent(1.0, 1, "over")],
    ResultUnpersistedEvent: [ResultUnpersistedEvent(1.0, frozenset({3}))],
    TickEvent: [TickEvent(1.0)],
    StopEvent: [StopEvent(1.0)],
}
"""By class of events, some that concern the region `bad`, or all regions."""
SAID = {
    WorkerHello: (13, WorkerHello(2, "h", 7013, 113)),
    WorkerReport: (11, WorkerReport(1, 1, 0.1)),
    WorkerAlive: (11, WorkerAlive()),
    WorkerTrouble: (11, WorkerTrouble("a thread", "none")),
    OperatorReady: (11, OperatorReady("op")),
    MemorySet: (11, MemorySet(1, 1, 1, 1, 0.1)),
    ConsumerReport: (11, ConsumerReport("bad", 1.0, 0.5, 0.5, 3, 30, *[NONE, LONGS] * 3, 0, 0, 0, {})),
    FlowReport: (11, FlowReport("bad", 0.1, NONE, LONGS, LONGS, LONGS, LONGS, LONGS, {}, 10, 1000.0, {}, {})),
    MoveReport: (11, MoveReport("bad", 1, "installed", "", 1)),
    StateLoaded: (11, StateLoaded("bad", "query q", 1, "", 1, 1, 0.1)),
    RowsDiffer: (11, RowsDiffer("bad", "query q", 0, 1, "rows are missing")),
    UnitsSaved: (11, UnitsSaved("bad", "query q", 0, "blob", NONE, 1)),
    FeederBegan: (BAD, FeederBegan(0)),
    FeederArrivals: (BAD, FeederArrivals(NONE, LONGS)),
    FlowProgress: (BAD, FlowProgress({}, Latencies({}, 0.0))),
    FeederDraining: (BAD, FeederDraining()),
    FeederEnded: (BAD, FeederEnded({}, 0.1)),
    FeederUnread: (BAD, FeederUnread()),
    FeederFailed: (BAD, FeederFailed("the user's code")),
    FeederReport: (BAD, FeederReport(1.0, 1, {})),
}
"""By class of messages, who says it, and one that concerns the region `bad`, or all regions."""
ALL = [event for events in EVENTS.values() for event in events]
ALL += [MessageEvent(1.0, peer, message) for peer, message in SAID.values()]
ABOUT_WORKERS = (
    TaskEndedEvent,
    MemoryAskedEvent,
    QosAskedEvent,
    ReportsAskedEvent,
    WorkerAlive,
    WorkerTrouble,
    OperatorReady,
    MemorySet,
)
ONLY_KEYED = (CheckpointTakenEvent, SaveEndedEvent, MoveAskedEvent, ResultUnpersistedEvent, WorkerReport)


def _id(event):
    return type(event.message if isinstance(event, MessageEvent) else event).__name__


def flat(union):
    return {kind for each in get_args(union) for kind in (flat(each) or {each})}


def test_there_is_one_of_each():
    assert {*EVENTS, MessageEvent} == flat(Event)
    assert set(SAID) == flat(Said)


def boom(*_anything, **_named):
    raise MemoryError("on purpose")


def break_all(region):
    """Whatever is asked of the region fails, but for its public data."""
    kind = type(region)
    members = {name for name, _ in inspect.getmembers(kind) if not name.startswith("__")}
    broken = {name: property(boom) if isinstance(getattr(kind, name), property) else boom for name in members}
    broken.pop("balance", None)
    region.__class__ = type("Broken", (kind,), broken)


def scene(kind, qos=None):
    made = Controller(3, qos)
    for peer, worker in ((11, 0), (12, 1)):
        made.handle(MessageEvent(0.0, peer, WorkerHello(worker, "h", 7000 + peer, 100 + peer)))
    made.handle(OPENED[kind])
    made.handle(RegionOpenedEvent(0.0, "good", "op", Hash(), UNITS))
    for peer, region in ((BAD, "bad"), (GOOD, "good")):
        joined = FeederJoinedEvent(0.0, peer, region, query="q", stage="1", facts=FACTS)
        made.handle(joined)
        made.handle(MessageEvent(0.0, peer, FeederBegan(0)))
    return made


def heard_by(told, peer):
    return [each.message for each in told if isinstance(each, SendInstruction) and each.peer == peer]


def ended(told, peer):
    """Why a task is to end, in the words that it is told."""
    return "; ".join(each.reason for each in heard_by(told, peer) if isinstance(each, EvaluationLost | FeederRefused))


def spared(told):
    """The other region's task goes on."""
    assert ended(told, GOOD).count(";") < 1
    assert not ended(told, GOOD) or "worker 0 was lost" in ended(told, GOOD)  # which costs everybody, as ever


@pytest.mark.parametrize("kind", OPENED)
@pytest.mark.parametrize("event", ALL, ids=_id)
def test_an_error_in_a_handler_ends_that_region_alone(kind, event):
    made = scene(kind)
    good = made.region("good")
    break_all(made.region("bad"))
    told = made.handle(event)
    what = event.message if isinstance(event, MessageEvent) else event
    touches = not isinstance(what, ABOUT_WORKERS) and (
        kind != "ordered"
        or not isinstance(what, (*ONLY_KEYED, ConsumerReport, FlowReport, MoveReport, RowsDiffer, StateLoaded))
    )
    touches &= kind != "ordered" or not isinstance(what, UnitsSaved)
    assert bool(made.failure("bad")) == touches
    if touches:
        assert "bad" not in made.regions
        assert "on purpose" in made.failure("bad")
        if what != PeerLeftEvent(1.0, BAD, "gone"):
            assert "on purpose" in ended(told, BAD)
        if isinstance(what, FeederJoinedEvent):  # which breaks it by its own joining
            assert "on purpose" in ended(told, LATE)
    assert made.region("good") is good
    if not isinstance(event, StopEvent):
        spared(told)
        goes_on(made)


def goes_on(made):
    """Another task of the other region is served, and one of the broken region is told why it is not."""
    made.handle(FeederJoinedEvent(2.0, 31, "good", 1, stage="7", facts=FACTS))
    told = made.handle(MessageEvent(2.0, 31, FeederBegan(1)))
    assert [type(each) for each in heard_by(told, 31)] == [KeyedDirectory]
    if made.failure("bad"):
        told = made.handle(FeederJoinedEvent(2.0, 32, "bad", 1, stage="7", facts=FACTS))
        assert "on purpose" in heard_by(told, 32)[0].reason
    made.handle(TickEvent(3.0))
    made.handle(MessageEvent(3.5, 31, FeederReport(1.0, 0, {}, rows_in=77)))
    noted = [
        fields_of(each)
        for each in made.handle(TickEvent(5.0))
        if isinstance(each, EventEntry) and each.event == "performance"
    ]
    assert [(each["region"], each["rows_in"]) for each in noted] == [("good", 77)]


@pytest.mark.parametrize("kind", OPENED)
@pytest.mark.parametrize("alone", [False, True])
def test_the_task_that_breaks_a_region_by_joining_it_is_told_and_its_stage_is_cancelled(kind, alone):
    """It waited for workers until it gave up, and never heard of the error."""
    made = scene(kind)
    if alone:
        made.handle(PeerLeftEvent(0.5, BAD, "through"))
    break_all(made.region("bad"))
    late = FeederJoinedEvent(1.0, LATE, "bad", 1, query="q", stage="9", facts=FACTS)
    told = made.handle(late)
    assert "on purpose" in ended(told, LATE)
    assert [each.stage for each in told if isinstance(each, CancelInstruction)] == ["9"] if alone else ["1", "9"]
    assert made.feeders == {GOOD}


class Broken:
    """A part of a region of which nothing can be had."""

    def __getattribute__(self, name):
        boom()


TARGET = {"bad": Qos(latency_ms=100), "good": Qos(latency_ms=100)}
PARTS = [
    (kind, part) for kind in OPENED for part in ("performance", "movements", "evaluations", "statistics", "stored")
]
PARTS = [(kind, part) for kind, part in PARTS if kind != "ordered" or part == "performance"]


@pytest.mark.parametrize(("kind", "part"), PARTS)
@pytest.mark.parametrize("event", ALL, ids=_id)
def test_a_broken_part_of_a_region_ends_that_region_alone(kind, part, event):
    """Also if it is what the region is closed by, or what its latency is read from."""
    made = scene(kind, TARGET)
    good = made.region("good")
    setattr(made.region("bad"), part, Broken())
    told = made.handle(event)
    assert made.region("good") is good
    if isinstance(event, StopEvent):
        assert "stopping" in ended(told, GOOD)
        return
    spared(told)
    told += made.handle(TickEvent(1.5))  # by now each of them has been asked for something
    assert "on purpose" in made.failure("bad")
    assert "bad" not in made.regions
    assert event == PeerLeftEvent(1.0, BAD, "gone") or "on purpose" in ended(told, BAD)
    goes_on(made)


@pytest.mark.parametrize("part", ["movements", "evaluations"])
def test_a_region_that_cannot_be_closed_cleanly_says_so_and_costs_no_other_its_instructions(part):
    made = scene("keyed")
    setattr(made.region("bad"), part, Broken())
    told = made.handle(RegionFailedEvent(1.0, "bad", "it was told to"))
    assert "it was told to" in ended(told, BAD)
    noted = {each.event: fields_of(each) for each in told if isinstance(each, EventEntry)}
    assert noted["controller-error"] == {
        "on": "drop the state of region bad, which workers keep",
        "error": "MemoryError: on purpose",
    }


@pytest.mark.parametrize("kind", OPENED)
def test_the_name_of_a_region_that_failed_is_given_to_no_other_operator(kind):
    """Workers took rows of the new query for late ones of the old, and old DataFrames joined the new region."""
    made = scene(kind)
    assert made.free_name("bad") == "bad-2"
    made.handle(RegionFailedEvent(1.0, "bad", "on purpose"))
    assert made.free_name("bad") == "bad-2"
    made.handle(RegionOpenedEvent(2.0, "bad-2", "another", Hash(), UNITS))
    told = made.handle(FeederJoinedEvent(2.0, LATE, "bad", 1, query="q", stage="9", facts=FACTS))
    assert "on purpose" in ended(told, LATE)


def test_it_can_be_opened_again():
    made = scene("stored")
    break_all(made.region("bad"))
    made.handle(TickEvent(1.0))
    assert made.failure("bad")
    made.handle(OPENED["stored"])
    assert not made.failure("bad")
    told = made.handle(FeederJoinedEvent(2.0, 31, "bad", 0, query="q", stage="2", facts=FACTS))
    assert not heard_by(told, 31)
    assert made.handle(MessageEvent(2.0, BAD, FeederEnded({}, 0.1))) == [], "its old tasks are not taken for new ones"
