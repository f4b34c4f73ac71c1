"""What a worker does about the ways of a graph's rows, as orders of the controller come, in any order they can."""

import numpy as np
import pytest
from msgspec.structs import replace

from evenflow.graph.hosted import HostedGraph
from evenflow.model.messages import GraphRouting, PausedUnits, PauseUnits, ReleaseUnits
from evenflow.runtime.wire.flows import read_mark
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.routings import Routings
from tests.support.graph_plans import Sketch

ME, YOU = 1, 31
"""The worker, and the number that the controller knows it by."""
HELD = [Frame(Kind.FLOW, b"", number) for number in (1, 2)]


class Around:
    """All that routing touches, noted."""

    def __init__(self, here=True, reachable=True):
        made = Sketch(1)
        made.add("mark", made.add("keep", 0))
        self.graph = HostedGraph(made.ended().plan()) if here else None
        self.reachable = reachable
        self.done = []
        self.routings = Routings(ME, lambda _name: self.graph, self, self._mark, self._take, self._unsent)

    def send(self, worker, frame, rows=0):
        self.done.append((worker, frame.kind.name, frame.sequence, rows))
        return self.reachable

    def _mark(self, frame):
        self.done.append(("mark", frame.sequence, read_mark(frame)))

    def _take(self, frames, place):
        assert place == ("r", 0)
        self.done.append(("take", [frame.sequence for frame in frames]))

    def _unsent(self, frame):
        self.done.append(("unsent", frame.sequence))

    def obey(self, *orders):
        for order in orders:
            self.routings.obey(order)
        return self

    def hold(self, move=4):
        for frame in HELD:
            self.routings["r"].hold(move, frame, 10)
        return self

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
    ("orders", "done", "destination"),
    [
        ([routing()], [], [0, 1, 0]),
        ([routing(), pause()], [(0, "MARKER", 4, 0)], [-4, 1, 0]),
        ([routing(), pause(1, units=(1,))], [("mark", 4, YOU)], [0, -4, 0]),
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
def test_what_is_told(orders, done, destination, here):
    around = Around(here).obey(*orders)
    around.done = [tuple(each) if each[1] != "take" else each for each in around.done if each != ("take", [])]
    assert around.done == done, "markers do not wait for the graph"
    if not here:
        assert around.routings.known("r") is None
        around.graph = Around().graph
    assert around.destination == destination


@pytest.mark.parametrize(
    ("worker", "wanted"),
    [(ME, [("take", [1, 2])]), (2, [(2, "FLOW", 1, 10), (2, "FLOW", 2, 10)])],
    ids=["to this worker", "to another"],
)
def test_rows_that_were_held_go_where_the_units_are(worker, wanted):
    around = Around().obey(routing(), pause()).hold()
    around.done = []
    around.obey(release(worker))
    assert around.done == wanted
    assert around.routings["r"].held == {}


@pytest.mark.parametrize(
    ("worker", "wanted"),
    [(ME, [("take", [7, 1, 2])]), (2, [(2, "FLOW", 1, 10), (2, "FLOW", 2, 10)])],
    ids=["which stay: they are before those that were held", "which do not: their source has them, too"],
)
def test_rows_that_came_with_units(worker, wanted):
    around = Around().obey(routing(), pause()).hold()
    assert around.routings.bring("r", 4, [Frame(Kind.FLOW, b"", 7)])
    assert not around.routings.decided("r", 4)
    around.done = []
    around.obey(release(worker))
    assert around.done == wanted
    assert around.routings.decided("r", 4)


@pytest.mark.parametrize(("paused", "known"), [(PAUSED, False), ((), True)], ids=["that goes on", "that is over"])
def test_rows_that_came_with_units_of_a_movement(paused, known):
    around = Around().obey(routing(), pause())
    assert not around.routings.bring("other", 4, [])
    around.routings.bring("r", 4, [Frame(Kind.FLOW, b"", 7)])
    around.obey(routing(2, paused, 4))
    assert around.routings.decided("r", 4) is known


def test_rows_that_cannot_be_sent_are_told_of():
    around = Around(reachable=False).obey(routing(), pause()).hold()
    around.done = []
    around.obey(release(2))
    assert [each for each in around.done if each[0] == "unsent"] == [("unsent", 1), ("unsent", 2)]


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
