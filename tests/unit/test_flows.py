"""Which frames of graphs a worker takes, and in what order it serves them."""

import numpy as np
import pytest

from evenflow.errors import ProtocolError
from evenflow.model.messages import GraphRouting, PauseUnits, ReleaseUnits
from evenflow.runtime.wire.flows import flow_frame
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.graphs.flows import Flows
from evenflow.runtime.worker.graphs.passage import Surroundings
from evenflow.runtime.worker.graphs.queue import RowQueue
from evenflow.runtime.worker.graphs.routings import Routings
from evenflow.runtime.worker.graphs.unit_rows import WaitingGraphRows
from evenflow.runtime.worker.rows.session import Session


class Nobody:
    """Stands in for connections, over which nothing is sent, and for a keyed server without regions."""

    def __init__(self):
        self.unsent, self.regions = 0, {}

    def send(self, *_args):
        return False

    def meet(self, _workers):
        return []


def no_graph(_name):
    return None


def flows():
    queue, nobody = RowQueue(), Nobody()
    about = {"peers": nobody, "routings": Routings(0, no_graph, queue), "new_id": lambda: 1}
    around = Surroundings(worker=0, server=nobody, pace=None, clock=lambda: 0.0, **about)
    unit_rows = WaitingGraphRows(feeders={}, queue=queue, find_graph=no_graph, **about)
    return Flows(around=around, unit_rows=unit_rows, outbox=nobody, turn_s=1.0)


def rows(number, feeder=5):
    return flow_frame(number, 1, 0, feeder, [0], memoryview(b"rows"), 4)


@pytest.mark.parametrize(
    "frame",
    [Frame(Kind.FLOW, b""), Frame(Kind.FLOW, bytes(40)), Frame(Kind.MARKER, b"", 1), Frame(Kind.DATA, b"rows")],
    ids=["no head", "no ports", "no sender", "another kind"],
)
def test_a_frame_that_cannot_be_read_is_refused_when_it_comes(frame):
    """While it is known who sent it: when its turn comes, nobody would be to blame but the worker."""
    known = flows()
    with pytest.raises(ProtocolError):
        known.receive(Nobody(), frame, 1)
    assert not len(known.queue)


def test_frames_of_tasks_that_are_over_are_dropped():
    known = flows()
    known.receive(Nobody(), rows(1))
    assert known.waiting == ""
    assert known.queue.bytes == 0


def test_rows_that_wait_are_those_of_a_graph():
    known = flows()
    for feeder, region in ((5, "r"), (6, "r"), (7, "other")):
        known.enter(Session(Nobody(), feeder=feeder, region=region))
        known.receive(Nobody(), rows(feeder, feeder))
    known.receive(Nobody(), rows(8, 8))
    assert [known.queued(region) for region in ("r", "other", "none")] == [8, 4, 0]


def test_a_feeder_whose_rows_cannot_be_sent_is_told_once():
    known, channel = flows(), Nobody()
    known.enter(Session(channel, feeder=5))
    known.obey(GraphRouting("r", "op", 31, (), np.zeros(1, np.int32), 1, ()))
    known.obey(PauseUnits(4, "r", (0,), 2))
    for number, feeder in ((1, 5), (2, 5), (3, 6)):
        known.around.routings.hold(known.around.routings["r"], 4, rows(number, feeder), 4)
    assert known.faults() == [], "a marker that cannot be sent costs nobody"
    known.obey(ReleaseUnits(4, "r", 2, 2))
    assert [(type(error), gone) for gone, error in known.faults()] == [(ProtocolError, channel)]
    assert known.faults() == []
