"""What a worker does about movements, in every order in which things can happen: events in, instructions out."""

import pytest

from evenflow.model.messages import (
    AbandonMoves,
    DiscardUnits,
    FeederGone,
    FetchUnits,
    MoveReport,
    RecallUnits,
    RestoreUnits,
    SendUnits,
    UnitsMoved,
    WorkerTrouble,
)
from evenflow.runtime.worker.events import (
    AnswerRowsInstruction,
    DeleteUnitsInstruction,
    DeliveryFailedEvent,
    DeliveryRefusedEvent,
    DiscardUnitsInstruction,
    DisownUnitsInstruction,
    FetchFailedEvent,
    FetchUnitsInstruction,
    FlushedEvent,
    FlushInstruction,
    InstallUnitsInstruction,
    LoopRoundEvent,
    MarkerReachedEvent,
    PutBackUnitsInstruction,
    RowsAnsweredEvent,
    RowsTakenEvent,
    SendUnitsInstruction,
    StoreUnitsInstruction,
    TakeOutUnitsInstruction,
    TakeRowsInstruction,
    TellInstruction,
    UnitsArrivedEvent,
    UnitsInstalledEvent,
    UnitsPutBackEvent,
    UnitsStoredEvent,
    UnitsTakenOutEvent,
)
from evenflow.runtime.worker.moves.movements import REMEMBERED, LocalMovements

KEPT, PARTS, PARCEL = object(), ["label", "state"], object()
UNITS = (1, 2)
PLACED = (("query q", 1),)


def order(move=1, feeders=(5, 6), store=False, flush=False):
    return SendUnits(move, "r", UNITS, 0, 1, "h", 7, feeders, ("query q",), "", store, flush)


def said(outcome, move=1, reason="", bytes=0):
    return TellInstruction(MoveReport("r", move, outcome, reason, bytes))


ANNOUNCED = [(order(), [])]
QUIET = [
    (order(feeders=()), [said("quiet"), TakeOutUnitsInstruction(order(feeders=()))]),
]
SENT = [*QUIET, (UnitsTakenOutEvent(1, KEPT, PARTS), [SendUnitsInstruction(1, "h", 7, PARTS)])]
BY_STORE = order(feeders=(), store=True)
PUT = [
    (BY_STORE, [said("quiet"), TakeOutUnitsInstruction(BY_STORE)]),
    (UnitsTakenOutEvent(1, KEPT, PARTS), [StoreUnitsInstruction(1, "r", PARTS)]),
]
HERE = [(UnitsArrivedEvent(1, PARCEL), []), (LoopRoundEvent(), [InstallUnitsInstruction(1, PARCEL)])]
INSTALLED = [*HERE, (UnitsInstalledEvent(1, "r", UNITS, PLACED, 10), [said("installed", bytes=10)])]
BACK = PutBackUnitsInstruction(1, "r", UNITS, KEPT)
OF_A_GRAPH = order(feeders=(5,), flush=True)
ROWS = ["frames"]
FLUSHING = [
    (OF_A_GRAPH, []),
    (RowsAnsweredEvent(1, 5), [TakeRowsInstruction(1, "r", UNITS)]),
    (RowsTakenEvent(1, ROWS), [FlushInstruction(1, "r")]),
]

SOURCE = {
    "it waits for the markers of all feeders": [
        *ANNOUNCED,
        (MarkerReachedEvent(1, 5, "r", UNITS), [AnswerRowsInstruction(1, 5, "r", UNITS)]),
        (RowsAnsweredEvent(1, 5), []),
        (RowsAnsweredEvent(1, 5), []),
        (RowsAnsweredEvent(1, 6), [said("quiet"), TakeOutUnitsInstruction(order())]),
        (RowsAnsweredEvent(1, 6), []),
    ],
    "a marker overtakes the announcement": [
        (MarkerReachedEvent(1, 5, "r", UNITS), [AnswerRowsInstruction(1, 5, "r", UNITS)]),
        (RowsAnsweredEvent(1, 5), []),
        (order(), []),
        (RowsAnsweredEvent(1, 6), [said("quiet"), TakeOutUnitsInstruction(order())]),
    ],
    "all markers overtake the announcement": [
        (RowsAnsweredEvent(1, 6), []),
        (RowsAnsweredEvent(1, 5), []),
        (order(), [said("quiet"), TakeOutUnitsInstruction(order())]),
    ],
    "a marker of the next movement comes early": [
        *ANNOUNCED,
        (RowsAnsweredEvent(2, 5), []),
        (order(2), []),
        (RowsAnsweredEvent(2, 6), [said("quiet", 2), TakeOutUnitsInstruction(order(2))]),
    ],
    "a feeder whose marker is not settled yet is still waited for": [
        (order(feeders=(5,)), []),
        (MarkerReachedEvent(1, 5, "r", UNITS), [AnswerRowsInstruction(1, 5, "r", UNITS)]),
        (FeederGone(1, 5), [said("quiet"), TakeOutUnitsInstruction(order(feeders=(5,)))]),
        (RowsAnsweredEvent(1, 5), []),
    ],
    "a feeder leaves before its marker comes": [
        *ANNOUNCED,
        (RowsAnsweredEvent(1, 6), []),
        (FeederGone(1, 5), [said("quiet"), TakeOutUnitsInstruction(order())]),
    ],
    "a feeder of a movement that nobody knows leaves": [(FeederGone(3, 5), [])],
    "it is recalled while it waits for markers": [
        *ANNOUNCED,
        (RowsAnsweredEvent(1, 5), []),
        (RecallUnits(1, "r"), [PutBackUnitsInstruction(1, "r", UNITS, None)]),
        (UnitsPutBackEvent(1, "r"), [said("restored")]),
        (RowsAnsweredEvent(1, 6), []),
    ],
    "it is recalled when the units have left": [*SENT, (RecallUnits(1, "r"), []), (UnitsMoved(1), [])],
    "it is recalled when all is over": [*SENT, (UnitsMoved(1), []), (RecallUnits(1, "r"), [])],
    "the target has the units": [*SENT, (UnitsMoved(1), []), (RestoreUnits(1, "r"), [said("restored")])],
    "the units go by way of the store": [
        *PUT,
        (UnitsStoredEvent(1), [said("stored")]),
        (UnitsMoved(1), [DeleteUnitsInstruction(1, "r")]),
    ],
    "the store does not take the units": [
        *PUT,
        (DeliveryFailedEvent(1, "no room"), [said("undelivered", reason="no room")]),
        (RestoreUnits(1, "r"), [DeleteUnitsInstruction(1, "r"), BACK]),
        (UnitsPutBackEvent(1, "r"), [said("restored")]),
    ],
    "the target cannot be reached": [
        *SENT,
        (DeliveryFailedEvent(1, "it is gone"), [said("undelivered", reason="it is gone")]),
        (RestoreUnits(1, "r"), [BACK]),
        (UnitsPutBackEvent(1, "r"), [said("restored")]),
    ],
    "the units cannot be taken out": [
        *QUIET,
        (UnitsTakenOutEvent(1, KEPT, failure="extract failed"), [BACK]),
        (UnitsPutBackEvent(1, "r"), [said("failed", reason="extract failed")]),
        (RestoreUnits(1, "r"), [PutBackUnitsInstruction(1, "r", UNITS, None)]),
        (UnitsPutBackEvent(1, "r"), [said("restored")]),
    ],
    "the units can be neither taken out nor put back": [
        *QUIET,
        (UnitsTakenOutEvent(1, KEPT, failure="extract failed"), [BACK]),
        (UnitsPutBackEvent(1, "r", "install failed"), [said("lost", reason="install failed")]),
    ],
    "the units cannot be restored": [
        *SENT,
        (RestoreUnits(1, "r"), [BACK]),
        (UnitsPutBackEvent(1, "r", "install failed"), [said("lost", reason="install failed")]),
    ],
    "it is restored before it is quiet": [
        *ANNOUNCED,
        (RestoreUnits(1, "r"), [PutBackUnitsInstruction(1, "r", UNITS, None)]),
        (UnitsPutBackEvent(1, "r"), [said("restored")]),
        (RowsAnsweredEvent(1, 5), []),
        (RowsAnsweredEvent(1, 6), []),
    ],
    "by way of the store, it is restored before anything was put there": [
        (order(store=True), []),
        (RestoreUnits(1, "r"), [PutBackUnitsInstruction(1, "r", UNITS, None)]),
    ],
    "news of a movement that is over": [
        *SENT,
        (UnitsMoved(1), []),
        (UnitsStoredEvent(1), []),
        (DeliveryFailedEvent(1, "late"), []),
        (UnitsMoved(1), []),
        (UnitsTakenOutEvent(1, KEPT, PARTS), []),
    ],
}

TARGET = {
    "units are installed": INSTALLED,
    "units wait for their operator's code": [
        *HERE,
        (LoopRoundEvent(), [InstallUnitsInstruction(1, PARCEL)]),
        (UnitsArrivedEvent(2, "other"), []),
        (LoopRoundEvent(), [InstallUnitsInstruction(1, PARCEL), InstallUnitsInstruction(2, "other")]),
    ],
    "units come from the store": [(FetchUnits(1, "r"), [FetchUnitsInstruction(1, "r")]), *INSTALLED],
    "units cannot be fetched": [
        (FetchUnits(1, "r"), [FetchUnitsInstruction(1, "r")]),
        (FetchFailedEvent(1, "r", "no blob"), [said("undelivered", reason="no blob")]),
    ],
    "units cannot be installed": [
        *HERE,
        (
            UnitsInstalledEvent(1, "r", UNITS, PLACED, failure="install failed"),
            [DiscardUnitsInstruction("r", PLACED), said("failed", reason="install failed")],
        ),
        (LoopRoundEvent(), []),
        (DiscardUnits(1, "r"), [said("discarded")]),
    ],
    "units that nobody announced": [
        (DeliveryRefusedEvent("who?"), [TellInstruction(WorkerTrouble("a movement", "who?"))]),
        (LoopRoundEvent(), []),
    ],
    "it is discarded before the units arrive": [
        (DiscardUnits(1, "r"), [said("discarded")]),
        (UnitsArrivedEvent(1, PARCEL), []),
        (FetchUnits(1, "r"), []),
        (LoopRoundEvent(), []),
    ],
    "it is discarded while the units wait for their operator's code": [
        *HERE,
        (DiscardUnits(1, "r"), [said("discarded")]),
        (LoopRoundEvent(), []),
    ],
    "it is discarded after the units were installed": [
        *INSTALLED,
        (
            DiscardUnits(1, "r"),
            [DiscardUnitsInstruction("r", PLACED), DisownUnitsInstruction("r", UNITS), said("discarded")],
        ),
        (DiscardUnits(1, "r"), [said("discarded")]),
    ],
    "units that come twice are installed once": [
        *INSTALLED,
        (UnitsArrivedEvent(1, PARCEL), []),
        (LoopRoundEvent(), []),
    ],
}

GRAPH = {
    "units leave when what they gave is through": [
        *FLUSHING,
        (FlushedEvent(1), [said("quiet"), TakeOutUnitsInstruction(OF_A_GRAPH, ROWS)]),
        (UnitsTakenOutEvent(1, KEPT, PARTS), [SendUnitsInstruction(1, "h", 7, PARTS)]),
        (UnitsMoved(1), []),
    ],
    "markers that overtook the announcement": [
        (RowsAnsweredEvent(1, 5), []),
        (OF_A_GRAPH, [TakeRowsInstruction(1, "r", UNITS)]),
    ],
    "a sender is gone": [
        (OF_A_GRAPH, []),
        (FeederGone(1, 5), [TakeRowsInstruction(1, "r", UNITS)]),
        (FeederGone(1, 5), []),
    ],
    "it is taken back before all is through": [
        *FLUSHING,
        (RestoreUnits(1, "r"), [PutBackUnitsInstruction(1, "r", UNITS, None, ROWS)]),
        (UnitsPutBackEvent(1, "r"), [said("restored")]),
        (FlushedEvent(1), []),
    ],
    "it is recalled before all is through": [
        *FLUSHING,
        (RecallUnits(1, "r"), [PutBackUnitsInstruction(1, "r", UNITS, None, ROWS)]),
        (UnitsPutBackEvent(1, "r"), [said("restored")]),
        (FlushedEvent(1), []),
    ],
    "its state cannot be taken out": [
        *FLUSHING,
        (FlushedEvent(1), [said("quiet"), TakeOutUnitsInstruction(OF_A_GRAPH, ROWS)]),
        (UnitsTakenOutEvent(1, KEPT, failure="why"), [PutBackUnitsInstruction(1, "r", UNITS, KEPT, ROWS)]),
        (UnitsPutBackEvent(1, "r"), [said("failed", reason="why")]),
        (RestoreUnits(1, "r"), [PutBackUnitsInstruction(1, "r", UNITS, None)]),
        (UnitsPutBackEvent(1, "r"), [said("restored")]),
    ],
    "it is abandoned before all is through": [
        *FLUSHING,
        (AbandonMoves("r", (1,)), []),
        (FlushedEvent(1), []),
    ],
    "a flush of something else": [*FLUSHING, (FlushedEvent(2), [])],
    "it is recalled before anything is in the store": [
        (order(feeders=(), store=True, flush=True), [TakeRowsInstruction(1, "r", UNITS)]),
        (RowsTakenEvent(1, ()), [FlushInstruction(1, "r")]),
        (RecallUnits(1, "r"), [PutBackUnitsInstruction(1, "r", UNITS, None)]),
        (UnitsPutBackEvent(1, "r"), [said("restored")]),
    ],
    "by way of the store": [
        (order(feeders=(), store=True, flush=True), [TakeRowsInstruction(1, "r", UNITS)]),
        (RowsTakenEvent(1, ()), [FlushInstruction(1, "r")]),
        (
            FlushedEvent(1),
            [said("quiet"), TakeOutUnitsInstruction(order(feeders=(), store=True, flush=True))],
        ),
        (UnitsTakenOutEvent(1, KEPT, PARTS), [StoreUnitsInstruction(1, "r", PARTS)]),
    ],
}

ABANDONED = {
    "unknown": [],
    "announced": ANNOUNCED,
    "marked early": [(RowsAnsweredEvent(1, 5), [])],
    "quiet": QUIET,
    "sent": SENT,
    "arrived": HERE,
    "installed": INSTALLED,
}
"""How far a movement may be when all its state is gone."""


def play(script, machine=None):
    machine = machine or LocalMovements()
    for place, (event, wanted) in enumerate(script):
        assert machine.handle(event) == wanted, f"step {place}, {event}"
    return machine


@pytest.mark.parametrize("script", SOURCE.values(), ids=SOURCE)
def test_the_source(script):
    machine = LocalMovements()
    assert [machine.handle(event) for event, _ in script] == [wanted for _, wanted in script]


@pytest.mark.parametrize("script", GRAPH.values(), ids=GRAPH)
def test_the_source_in_a_graph(script):
    machine = LocalMovements()
    assert [machine.handle(event) for event, _ in script] == [wanted for _, wanted in script]


@pytest.mark.parametrize("script", TARGET.values(), ids=TARGET)
def test_the_target(script):
    machine = LocalMovements()
    assert [machine.handle(event) for event, _ in script] == [wanted for _, wanted in script]


@pytest.mark.parametrize("before", ABANDONED.values(), ids=ABANDONED)
def test_a_movement_is_abandoned(before):
    """Nothing is kept of it, and nothing that still comes of it is taken."""
    machine = play([*before, (AbandonMoves("r", (1,)), [])])
    assert (machine.leaving, machine.markers, machine.arrived) == ({}, {}, {})
    late = [
        (UnitsArrivedEvent(1, PARCEL), []),
        (LoopRoundEvent(), []),
        (FetchUnits(1, "r"), []),
        (DiscardUnits(1, "r"), [said("discarded")]),
    ]
    play([*late, (DeliveryFailedEvent(1, "late"), []), (UnitsStoredEvent(1), [])], machine)


def test_what_was_stored_for_an_abandoned_movement_is_deleted():
    other = order(2, store=True)
    machine = play([*PUT, (other, [])])
    assert machine.handle(AbandonMoves("r", (2, 1))) == [DeleteUnitsInstruction(1, "r")]


def test_a_marker_that_comes_too_late_is_not_kept():
    machine = play(
        [
            (order(2, ()), [said("quiet", 2), TakeOutUnitsInstruction(order(2, ()))]),
            (RowsAnsweredEvent(1, 5), []),
            (RowsAnsweredEvent(2, 5), []),
        ]
    )
    assert machine.markers == {}


def test_state_is_not_kept_longer_than_it_is_needed():
    machine = play(SENT)
    assert machine.leaving[1].kept is KEPT
    assert play([(UnitsMoved(1), [])], machine).leaving == {}


def test_no_more_than_the_latest_are_remembered():
    machine = LocalMovements()
    for move in range(REMEMBERED + 1):
        machine.handle(DiscardUnits(move, "r"))
        machine.handle(RowsAnsweredEvent(move + 1, 5))
    play(
        [
            (UnitsArrivedEvent(0, PARCEL), []),
            (UnitsArrivedEvent(1, PARCEL), []),
            (LoopRoundEvent(), [InstallUnitsInstruction(0, PARCEL)]),
        ],
        machine,
    )
    assert len(machine.markers) == REMEMBERED
