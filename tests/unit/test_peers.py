"""Frames on emulated links arrive when their time is over, also while the worker that sent them is busy."""

from evenflow.model.capacity import Emulate
from evenflow.model.messages import WorkerAddress
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.worker.graphs.peers import Peers
from tests.support.fuzz_wire import Board


class Line:
    """Notes when frames are sent."""

    open = True

    def __init__(self, clock):
        self._clock = clock
        self.sent = []

    def send(self, frame):
        if frame.kind is not Kind.OPEN:
            self.sent.append((self._clock(), frame.sequence))


def test_a_busy_worker_does_not_delay_its_links():
    now = [0.0]
    line = Line(lambda: now[0])

    class Poller(Board):
        def connect(self, *_args, **_options):
            return line

    def nap(seconds):
        now[0] += seconds

    peers = Peers(0, Poller(), Emulate(1.0, link_ms={(0, 1): 20.0}), lambda: now[0])
    peers.meet([WorkerAddress(1, 1, "host", 1, 1)])
    peers.send(1, Frame(Kind.FLOW, b"", 1))
    now[0] = 0.01
    peers.send(1, Frame(Kind.FLOW, b"", 2))
    peers.sleep(nap, 0.1)
    assert [(round(when, 6), number) for when, number in line.sent] == [(0.02, 1), (0.03, 2)]
    assert round(now[0], 6) == 0.11
    assert peers.due_in is None
