"""Which frames of graphs a worker takes, and in what order it serves them."""

import pytest

from evenflow.errors import ProtocolError
from evenflow.runtime.wire.flows import flow_frame
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.graphs.flows import FeederFault, Flows
from evenflow.runtime.worker.rows.session import Session


class Nobody:
    """Stands in for connections: nothing is sent."""

    unsent = 0

    def send(self, *_args):
        return False


def flows():
    nobody = Nobody()
    return Flows(0, nobody, lambda _name: None, nobody, None, lambda: 0.0, lambda _bits: 1, lambda *_: None, 1.0)


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
        known.receive(Nobody(), Session(peer=True, graph=True), frame)
    assert not len(known._queue)


def test_frames_of_tasks_that_are_over_are_dropped():
    known = flows()
    known.receive(Nobody(), None, rows(1))
    assert known.waiting == ""
    assert known._queue.bytes == 0


def test_rows_that_wait_are_those_of_a_graph():
    known = flows()
    for feeder, region in ((5, "r"), (6, "r"), (7, "other")):
        known.enter(Nobody(), Session(feeder=feeder, region=region))
        known.receive(Nobody(), None, rows(feeder, feeder))
    known.receive(Nobody(), None, rows(8, 8))
    assert [known._queued(region) for region in ("r", "other", "none")] == [8, 4, 0]


def test_a_feeder_whose_rows_cannot_be_sent_is_told_once():
    known, channel = flows(), Nobody()
    known.enter(channel, Session(feeder=5))
    for number in (1, 2):
        known._unsent(rows(number))
    known._unsent(rows(3, feeder=6))
    faults = known.faults()
    assert [(type(fault), fault.channel) for fault in faults] == [(FeederFault, channel)]
    assert known.faults() == []
