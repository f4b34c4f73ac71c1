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
    Arrived,
    BackInPlace,
    DeleteFromStore,
    DeliveryRefused,
    Disown,
    FetchFromStore,
    Flush,
    Flushed,
    Install,
    Installed,
    Marked,
    PutBack,
    PutInStore,
    Round,
    RowsTaken,
    Send,
    Settle,
    Settled,
    TakenOut,
    TakeOut,
    TakeRows,
    TellController,
    ThrowAway,
    Undelivered,
    Unfetched,
    UnitsStored,
)
from evenflow.runtime.worker.moves.movements import REMEMBERED, LocalMovements

KEPT, PARTS, PARCEL = object(), ["label", "state"], object()
UNITS = (1, 2)
PLACED = (("query q", 1),)


def order(move=1, feeders=(5, 6), store=False, flush=False):
    return SendUnits(move, "r", UNITS, 0, 1, "h", 7, feeders, ("query q",), "", store, flush)


def said(outcome, move=1, reason="", bytes=0):
    return TellController(MoveReport("r", move, outcome, reason, bytes))


ANNOUNCED = [(order(), [])]
QUIET = [
    (order(feeders=()), [said("quiet"), TakeOut(order(feeders=()))]),
]
SENT = [*QUIET, (TakenOut(1, KEPT, PARTS), [Send(1, "h", 7, PARTS)])]
BY_STORE = order(feeders=(), store=True)
PUT = [
    (BY_STORE, [said("quiet"), TakeOut(BY_STORE)]),
    (TakenOut(1, KEPT, PARTS), [PutInStore(1, "r", PARTS)]),
]
HERE = [(Arrived(1, PARCEL), []), (Round(), [Install(1, PARCEL)])]
INSTALLED = [*HERE, (Installed(1, "r", UNITS, PLACED, 10), [said("installed", bytes=10)])]
BACK = PutBack(1, "r", UNITS, KEPT)
OF_A_GRAPH = order(feeders=(5,), flush=True)
ROWS = ["frames"]
FLUSHING = [(OF_A_GRAPH, []), (Settled(1, 5), [TakeRows(1, "r", UNITS)]), (RowsTaken(1, ROWS), [Flush(1, "r")])]

SOURCE = {
    "it waits for the markers of all feeders": [
        *ANNOUNCED,
        (Marked(1, 5, "r", UNITS), [Settle(1, 5, "r", UNITS)]),
        (Settled(1, 5), []),
        (Settled(1, 5), []),
        (Settled(1, 6), [said("quiet"), TakeOut(order())]),
        (Settled(1, 6), []),
    ],
    "a marker overtakes the announcement": [
        (Marked(1, 5, "r", UNITS), [Settle(1, 5, "r", UNITS)]),
        (Settled(1, 5), []),
        (order(), []),
        (Settled(1, 6), [said("quiet"), TakeOut(order())]),
    ],
    "all markers overtake the announcement": [
        (Settled(1, 6), []),
        (Settled(1, 5), []),
        (order(), [said("quiet"), TakeOut(order())]),
    ],
    "a marker of the next movement comes early": [
        *ANNOUNCED,
        (Settled(2, 5), []),
        (order(2), []),
        (Settled(2, 6), [said("quiet", 2), TakeOut(order(2))]),
    ],
    "a feeder whose marker is not settled yet is still waited for": [
        (order(feeders=(5,)), []),
        (Marked(1, 5, "r", UNITS), [Settle(1, 5, "r", UNITS)]),
        (FeederGone(1, 5), [said("quiet"), TakeOut(order(feeders=(5,)))]),
        (Settled(1, 5), []),
    ],
    "a feeder leaves before its marker comes": [
        *ANNOUNCED,
        (Settled(1, 6), []),
        (FeederGone(1, 5), [said("quiet"), TakeOut(order())]),
    ],
    "a feeder of a movement that nobody knows leaves": [(FeederGone(3, 5), [])],
    "it is recalled while it waits for markers": [
        *ANNOUNCED,
        (Settled(1, 5), []),
        (RecallUnits(1, "r"), [PutBack(1, "r", UNITS, None)]),
        (BackInPlace(1, "r"), [said("restored")]),
        (Settled(1, 6), []),
    ],
    "it is recalled when the units have left": [*SENT, (RecallUnits(1, "r"), []), (UnitsMoved(1), [])],
    "it is recalled when all is over": [*SENT, (UnitsMoved(1), []), (RecallUnits(1, "r"), [])],
    "the target has the units": [*SENT, (UnitsMoved(1), []), (RestoreUnits(1, "r"), [said("restored")])],
    "the units go by way of the store": [
        *PUT,
        (UnitsStored(1), [said("stored")]),
        (UnitsMoved(1), [DeleteFromStore(1, "r")]),
    ],
    "the store does not take the units": [
        *PUT,
        (Undelivered(1, "no room"), [said("undelivered", reason="no room")]),
        (RestoreUnits(1, "r"), [DeleteFromStore(1, "r"), BACK]),
        (BackInPlace(1, "r"), [said("restored")]),
    ],
    "the target cannot be reached": [
        *SENT,
        (Undelivered(1, "it is gone"), [said("undelivered", reason="it is gone")]),
        (RestoreUnits(1, "r"), [BACK]),
        (BackInPlace(1, "r"), [said("restored")]),
    ],
    "the units cannot be taken out": [
        *QUIET,
        (TakenOut(1, KEPT, failure="extract failed"), [BACK]),
        (BackInPlace(1, "r"), [said("failed", reason="extract failed")]),
        (RestoreUnits(1, "r"), [PutBack(1, "r", UNITS, None)]),
        (BackInPlace(1, "r"), [said("restored")]),
    ],
    "the units can be neither taken out nor put back": [
        *QUIET,
        (TakenOut(1, KEPT, failure="extract failed"), [BACK]),
        (BackInPlace(1, "r", "install failed"), [said("lost", reason="install failed")]),
    ],
    "the units cannot be restored": [
        *SENT,
        (RestoreUnits(1, "r"), [BACK]),
        (BackInPlace(1, "r", "install failed"), [said("lost", reason="install failed")]),
    ],
    "it is restored before it is quiet": [
        *ANNOUNCED,
        (RestoreUnits(1, "r"), [PutBack(1, "r", UNITS, None)]),
        (BackInPlace(1, "r"), [said("restored")]),
        (Settled(1, 5), []),
        (Settled(1, 6), []),
    ],
    "by way of the store, it is restored before anything was put there": [
        (order(store=True), []),
        (RestoreUnits(1, "r"), [PutBack(1, "r", UNITS, None)]),
    ],
    "news of a movement that is over": [
        *SENT,
        (UnitsMoved(1), []),
        (UnitsStored(1), []),
        (Undelivered(1, "late"), []),
        (UnitsMoved(1), []),
        (TakenOut(1, KEPT, PARTS), []),
    ],
}

TARGET = {
    "units are installed": INSTALLED,
    "units wait for their operator's code": [
        *HERE,
        (Round(), [Install(1, PARCEL)]),
        (Arrived(2, "other"), []),
        (Round(), [Install(1, PARCEL), Install(2, "other")]),
    ],
    "units come from the store": [(FetchUnits(1, "r"), [FetchFromStore(1, "r")]), *INSTALLED],
    "units cannot be fetched": [
        (FetchUnits(1, "r"), [FetchFromStore(1, "r")]),
        (Unfetched(1, "r", "no blob"), [said("undelivered", reason="no blob")]),
    ],
    "units cannot be installed": [
        *HERE,
        (
            Installed(1, "r", UNITS, PLACED, failure="install failed"),
            [ThrowAway("r", PLACED), said("failed", reason="install failed")],
        ),
        (Round(), []),
        (DiscardUnits(1, "r"), [said("discarded")]),
    ],
    "units that nobody announced": [
        (DeliveryRefused("who?"), [TellController(WorkerTrouble("a movement", "who?"))]),
        (Round(), []),
    ],
    "it is discarded before the units arrive": [
        (DiscardUnits(1, "r"), [said("discarded")]),
        (Arrived(1, PARCEL), []),
        (FetchUnits(1, "r"), []),
        (Round(), []),
    ],
    "it is discarded while the units wait for their operator's code": [
        *HERE,
        (DiscardUnits(1, "r"), [said("discarded")]),
        (Round(), []),
    ],
    "it is discarded after the units were installed": [
        *INSTALLED,
        (DiscardUnits(1, "r"), [ThrowAway("r", PLACED), Disown("r", UNITS), said("discarded")]),
        (DiscardUnits(1, "r"), [said("discarded")]),
    ],
    "units that come twice are installed once": [*INSTALLED, (Arrived(1, PARCEL), []), (Round(), [])],
}

GRAPH = {
    "units leave when what they gave is through": [
        *FLUSHING,
        (Flushed(1), [said("quiet"), TakeOut(OF_A_GRAPH, ROWS)]),
        (TakenOut(1, KEPT, PARTS), [Send(1, "h", 7, PARTS)]),
        (UnitsMoved(1), []),
    ],
    "markers that overtook the announcement": [(Settled(1, 5), []), (OF_A_GRAPH, [TakeRows(1, "r", UNITS)])],
    "a sender is gone": [(OF_A_GRAPH, []), (FeederGone(1, 5), [TakeRows(1, "r", UNITS)]), (FeederGone(1, 5), [])],
    "it is taken back before all is through": [
        *FLUSHING,
        (RestoreUnits(1, "r"), [PutBack(1, "r", UNITS, None, ROWS)]),
        (BackInPlace(1, "r"), [said("restored")]),
        (Flushed(1), []),
    ],
    "it is recalled before all is through": [
        *FLUSHING,
        (RecallUnits(1, "r"), [PutBack(1, "r", UNITS, None, ROWS)]),
        (BackInPlace(1, "r"), [said("restored")]),
        (Flushed(1), []),
    ],
    "its state cannot be taken out": [
        *FLUSHING,
        (Flushed(1), [said("quiet"), TakeOut(OF_A_GRAPH, ROWS)]),
        (TakenOut(1, KEPT, failure="why"), [PutBack(1, "r", UNITS, KEPT, ROWS)]),
        (BackInPlace(1, "r"), [said("failed", reason="why")]),
        (RestoreUnits(1, "r"), [PutBack(1, "r", UNITS, None)]),
        (BackInPlace(1, "r"), [said("restored")]),
    ],
    "it is abandoned before all is through": [*FLUSHING, (AbandonMoves("r", (1,)), []), (Flushed(1), [])],
    "a flush of something else": [*FLUSHING, (Flushed(2), [])],
    "it is recalled before anything is in the store": [
        (order(feeders=(), store=True, flush=True), [TakeRows(1, "r", UNITS)]),
        (RowsTaken(1, ()), [Flush(1, "r")]),
        (RecallUnits(1, "r"), [PutBack(1, "r", UNITS, None)]),
        (BackInPlace(1, "r"), [said("restored")]),
    ],
    "by way of the store": [
        (order(feeders=(), store=True, flush=True), [TakeRows(1, "r", UNITS)]),
        (RowsTaken(1, ()), [Flush(1, "r")]),
        (Flushed(1), [said("quiet"), TakeOut(order(feeders=(), store=True, flush=True))]),
        (TakenOut(1, KEPT, PARTS), [PutInStore(1, "r", PARTS)]),
    ],
}

ABANDONED = {
    "unknown": [],
    "announced": ANNOUNCED,
    "marked early": [(Settled(1, 5), [])],
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
        (Arrived(1, PARCEL), []),
        (Round(), []),
        (FetchUnits(1, "r"), []),
        (DiscardUnits(1, "r"), [said("discarded")]),
    ]
    play([*late, (Undelivered(1, "late"), []), (UnitsStored(1), [])], machine)


def test_what_was_stored_for_an_abandoned_movement_is_deleted():
    other = order(2, store=True)
    machine = play([*PUT, (other, [])])
    assert machine.handle(AbandonMoves("r", (2, 1))) == [DeleteFromStore(1, "r")]


def test_a_marker_that_comes_too_late_is_not_kept():
    machine = play(
        [(order(2, ()), [said("quiet", 2), TakeOut(order(2, ()))]), (Settled(1, 5), []), (Settled(2, 5), [])]
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
        machine.handle(Settled(move + 1, 5))
    play([(Arrived(0, PARCEL), []), (Arrived(1, PARCEL), []), (Round(), [Install(0, PARCEL)])], machine)
    assert len(machine.markers) == REMEMBERED
