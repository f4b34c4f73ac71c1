"""The movement protocol as lists: what each event makes the controller tell whom."""

import json

import numpy as np
import pytest

from evenflow.control.moves.move_queue import BATCH_BYTES, BATCH_UNITS, UnitNodes, batches
from evenflow.control.moves.patience import FLUSH_S, MARKERS_S
from evenflow.control.workers import WorkerLife
from evenflow.model import MoveUnits
from evenflow.model.entries import EventEntry, as_dict, entry_of
from evenflow.model.messages import PausedUnits, PauseUnits, SendUnits, WorkerHello
from evenflow.model.tickets import ticket
from tests.support.movements import FEEDERS, ask, brief, move, movements
from tests.support.records import fields_of

BEGUN = [("move", 1), (21, "PauseUnits", 1), (22, "PauseUnits", 1), (10, "SendUnits", 1)]


def test_a_move_pauses_and_moves():
    moves = movements()
    told = list(moves.ask(0.0, move([0, 1], 0, 2), {}, FEEDERS))
    assert brief(told) == BEGUN
    assert told[1].message == PauseUnits(1, "r", (0, 1), 0)
    announced = ticket("", 1, "r", 0, [0, 1], [])
    assert told[3].message == SendUnits(1, "r", (0, 1), 0, 2, "h2", 902, (21, 22), (), announced)
    assert moves.moving == 2
    assert moves.paused() == (PausedUnits(1, (0, 1)),)


def test_installed_flips_the_table_and_releases():
    moves = movements()
    ask(moves, [0, 1], 0, 2)
    told = list(moves.installed(0.5, 1, 2, 1000, [*FEEDERS, 23]))
    assert brief(told) == [
        (21, "ReleaseUnits", 1),
        (22, "ReleaseUnits", 1),
        (23, "ReleaseUnits", 1),
        (10, "UnitsMoved", 1),
        ("moved", 1),
    ]
    assert told[0].message.worker == 2
    assert moves.table.owners.tolist() == [2, 2, 1, 1, 2, 2]
    assert moves.table.version == 1
    assert (moves.moving, moves.moved, moves.bytes_moved, moves.pause_s) == (0, 2, 1000, 1.0)


@pytest.mark.parametrize(
    ("units", "source", "target", "why"),
    [
        ([0], 0, 0, "worker 0 is source and target"),
        ([0], 0, 7, "workers 0 and 7 are not both live"),
        ([0], 7, 0, "workers 7 and 0 are not both live"),
        ([], 0, 1, "it names no unit, or one twice"),
        ([0, 0], 0, 1, "it names no unit, or one twice"),
        ([6], 0, 1, "units go from 0 to 5"),
        ([-1], 0, 1, "units go from 0 to 5"),
        ([0, 2], 0, 1, "worker 0 does not own unit 2"),
        ([1], 0, 2, "unit 1 is under way already"),
        ([3], 1, 2, "unit 3 is under way already"),
    ],
)
def test_refusals_say_why(units, source, target, why):
    moves = movements()
    ask(moves, [1], 0, 2)
    ask(moves, [2], 1, 0)
    ask(moves, [3], 1, 0)  # waits for the one before
    refused = list(moves.ask(0.0, move(units, source, target), {}, FEEDERS))
    assert brief(refused) == [("move-refused", units)]
    assert fields_of(refused[0])["why"] == why
    assert moves.moving == 3


def test_one_movement_at_a_time_from_each_source():
    moves = movements()
    ask(moves, [0], 0, 1)
    assert ask(moves, [1], 0, 2) == []
    assert ask(moves, [2], 1, 0) == [("move", 2), (21, "PauseUnits", 2), (22, "PauseUnits", 2), (11, "SendUnits", 2)]
    told = brief(moves.installed(1.0, 1, 1, 0, [21]))
    assert told == [
        (21, "ReleaseUnits", 1),
        (10, "UnitsMoved", 1),
        ("moved", 1),
        ("move", 3),
        (21, "PauseUnits", 3),
        (10, "SendUnits", 3),
    ]


def test_many_units_go_in_batches():
    moves = movements(owners=[0] * 100)
    ask(moves, range(100), 0, 1)
    assert [len(movement.units) for movement in moves.under_way.values()] == [BATCH_UNITS]
    assert moves.moving == 100
    assert list(batches([1, 2, 3], {1: BATCH_BYTES, 2: 1, 3: 1})) == [(1,), (2, 3)]
    assert list(batches([], {})) == []


def test_a_lost_target_makes_the_source_restore():
    moves = movements()
    ask(moves, [0], 0, 2)
    assert brief(moves.worker_lost(1.0, 2)) == [(10, "RestoreUnits", 1)]
    undone = list(moves.restored(1.1, 1, 0, FEEDERS))
    assert brief(undone) == [(21, "ReleaseUnits", 1), (22, "ReleaseUnits", 1), ("move-undone", 1)]
    assert undone[0].message.worker == 0
    assert fields_of(undone[-1])["why"] == "worker 2 was lost"
    assert moves.table.version == 0
    assert moves.moving == 0


def test_what_was_queued_for_a_lost_target_is_forgotten():
    moves = movements()
    ask(moves, [0], 0, 1)
    ask(moves, [1], 0, 2)
    assert brief(moves.worker_lost(1.0, 2)) == []
    assert brief(moves.installed(2.0, 1, 1, 0, [])) == [(10, "UnitsMoved", 1), ("moved", 1)]
    assert moves.moving == 0


def test_a_failure_is_taken_back_and_a_final_one_stops_all_moves():
    moves = movements()
    ask(moves, [0], 0, 2)
    assert brief(moves.failed(1.0, 1, 0, "it cannot be pickled", final=True)) == [(12, "DiscardUnits", 1)]
    list(moves.discarded(1.0, 1, 2))
    list(moves.restored(1.0, 1, 0, []))
    refused = list(moves.ask(2.0, move([0], 0, 2), {}, []))
    assert fields_of(refused[0])["why"] == "units of this region cannot be moved: it cannot be pickled"


def test_a_failure_on_the_way_does_not_stop_other_moves():
    moves = movements()
    ask(moves, [0], 0, 2)
    list(moves.failed(1.0, 1, 0, "connection refused", final=False))
    list(moves.discarded(1.0, 1, 2))
    list(moves.restored(1.0, 1, 0, []))
    assert ask(moves, [0], 0, 2, feeders=[]) == [("move", 2), (10, "SendUnits", 2)]


def test_late_replies_are_dropped():
    moves = movements()
    ask(moves, [0], 0, 2)
    wrong = [
        moves.installed(0.1, 9, 2, 0, FEEDERS),  # no such movement
        moves.installed(0.1, 1, 0, 0, FEEDERS),  # not by its target
        moves.discarded(0.1, 1, 2),  # nobody asked
        moves.restored(0.1, 1, 0, FEEDERS),
        moves.failed(0.1, 1, 1, "a bystander", final=False),
    ]
    assert [brief(each) for each in wrong] == [[]] * 5
    list(moves.failed(1.0, 1, 2, "full", final=False))
    assert brief(moves.installed(1.1, 1, 2, 0, FEEDERS)) == []  # it crossed our discard
    assert brief(moves.failed(1.1, 1, 0, "me too", final=False)) == []
    assert brief(moves.discarded(1.2, 1, 0)) == []
    list(moves.discarded(1.2, 1, 2))
    assert brief(moves.discarded(1.3, 1, 2)) == []
    list(moves.restored(1.4, 1, 0, FEEDERS))
    assert brief(moves.restored(1.5, 1, 0, FEEDERS)) == []
    assert brief(moves.installed(1.5, 1, 2, 0, FEEDERS)) == []
    assert moves.table.version == 0


def test_nobody_waits_for_a_feeder_that_left():
    moves = movements()
    ask(moves, [0], 0, 2)
    assert brief(moves.feeder_left(22)) == [(10, "FeederGone", 1)]
    assert brief(moves.feeder_left(22)) == []
    assert brief(moves.feeder_left(99)) == []


def test_regions_number_their_movements_apart():
    """A worker knows movements by their number alone: two regions must not use one."""
    from evenflow.control.controller import Controller
    from evenflow.control.events import MessageEvent, MoveAskedEvent, RegionOpenedEvent
    from evenflow.policy import Hash

    controller = Controller(2)
    for worker in range(2):
        controller.handle(MessageEvent(0.0, 10 + worker, WorkerHello(worker, "h", 1, 1, transfer_port=900 + worker)))
    numbers = []
    for region in ("a", "b"):
        controller.handle(RegionOpenedEvent(0.0, region, "op", Hash(), 4))
        told = controller.handle(MoveAskedEvent(1.0, MoveUnits(region, (0,), 0, 1)))
        numbers += [each.message.move for each in told if isinstance(getattr(each, "message", None), SendUnits)]
    assert len(set(numbers)) == 2


def test_a_ticket_is_for_one_target_and_one_movement():
    """Policies may give numpy's numbers; what the target makes of the label has plain ones."""
    moves = movements()
    moves.workers[2] = WorkerLife(12, "h2", 902, key="the target's")
    told = list(moves.ask(0.0, MoveUnits("r", (np.int64(1), np.int64(0)), np.int64(0), np.int64(2), ""), {}, []))
    given = told[-1].message.ticket
    assert given == ticket("the target's", 1, "r", 0, [0, 1], [])
    others = [("another's", 1, "r", 0, [0, 1], []), ("the target's", 2, "r", 0, [0, 1], [])]
    others += [("the target's", 1, "s", 0, [0, 1], []), ("the target's", 1, "r", 1, [0, 1], [])]
    others += [("the target's", 1, "r", 0, [0], []), ("the target's", 1, "r", 0, [0, 1], ["e"])]
    assert given not in {ticket(*each) for each in others}


def of_a_graph(neighbours=((0, 1), (1, 0))):
    """Units 0 and 1 are of one operator, the others of another, which reads it."""
    moves = movements()
    moves.queue.nodes = UnitNodes((0, 2), neighbours)
    return moves


def test_in_a_graph_neighbours_move_one_after_the_other():
    """Rows held between neighbours that move together would be overtaken."""
    moves = of_a_graph()
    ask(moves, [1, 0], 0, 2)
    ask(moves, [2, 3], 1, 0)
    assert [movement.units for movement in moves.under_way.values()] == [(1, 0)]
    assert moves.latest == 1
    told = list(moves.installed(0.5, 1, 2, 0, FEEDERS))
    assert (21, "PauseUnits", 2) in brief(told)
    assert [movement.units for movement in moves.under_way.values()] == [(2, 3)]


def test_in_a_graph_others_move_at_once():
    """Also from one source: they wait for the same rows."""
    moves = of_a_graph(neighbours=())
    moves.table = moves.table.moved([2, 3], 0)
    ask(moves, [0], 0, 2)
    ask(moves, [1], 0, 1)
    ask(moves, [2, 3], 0, 2)
    assert [movement.units for movement in moves.under_way.values()] == [(0,), (1,), (2, 3)]


def test_in_a_graph_much_state_of_one_source_moves_part_by_part():
    moves, half = of_a_graph(neighbours=()), BATCH_BYTES // 2
    list(moves.ask(0.0, move([0, 1], 0, 2), {0: BATCH_BYTES, 1: half}, FEEDERS))
    assert [movement.units for movement in moves.under_way.values()] == [(0,)]
    list(moves.ask(0.0, move([2], 1, 2), {2: BATCH_BYTES}, FEEDERS))
    assert [movement.units for movement in moves.under_way.values()] == [(0,), (2,)]
    list(moves.installed(0.5, 1, 2, 0, FEEDERS))
    assert [movement.units for movement in moves.under_way.values()] == [(2,), (1,)]


def test_units_of_several_operators_are_several_movements():
    moves = of_a_graph()
    moves.table = moves.table.moved([2, 3], 0)
    ask(moves, [3, 0, 2, 1], 0, 2)
    assert [movement.units for movement in moves.under_way.values()] == [(0, 1)]
    list(moves.installed(0.5, 1, 2, 0, FEEDERS))
    assert [movement.units for movement in moves.under_way.values()] == [(3, 2)]


def test_how_long_a_movement_takes_is_remembered():
    """And forgotten: what was true of full queues need not be so an hour later."""
    moves = movements()
    assert moves.pauses.usual(5.0, 60.0) == 0.0
    for number, seconds in enumerate((1.0, 3.0)):
        list(moves.ask(10.0 * number, move([number], 0, 2), {}, FEEDERS))
        moves.quiet(10.0 * number + seconds, number + 1, 0)
        list(moves.installed(10.0 * number + seconds + 5.0, number + 1, 2, 0, FEEDERS))
    assert moves.pauses.usual(18.0, 60.0) == 2.0, "how long state was on its way is told apart"
    assert moves.pauses.usual(78.0, 60.0) == 1.0


def test_a_movement_that_was_taken_back_tells_how_long_one_takes():
    moves = of_a_graph()
    list(moves.ask(0.0, move([0], 0, 2), {}, FEEDERS))
    list(moves.tick(FLUSH_S))
    list(moves.restored(FLUSH_S, 1, 0, FEEDERS))
    assert moves.pauses.usual(FLUSH_S, 60.0) == FLUSH_S


def test_in_a_graph_queues_are_given_time():
    moves = of_a_graph()
    told = list(moves.ask(0.0, move([0], 0, 2), {}, FEEDERS))
    assert told[-1].message.flush
    assert list(moves.tick(MARKERS_S)) == []
    assert brief(moves.tick(FLUSH_S)) == [(10, "RecallUnits", 1)]
    assert f"within {FLUSH_S:g} s" in moves.under_way[1].reason


@pytest.mark.parametrize("begun", [True, False], ids=["under way", "nothing under way"])
def test_abandoned_movements_of_a_graph_are_told_to_all(begun):
    """Workers hold rows for them: the routing is told anew, and nobody sends rows by the old one."""
    moves = of_a_graph()
    if begun:
        ask(moves, [0], 0, 2)
    version = moves.table.version
    list(moves.abandon(1.0, "state is lost"))
    assert (moves.dealt, moves.table.version > version) == (begun, begun)


def test_numbers_of_numpy_are_written_as_plain_ones():
    """A user's balance may give them, and readers of the event log take no others."""
    moves, some = movements(), np.arange(3, dtype=np.int64)
    wanted = [move([some[0]], some[0], some[2]), move([some[1]], some[1], some[1])]
    told = [each for want in wanted for each in moves.ask(0.0, want, {}, FEEDERS)]
    entries = [each for each in told if isinstance(each, EventEntry)]
    assert [each.event for each in entries] == ["move", "move-refused"]
    for entry in entries:
        told = json.loads(json.dumps(as_dict(entry), default=str))
        assert fields_of(entry_of(told)) == fields_of(entry)
