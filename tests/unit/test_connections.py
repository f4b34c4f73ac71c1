"""A feeder's connections on a poller of the test's own: what is told to whom, silence, lost workers, reports."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from evenflow.errors import ClusterStopped, FunctionError, RegionStalled
from evenflow.model.messages import (
    MOST_ERROR,
    Committed,
    FeederFailed,
    FeederHello,
    FeederRefused,
    FeederUnread,
    OpenOrdered,
    ToController,
    WorkerAddress,
)
from evenflow.runtime.feeder.connections import LEAVE_S, RECONNECT_S, Connections, FeederFigures
from evenflow.runtime.wire.channel import PeerGone
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import Reader, control
from evenflow.runtime.wire.poller import Lost, Opened, Received
from evenflow.runtime.wire.settings import Settings

IDENTITY = {"partition": 3, "attempt": 0, "query": "", "epoch": 0}
STALL_S = 30.0
PERIOD_S = 0.5
SETTINGS = Settings("c", "h", 0, b"", PERIOD_S, STALL_S)


class Channel:
    """One end of a connection that has no other."""

    def __init__(self, peer):
        self.peer = peer
        self.open, self.unsent, self.reading = True, 0, True
        self.sent, self.arrived = [], []
        self.over = False

    def send(self, frame):
        if self.over:
            raise PeerGone(f"{self.peer} is gone")
        self.sent.append(frame)

    def receive(self, most):
        frames, self.arrived = self.arrived[:most], self.arrived[most:]
        return frames


class Poller:
    """What happens is what the test says; nothing else passes but time."""

    def __init__(self):
        self.now = 0.0
        self.channels, self.happenings, self.dropped = {}, [], []
        self.dead = set()

    def connect(self, _host, port, peer, _patience=0.0):
        if port in self.dead:
            raise PeerGone(f"{peer} cannot be reached")
        self.channels[port] = Channel(peer)
        return self.channels[port]

    def poll(self, timeout):
        if not self.happenings:
            self.now += timeout
        while self.happenings:
            yield self.happenings.pop(0)

    def drop(self, channel):
        self.dropped.append(channel)


class Feeder:
    """Writes down what it is told."""

    def __init__(self):
        self.poller = Poller()
        self.heard = []
        self.connections = Connections(self, SETTINGS, "r", self.poller, lambda: self.poller.now)
        self.connections.register(IDENTITY)

    @property
    def controller(self):
        return self.poller.channels[0]

    def told(self, message):
        self.heard.append(("told", message))

    def opened(self, link):
        self.heard.append(("opened", link.worker))

    def answered(self, link, frame):
        self.heard.append(("answered", link.worker, frame.sequence))

    def lost(self, link, reason):
        self.heard.append(("lost", link.worker, reason))

    def polled(self, _now):
        pass

    def meet(self, **incarnations):
        """Workers by name: w1=2 is worker 1 in its second incarnation."""
        workers = [
            WorkerAddress(int(name[1:]), incarnation=number, host="h", pid=7, port=10 * int(name[1:]) + number)
            for name, number in incarnations.items()
        ]
        self.connections.meet(workers, OpenOrdered("op", "r"), pa.schema([("id", pa.int64())]))

    def happen(self, *happenings):
        self.poller.happenings += happenings
        self.connections.poll(0.0)


@pytest.fixture
def feeder():
    return Feeder()


def test_workers_are_greeted_and_their_frames_told(feeder):
    feeder.meet(w1=1)
    channel = feeder.poller.channels[11]
    assert [frame.kind for frame in channel.sent] == [Kind.OPEN, Kind.SCHEMA]
    feeder.happen(Opened(channel), Received(channel, Frame(Kind.RESULT, b"", 5)), Lost(channel, "it broke", True))
    assert feeder.heard == [("opened", 1), ("answered", 1, 5), ("lost", 1, "it broke")]
    assert feeder.connections.links == {}
    assert feeder.poller.dropped == [channel]


def test_workers_that_are_known_are_left_alone_and_replaced_ones_dropped(feeder):
    feeder.meet(w1=1, w2=1)
    feeder.meet(w1=1, w2=2)
    assert feeder.heard == [("lost", 2, "it was replaced")]
    assert {worker: link.incarnation for worker, link in feeder.connections.links.items()} == {1: 1, 2: 2}


def test_lost_workers_are_called_again_now_and_then(feeder):
    feeder.meet(w1=1, w2=1)
    assert not feeder.connections.reconnect(0.0)
    feeder.connections.drop(feeder.connections.links[1], "it broke")
    feeder.poller.dead.add(11)
    assert feeder.connections.reconnect(1.0)
    assert set(feeder.connections.links) == {2}
    feeder.poller.dead.clear()
    assert not feeder.connections.reconnect(1.0 + RECONNECT_S / 2)
    assert feeder.connections.reconnect(1.0 + RECONNECT_S)
    assert set(feeder.connections.links) == {1, 2}
    assert len(feeder.poller.channels[11].sent) == 2


def test_a_frame_for_a_worker_that_is_gone_drops_it(feeder):
    feeder.meet(w1=1)
    link = feeder.connections.links[1]
    feeder.poller.channels[11].over = True
    feeder.connections.send(link, Frame(Kind.DRAIN))
    assert [name for name, *_ in feeder.heard] == ["lost"]


# -- silence


def wait_for_ever(connections):
    while True:
        connections.wait()


def test_a_region_without_workers_stalls(feeder):
    with pytest.raises(RegionStalled, match=r"region r: nothing heard for 30 s: no worker is live\. .*above 30 s"):
        wait_for_ever(feeder.connections)
    assert feeder.poller.now == pytest.approx(STALL_S, abs=1.1)


def test_workers_that_keep_their_frames_are_named(feeder):
    feeder.meet(w1=1, w2=1)
    with pytest.raises(RegionStalled, match=r"workers \[1, 2\] do not answer"):
        wait_for_ever(feeder.connections)
    feeder.connections.progressed()
    feeder.connections.links[2].sent(0, rows=5)
    with pytest.raises(RegionStalled, match=r"worker 2 \(pid 7, worker 2\) has 1 frames\."):
        wait_for_ever(feeder.connections)


def test_anything_that_a_worker_says_is_progress_and_time_in_spark_is_nobodys(feeder):
    feeder.meet(w1=1)
    channel = feeder.poller.channels[11]
    feeder.connections.meter.wait(feeder.connections.links[1], 0.0)
    feeder.poller.now = STALL_S
    feeder.happen(Received(channel, Frame(Kind.RESULT)))
    feeder.connections.wait()
    feeder.connections.pause()
    feeder.poller.now += 1000.0
    feeder.connections.resume()
    feeder.connections.wait()
    feeder.connections.meter.charge(feeder.poller.now)
    assert STALL_S < feeder.connections.links[1].blocked_s < STALL_S + 2.0


# -- the controller


def said(feeder):
    """What the controller was told last."""
    return Reader(ToController).read(feeder.controller.sent[-1])


def test_a_task_says_who_it_is(feeder):
    assert said(feeder) == FeederHello("r", **IDENTITY)
    feeder.happen(Received(feeder.controller, control(Committed())))
    assert feeder.heard == [("told", Committed())]


@pytest.mark.parametrize(
    "happening",
    [
        lambda controller: Lost(controller, "so it is", True),
        lambda controller: Received(controller, control(FeederRefused("so it is"))),
    ],
)
def test_without_the_controller_nothing_goes_on(feeder, happening):
    with pytest.raises(ClusterStopped, match="cluster c does not serve region r any more: so it is"):
        feeder.happen(happening(feeder.controller))


def test_a_controller_that_is_gone_has_the_last_word(feeder):
    feeder.controller.over = True
    feeder.controller.arrived = [control(Committed())]
    with pytest.raises(ClusterStopped, match="the controller is gone"):
        feeder.connections.tell(FeederUnread())
    assert feeder.heard == [("told", Committed())]


def test_reports_have_what_is_new(feeder):
    feeder.meet(w1=1)
    feeder.connections.links[1].sent(0, rows=5)
    assert not feeder.connections.report_due(PERIOD_S / 2)
    assert feeder.connections.report_due(PERIOD_S)
    for now, rows in ((PERIOD_S, 5), (2 * PERIOD_S, 0)):
        feeder.connections.report(now, FeederFigures(2, None))
        report = said(feeder)
        assert (report.feeding_s, report.rows_out) == (PERIOD_S, 2)
        assert report.connections[1].rows_sent == rows


def test_little_is_told_of_a_long_error(feeder):
    error = FunctionError("x" * 10_000_000)
    error.worker = 1
    feeder.connections.fail(error, None)
    assert said(feeder) == FeederFailed("x" * MOST_ERROR, 1)


def test_who_leaves_waits_for_the_controller_but_not_for_ever(feeder):
    feeder.connections.leave(FeederFigures(1, None))
    assert feeder.poller.now == 0.0
    feeder.controller.unsent = 100
    feeder.connections.leave(None)
    assert feeder.poller.now == pytest.approx(LEAVE_S, abs=0.2)
    assert len(feeder.controller.sent) == 2


def test_who_has_not_registered_has_nobody_to_leave():
    stranger = Connections(SimpleNamespace(), SETTINGS, "r", Poller(), lambda: 0.0)
    stranger.leave(FeederFigures(0, None))
    assert not stranger.registered
