"""What a worker does about the ways of a graph's rows, as orders of the controller come, in any order they can."""

import numpy as np
import pytest
from msgspec.structs import replace

from evenflow.graph.hosted import HostedGraph
from evenflow.model.messages import AbandonMoves, GraphRouting, PausedUnits, PauseUnits, ReleaseUnits
from evenflow.runtime.wire.flows import read_mark
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.graphs.queue import RowQueue
from evenflow.runtime.worker.graphs.routings import Routings
from tests.support.graph_plans import Sketch

ME, YOU = 1, 31
"""The worker, and the number that the controller knows it by."""
HELD = [Frame(Kind.FLOW, b"", number) for number in (1, 2)]


class Around:
    """The routing of a worker, with its queue; notes what is to be sent."""

    def __init__(self, here=True):
        made = Sketch(1)
        made.add("mark", made.add("keep", 0))
        self.graph = HostedGraph(made.ended().plan()) if here else None
        self.sent = []
        self.queue = RowQueue()
        self.routings = Routings(ME, lambda _name: self.graph, self.queue)

    def obey(self, *orders):
        for order in orders:
            for worker, frame, rows in self.routings.obey(order):
                self.sent.append((worker, frame.kind.name, frame.sequence, rows))
                assert frame.kind is not Kind.MARKER or read_mark(frame) == YOU
        return self

    def hold(self, move=4):
        for frame in HELD:
            self.routings.hold(self.routings["r"], move, frame, 10)
        return self

    def served(self):
        """What can be served, with where the unit of the movement is for those who give rows here by then."""
        found = []
        while self.routings.first is not None:
            found.append((self.queue.take().sequence, self.destination[0]))
        return found

    @property
    def destination(self):
        return self.routings.known("r").ways._destination.tolist()


def routing(version=1, paused=(), move=0, owners=(0, 1, 0)):
    return GraphRouting("r", "op", YOU, (), np.array(owners, np.int32), version, paused, move)


def pause(source=0, move=4, units=(0,)):
    return PauseUnits(move, "r", units, source)


def release(worker, version=2, move=4):
    return ReleaseUnits(move, "r", worker, version)


PAUSED = (PausedUnits(4, (0,)),)


@pytest.mark.parametrize(
    ("orders", "sent", "destination"),
    [
        ([routing()], [], [0, 1, 0]),
        ([routing(), pause()], [(0, "MARKER", 4, 0)], [-4, 1, 0]),
        ([routing(), pause(1, units=(1,))], [(ME, "MARKER", 4, 0)], [0, -4, 0]),
        ([routing(), pause(), release(2)], [(0, "MARKER", 4, 0)], [2, 1, 0]),
        ([routing(), pause(), release(0, 1)], [(0, "MARKER", 4, 0)], [0, 1, 0]),
        ([routing(paused=PAUSED, move=4)], [], [-4, 1, 0]),
        ([routing(paused=PAUSED, move=4), release(2)], [], [2, 1, 0]),
        ([routing(), pause(), routing(2, PAUSED, 4, (0, 1, 2))], [(0, "MARKER", 4, 0)], [-4, 1, 2]),
        ([routing(), pause(), routing(2)], [(0, "MARKER", 4, 0)], [0, 1, 0]),
        ([pause(), release(2), routing()], [], [0, 1, 0]),
    ],
    ids=[
        "owners",
        "units move elsewhere",
        "units move from here: what waits leaves with them",
        "they have moved",
        "they are taken back",
        "it joins while they move, and sends no marker",
        "and they have moved",
        "a worker joins while they move",
        "the movement is abandoned",
        "of a graph that was not heard of",
    ],
)
@pytest.mark.parametrize("here", [True, False], ids=["the graph is here", "the graph comes later"])
def test_what_is_told(orders, sent, destination, here):
    around = Around(here).obey(*orders)
    assert around.sent == sent, "markers do not wait for the graph"
    if not here:
        assert around.routings.known("r") is None
        around.graph = Around().graph
    assert around.destination == destination


def frame(number):
    return Frame(Kind.FLOW, b"", number)


def test_rows_that_were_held_go_where_the_units_are():
    around = Around().obey(routing(), pause()).hold()
    around.sent = []
    around.obey(release(2))
    assert around.sent == [(2, "FLOW", 1, 10), (2, "FLOW", 2, 10)]
    assert around.routings["r"].held == {}


def test_units_that_are_taken_back_before_they_left():
    """Rows that were held go behind all that waits; until they are served, what is given for the units follows them."""
    around = Around().obey(routing(owners=(1, 1, 0)), pause(ME)).hold()
    around.queue.append(frame(0))
    around.obey(release(ME))
    assert around.destination == [-4, 1, 0]
    around.routings.hold(around.routings["r"], 4, frame(3), 1)
    around.queue.append(frame(5))
    assert around.served() == [(0, -4), (1, ME), (2, ME), (3, ME), (5, ME)]
    assert around.routings["r"].gates == {}


def test_units_that_come_and_stay():
    """They take part when all that waited before they came is served, then with the rows that came with them first."""
    around = Around().obey(routing(), pause()).hold()
    around.queue.append(frame(0))
    assert around.routings.bring("r", 4, [0], [frame(7)])
    around.queue.append(frame(8))
    assert around.served() == [(0, -4)], "it is not known yet whether they stay"
    around.obey(release(ME))
    assert around.destination == [-4, 1, 0]
    assert around.served() == [(7, ME), (1, ME), (2, ME), (8, ME)]
    assert around.routings["r"].gates == {}


def test_a_unit_that_waits_at_two_gates_waits_at_the_latest():
    """It has gone on and come back before the first was reached, and then owners are told anew."""
    around = Around().obey(routing(), pause())
    around.routings.bring("r", 4, [0], [frame(7)])
    around.obey(release(ME), pause(ME, 5))
    around.queue.take_parts(lambda each: ([each], None))
    around.obey(release(2, 3, 5), pause(2, 6))
    around.routings.bring("r", 6, [0], [frame(7)])
    around.obey(release(ME, 4, 6), routing(5, (), 6, (1, 1, 0)))
    assert around.destination == [-6, 1, 0]
    assert around.hold(6).served() == [(7, ME), (1, ME), (2, ME)]


@pytest.mark.parametrize(("orders", "left"), [([], []), ([release(ME)], [7])], ids=["under way", "that is over"])
def test_a_movement_is_abandoned(orders, left):
    """Nobody may be told of owners after that, and rows of other graphs wait behind the gate."""
    around = Around().obey(routing(), pause())
    around.routings.bring("r", 4, [0], [frame(7)])
    around.queue.append(frame(8))
    around.obey(*orders)
    around.routings.abandon(AbandonMoves("r", (4,)))
    around.routings.abandon(AbandonMoves("other", (4,)))
    assert [number for number, _ in around.served()] == [*left, 8]


def test_a_connection_that_breaks_while_units_wait_for_their_turn():
    """Only rows to that worker, or those of movements under way, may be lost with it."""
    around = Around().obey(routing(), pause())
    around.routings.bring("r", 4, [0], [frame(7)])
    assert around.routings["r"].uses(5)
    around.obey(release(ME))
    assert not around.routings["r"].uses(5)
    assert around.routings["r"].uses(0)


def test_units_that_come_and_do_not_stay():
    around = Around().obey(routing(), pause()).hold()
    around.routings.bring("r", 4, [0], [frame(7)])
    around.queue.append(frame(8))
    around.sent = []
    around.obey(release(2))
    assert around.sent == [(2, "FLOW", 1, 10), (2, "FLOW", 2, 10)]
    assert around.served() == [(8, 2)], "their source has the rows, too"


def test_units_that_go_on_before_their_turn_has_come():
    around = Around().obey(routing(), pause())
    around.routings.bring("r", 4, [0], [frame(7)])
    around.obey(release(ME)).hold()
    around.obey(pause(ME, 5))
    around.routings.hold(around.routings["r"], 5, frame(9), 1)
    assert [each.sequence for each in around.queue.take_parts(lambda each: ([each], None))] == [7, 1, 2]
    assert around.served() == []
    assert around.destination == [-5, 1, 0]
    around.sent = []
    around.obey(release(2, 3, 5))
    assert around.sent == [(2, "FLOW", 9, 1)]
    assert around.destination == [2, 1, 0]


@pytest.mark.parametrize("early", [True, False], ids=["it is reached before the graph comes", "after"])
def test_units_that_come_before_the_graph(early):
    around = Around(here=False).obey(routing(), pause())
    around.routings.bring("r", 4, [0], [frame(7)])
    around.obey(release(ME))
    assert not early or around.routings.first.sequence == 7
    around.graph = Around().graph
    assert around.destination == [ME if early else -4, 1, 0]
    assert around.served() == [(7, ME)]


@pytest.mark.parametrize(
    ("orders", "owners", "destination"),
    [([], (0, 1, 0), 0), ([release(ME)], (1, 1, 0), -4), ([release(ME)], (2, 1, 0), 2)],
    ids=["its movement is abandoned", "the units stay", "they were given to another worker"],
)
def test_what_a_gate_is_when_owners_are_told_anew(orders, owners, destination):
    around = Around().obey(routing(), pause())
    assert not around.routings.bring("other", 4, [0], [])
    around.routings.bring("r", 4, [0], [frame(7)])
    around.obey(*orders, routing(2, (), 4, owners))
    assert around.destination[0] == destination
    assert [number for number, _ in around.served()] == ([7] if orders else [])


def test_a_gate_of_a_movement_that_goes_on_is_kept():
    around = Around().obey(routing(), pause())
    around.routings.bring("r", 4, [0], [frame(7)])
    around.obey(routing(2, PAUSED, 4))
    assert around.served() == []
    assert around.obey(release(ME, 3)).served() == [(7, ME)]


@pytest.mark.parametrize(("paused", "left"), [(PAUSED, [4]), ((), [])], ids=["that goes on", "that is over"])
def test_rows_held_for_a_movement(paused, left):
    around = Around().obey(routing(), pause()).hold().obey(routing(2, paused, 4))
    assert list(around.routings["r"].held) == left


def test_what_was_told_last_is_the_last_that_is_let_go():
    around = Around().obey(routing(), replace(routing(), region="other"), routing(2))
    assert list(around.routings) == ["other", "r"]


@pytest.mark.parametrize(
    ("orders", "reached"),
    [
        ([routing(1)], False),
        ([routing(2)], False),
        ([routing(1), pause()], False),
        ([routing(1), pause(), release(2, 2)], True),
        ([routing(2), pause()], True),
        ([routing(2, PAUSED, 4)], True),
        ([routing(2, (), 4)], True),
        ([routing(2, (), 5)], True),
    ],
    ids=[
        "neither the owners nor the movement are known",
        "the movement is not known",
        "the owners are not known",
        "the movement is over",
        "it is under way",
        "it was under way when this worker came",
        "it was over when this worker came",
        "a later one has begun",
    ],
)
def test_when_a_feeder_may_begin(orders, reached):
    """One that was let in with version 2 of the owners, during movement 4."""
    assert Around().obey(*orders).routings["r"].reached(2, 4) is reached
