"""Movements whose feeders or workers do not answer: who is waited for, for how long, and what is written down."""

import pytest

from evenflow.control.moves.move_queue import UnitNodes
from evenflow.control.moves.patience import FLUSH_S, MARKERS_S, MOST_MARKERS_S, PATIENCE_S
from tests.support.movements import FEEDERS, ask, brief, movements
from tests.support.records import fields_of

STALL_S = 600.0
CALL_S = 40.0
"""One call of a user's function: longer than markers and all patience of a movement."""


def begun(graph=False, stall_s=STALL_S, transfer="direct"):
    """Unit 0 is to go from worker 0 to worker 2."""
    moves = movements()
    moves.queue.nodes = UnitNodes((0,), ()) if graph else None
    moves.stall_s, moves.transfer = stall_s, transfer
    ask(moves, [0], 0, 2)
    return moves


def ticks(moves, start, end):
    """What is told while time passes, once a second."""
    return [told for second in range(int(start), int(end)) for told in brief(moves.tick(float(second)))]


@pytest.mark.parametrize(("graph", "patience"), [(False, MARKERS_S), (True, FLUSH_S)], ids=["keyed", "graph"])
def test_feeders_that_send_no_marker_are_not_waited_for_long(graph, patience):
    """Nor is the target, whatever it does: nothing has left the source."""
    moves = begun(graph)
    moves.quiet(1.0, 1, 2)  # the target has no say in this
    assert brief(moves.tick(patience - 0.1)) == []
    assert brief(moves.tick(patience)) == [(10, "RecallUnits", 1)]
    undone = list(moves.restored(patience, 1, 0, []))
    assert fields_of(undone[-1])["why"] == f"some of feeders [21, 22] did not answer within {patience:g} s"
    assert moves.moving == 0


@pytest.mark.parametrize(("wait", "patience"), [(0.5, MARKERS_S), (1.75, 3.5), (60.0, MOST_MARKERS_S)])
def test_markers_are_waited_for_as_long_as_rows_take(wait, patience):
    """Twice what rows take from feeder to source, within limits: markers come behind rows that wait there."""
    moves = begun()
    moves.wait_s = {0: wait}.get
    assert brief(moves.tick(patience - 0.1)) == []
    assert brief(moves.tick(patience)) == [(10, "RecallUnits", 1)]
    undone = list(moves.restored(patience, 1, 0, []))
    assert fields_of(undone[-1])["why"] == f"some of feeders [21, 22] did not answer within {patience:g} s"


def test_patience_for_markers_follows_what_is_reported_meanwhile():
    moves, wait = begun(), {0: 0.1}
    moves.wait_s = wait.get
    assert brief(moves.tick(MARKERS_S - 0.1)) == []
    wait[0] = 3.0
    assert ticks(moves, 2, 6) == []
    wait[0] = 1.0
    assert ticks(moves, 6, 7) == [(10, "RecallUnits", 1)]


def test_patience_for_markers_ends_when_they_are_there():
    moves = begun()
    moves.wait_s = {0: 60.0}.get
    moves.quiet(5.0, 1, 0)
    assert ticks(moves, 5, 5 + PATIENCE_S) == []
    assert ticks(moves, 5 + PATIENCE_S, 5 + 2 * PATIENCE_S) == [("move-late", 1)]


@pytest.mark.parametrize("graph", [False, True], ids=["keyed", "graph"])
def test_a_source_in_one_long_call_is_waited_for(graph):
    moves = begun(graph)
    asked = int(FLUSH_S if graph else MARKERS_S)
    assert ticks(moves, 0, asked + CALL_S) == [(10, "RecallUnits", 1), ("move-late", 1)]
    assert moves.overdue(asked + CALL_S) is None
    assert brief(moves.restored(CALL_S, 1, 0, [21])) == [(21, "ReleaseUnits", 1), ("move-undone", 1)]


@pytest.mark.parametrize("graph", [False, True], ids=["keyed", "graph"])
def test_a_source_that_sends_before_it_hears_of_the_recall_goes_on(graph):
    moves = begun(graph)
    ticks(moves, 0, CALL_S)
    moves.quiet(CALL_S, 1, 0)
    assert ticks(moves, CALL_S, 2 * CALL_S) == [("move-late", 1)], "the target has its own time"
    assert brief(moves.installed(2 * CALL_S, 1, 2, 0, [21]))[-1] == ("moved", 1)


def test_the_target_may_be_heard_before_the_source():
    """Units are there, or cannot be, before the controller hears that they have left."""
    moves = begun()
    ticks(moves, 0, 10)
    assert brief(moves.installed(10.0, 1, 2, 0, [21]))[-1] == ("moved", 1)
    moves = begun()
    ticks(moves, 0, 10)
    assert brief(moves.failed(10.0, 1, 2, "install failed", final=True)) == [(12, "DiscardUnits", 1)]
    moves.quiet(11.0, 1, 0)
    assert moves.under_way[1].phase == "discarding"


@pytest.mark.parametrize("graph", [False, True], ids=["keyed", "graph"])
def test_cold_targets_that_compile_for_long_get_their_units(graph):
    """Workers of a graph of rules are silent while they compile, one after the other; nothing is lost by that."""
    moves = begun(graph)
    moves.quiet(1.0, 1, 0)
    late = [(told.event, fields_of(told)["worker"]) for second in range(300) for told in moves.tick(float(second))]
    assert late == [("move-late", 2)]
    assert moves.overdue(300.0) is None
    assert brief(moves.installed(300.0, 1, 2, 0, [21]))[-1] == ("moved", 1)


def test_what_is_late_is_written_down_once():
    moves = begun()
    moves.quiet(1.0, 1, 0)
    assert list(moves.tick(1.0 + PATIENCE_S - 0.1)) == []
    (late,) = moves.tick(1.0 + PATIENCE_S)
    about = {"region": "r", "move": 1, "units": [0], "source": 0, "target": 2}
    assert (late.event, fields_of(late)) == (
        "move-late",
        about | {"worker": 2, "phase": "moving", "seconds": PATIENCE_S},
    )
    assert list(moves.tick(2 * PATIENCE_S)) == []


def test_by_way_of_the_store_the_source_is_waited_for_first():
    moves = begun(transfer="store")
    moves.quiet(1.0, 1, 0)
    (late,) = moves.tick(1.0 + PATIENCE_S)
    assert fields_of(late)["worker"] == 0
    assert brief(moves.stored(CALL_S, 1, 0)) == [(12, "FetchUnits", 1)]
    assert moves.under_way[1].deadline == CALL_S + STALL_S
    (late,) = moves.tick(CALL_S + PATIENCE_S)
    assert fields_of(late)["worker"] == 2


def test_too_long_is_discarded_and_then_restored():
    moves = begun()
    moves.quiet(0.0, 1, 0)
    assert ticks(moves, 0, STALL_S) == [("move-late", 1)]
    assert brief(moves.tick(STALL_S)) == [(12, "DiscardUnits", 1)]
    assert brief(moves.tick(STALL_S + 1)) == []
    assert brief(moves.discarded(STALL_S + 1, 1, 2)) == [(10, "RestoreUnits", 1)]
    undone = list(moves.restored(STALL_S + 2, 1, 0, [21]))
    assert brief(undone) == [(21, "ReleaseUnits", 1), ("move-undone", 1)]
    assert fields_of(undone[-1])["why"] == "not done within 600 s"


def test_a_target_that_says_nothing_at_all_is_overdue():
    """It had all its time before it was asked to discard, so that it is given little more."""
    moves = begun()
    moves.quiet(0.0, 1, 0)
    list(moves.tick(STALL_S))
    assert moves.overdue(STALL_S + PATIENCE_S - 0.1) is None
    assert moves.overdue(STALL_S + PATIENCE_S).awaited == 2


def test_a_source_that_says_nothing_at_all_is_overdue():
    moves = begun()
    list(moves.tick(MARKERS_S))
    assert moves.overdue(MARKERS_S + STALL_S - 0.1) is None
    assert moves.overdue(MARKERS_S + STALL_S).awaited == 0


def test_a_short_stall_timeout_does_not_make_movements_hasty():
    moves = begun(stall_s=1.0)
    list(moves.tick(MARKERS_S))
    assert moves.overdue(MARKERS_S + PATIENCE_S - 0.1) is None
    assert moves.overdue(MARKERS_S + PATIENCE_S).id == 1


@pytest.mark.parametrize("phase", ["recalling", "discarding"])
def test_the_target_dies_while_the_movement_is_taken_back(phase):
    moves = begun()
    if phase == "discarding":
        list(moves.failed(1.0, 1, 0, "it was not done", final=False))
    else:
        list(moves.tick(MARKERS_S))
    why = moves.under_way[1].reason
    assert moves.under_way[1].phase == phase
    assert brief(moves.worker_lost(31.0, 2)) == [(10, "RestoreUnits", 1)]
    assert fields_of(list(moves.restored(32.0, 1, 0, []))[-1])["why"] == why
    assert brief(moves.restored(33.0, 1, 0, FEEDERS)) == [], "it answers the recall, too"


def test_a_movement_counts_once_among_the_pauses():
    """One that is recalled for as long as its rows waited, not for as long as markers were waited for."""
    moves = begun()
    ticks(moves, 0, CALL_S)
    list(moves.restored(CALL_S, 1, 0, []))
    assert moves.pauses.usual(CALL_S, 1.0) == CALL_S
    ask(moves, [0], 0, 2, time=CALL_S)
    list(moves.tick(CALL_S + MARKERS_S))
    moves.quiet(2 * CALL_S, 2, 0)  # the recall came too late
    list(moves.installed(3 * CALL_S, 2, 2, 0, []))
    assert moves.pauses.usual(3 * CALL_S, 1.0) == CALL_S
