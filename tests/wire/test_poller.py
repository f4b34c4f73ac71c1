"""Connections behind one poller, over real loopback sockets."""

import os
import resource
import socket
import time

import pytest

from evenflow.runtime.wire import poller as wire_poller
from evenflow.runtime.wire.channel import PeerGone
from evenflow.runtime.wire.frames import Encoder, Frame, Kind
from evenflow.runtime.wire.handshake import Handshake
from evenflow.runtime.wire.poller import Lost, Opened, Poller, Received

SECRET = b"s" * 32
PATIENCE_S = 60.0


@pytest.fixture
def poller():
    made = Poller(SECRET)
    yield made
    made.close()


@pytest.fixture
def port(poller):
    return poller.listen("127.0.0.1")


@pytest.fixture
def stranger(port):
    """Opens raw connections to the board."""
    opened = []

    def connect():
        opened.append(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
        return opened[-1]

    yield connect
    for sock in opened:
        sock.close()


def happenings(poller, kind, count=1):
    """Poll until `count` things of `kind` have happened; everything that did."""
    seen, deadline = [], time.monotonic() + PATIENCE_S
    while sum(isinstance(thing, kind) for thing in seen) < count:
        assert time.monotonic() < deadline, f"only {seen}"
        seen += poller.poll(0.1)
    return seen


def shake(sock, poller):
    """The client's side of the handshake, by hand; the encoder for what follows."""
    handshake = Handshake(SECRET, b"n" * 32, server=False)
    sock.sendall(handshake.start())
    answer = b""
    while len(answer) < handshake.expects:
        list(poller.poll(0.1))
        sock.settimeout(0.01)
        try:
            answer += sock.recv(handshake.expects - len(answer))
        except TimeoutError:
            continue
    sock.sendall(handshake.receive(answer))
    return Encoder(handshake.seeds()[0])


def frame(number):
    return Frame(Kind.CONTROL, b"%d" % number, number)


def test_two_boards_meet(poller, port):
    other = Poller(SECRET)
    try:
        ours = other.connect("127.0.0.1", port, "the board")
        ours.send(frame(1))
        theirs = None
        deadline = time.monotonic() + PATIENCE_S
        seen = []
        while not any(isinstance(thing, Received) for thing in seen):
            assert time.monotonic() < deadline
            list(other.poll(0.01))
            seen += poller.poll(0.01)
        theirs = seen[0].channel
        assert seen == [Opened(theirs), Received(theirs, frame(1))]
        poller.drop(theirs)
        poller.drop(theirs)
        [lost] = [thing for thing in happenings(other, Lost) if isinstance(thing, Lost)]
        assert (lost.channel, lost.known) == (ours, True)
        assert lost.reason.startswith(f"the board at 127.0.0.1:{port} ")
    finally:
        other.close()


def test_a_bad_frame_behind_a_good_one_is_noticed_though_the_peer_falls_silent(poller, stranger):
    sock = stranger()
    encoder = shake(sock, poller)
    sock.sendall(b"".join(encoder.encode(frame(1))) + b"x" * 44)
    seen = happenings(poller, Lost)
    assert [type(thing) for thing in seen] == [Opened, Received, Lost]
    assert "frame 1 starts with b'xxxx'" in seen[-1].reason
    assert seen[-1].known


def test_frames_sent_before_a_close_arrive_before_the_loss(poller, stranger):
    sock = stranger()
    encoder = shake(sock, poller)
    sock.sendall(b"".join(part for number in range(20) for part in encoder.encode(frame(number))))
    sock.close()
    seen = happenings(poller, Lost)
    assert [thing.frame for thing in seen if isinstance(thing, Received)] == [frame(number) for number in range(20)]
    assert seen[-1].reason.endswith("closed the connection")


def test_nothing_is_read_from_whom_nobody_wants_to_hear(poller, stranger):
    sock = stranger()
    encoder = shake(sock, poller)
    channel = happenings(poller, Opened)[-1].channel
    channel.reading = False
    sock.sendall(b"".join(encoder.encode(frame(1))))
    assert not list(poller.poll(0.1))
    channel.reading = True
    assert happenings(poller, Received) == [Received(channel, frame(1))]


def test_nobody_listens(poller, port):
    with socket.socket() as silent:  # has the port, so that nobody else can, and does not listen
        silent.bind(("127.0.0.1", 0))
        closed = silent.getsockname()[1]
        try:
            poller.connect("127.0.0.1", closed, "worker 3")
        except PeerGone as error:
            reason = str(error)
        else:
            reason = happenings(poller, Lost)[-1].reason
    assert f"worker 3 at 127.0.0.1:{closed}" in reason
    assert "refused" in reason


def test_strangers_beyond_the_limit_push_out_the_oldest(poller, stranger, monkeypatch):
    monkeypatch.setattr(wire_poller, "MAX_HALF_OPEN", 3)
    silent = [stranger() for _ in range(3)]
    for _ in range(5):
        list(poller.poll(0.01))
    shake(stranger(), poller)  # a fourth that is one of ours gets in all the same
    assert isinstance(happenings(poller, Opened)[-1], Opened)
    assert silent[0].recv(1) == b""  # whoever came first and never spoke has made room
    for sock in silent[1:]:
        sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            sock.recv(1)


def test_our_own_calls_never_make_room_for_strangers(poller, stranger, monkeypatch):
    """Whoever we call may be slow to answer; a crowd at our door must not make us hang up."""
    monkeypatch.setattr(wire_poller, "MAX_HALF_OPEN", 2)
    with socket.create_server(("127.0.0.1", 0)) as slow:
        ours = poller.connect("127.0.0.1", slow.getsockname()[1], "a slow worker")
        crowd = [stranger() for _ in range(6)]
        seen = happenings(poller, Lost, 4)
        assert all(thing.channel is not ours and "made room" in thing.reason for thing in seen)
        assert not any(thing.known for thing in seen)
        assert crowd[0].recv(1) == b""
        answering, _ = slow.accept()
        with answering:
            assert answering.recv(4) == b"EVHS"
            answering.sendall(bytes(64))
            lost = [thing for thing in happenings(poller, Lost) if thing.channel is ours]
        assert "the server does not hold this cluster's secret" in lost[0].reason


def test_our_own_calls_have_a_limit(poller, monkeypatch):
    monkeypatch.setattr(wire_poller, "MAX_CALLS", 2)
    with socket.create_server(("127.0.0.1", 0)) as slow:
        port = slow.getsockname()[1]
        first = poller.connect("127.0.0.1", port, "worker 1")
        poller.connect("127.0.0.1", port, "worker 2")
        with pytest.raises(PeerGone, match=f"worker 3 at 127.0.0.1:{port} is not called: 2 other connections"):
            poller.connect("127.0.0.1", port, "worker 3")
        poller.drop(first)
        poller.connect("127.0.0.1", port, "worker 3")


def test_descriptors_run_out(poller, stranger, monkeypatch):
    """No error ends the loop, nor does it spin; whoever waits at the door is let in later."""
    monkeypatch.setattr(wire_poller, "DEAF_S", 0.05)
    waiting = stranger()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with pytest.raises(PeerGone, match="cannot be reached: Too many open files"):
            poller.connect("127.0.0.1", 9, "worker 1")
        began, polls = time.monotonic(), 0
        while time.monotonic() < began + 0.5:
            assert not list(poller.poll(0.5))
            polls += 1
        assert polls < 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    shake(waiting, poller)
    assert isinstance(happenings(poller, Opened)[-1], Opened)


def test_waking_never_blocks(poller):
    """Whoever wakes a loop that does not run, because it waits for them to end, must not wait for it."""
    for _ in range(10_000):
        poller.wake()
    assert list(poller.poll(0.0)) == []


def test_wake_from_another_thread(poller):
    started = time.monotonic()
    poller.wake()
    assert not list(poller.poll(PATIENCE_S))
    assert time.monotonic() - started < PATIENCE_S


def test_who_knocks_while_we_are_busy_is_let_in(monkeypatch):
    """An operator may take longer for a frame than a handshake may; nobody who connects meanwhile is to blame."""
    now = [0.0]
    busy, talker, comer = Poller(SECRET, clock=lambda: now[0]), Poller(SECRET), Poller(SECRET)
    try:
        port = busy.listen("127.0.0.1")
        talking = talker.connect("127.0.0.1", port, "a busy one")
        until(lambda: talking.open and not busy._half_open, busy, talker)
        coming = comer.connect("127.0.0.1", port, "a busy one")
        list(comer.poll(0.05))
        talking.send(Frame(Kind.DATA, b"x"))
        until(lambda: not talking.unsent, talker)
        select = busy._selector.select
        knocks_first = lambda ready: ready[0].fileobj not in busy._listeners  # noqa: E731
        monkeypatch.setattr(busy._selector, "select", lambda timeout: sorted(select(timeout), key=knocks_first))
        for thing in busy.poll(PATIENCE_S):
            now[0] += 2 * wire_poller.HANDSHAKE_S * isinstance(thing, Received)
        assert now[0]
        until(lambda: coming.open, busy, comer)
    finally:
        for poller in (busy, talker, comer):
            poller.close()


def until(condition, *boards):
    """Poll boards until something holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        for poller in boards:
            assert not [thing for thing in poller.poll(0.02) if isinstance(thing, Lost)]
