"""The channel on a fake socket and a manual clock: blocking time as in ordered-regions §3.1, and every way to end."""

import pytest

from evenflow.errors import HandshakeError, ProtocolError
from evenflow.runtime.wire import channel
from evenflow.runtime.wire.channel import Channel, PeerGone
from evenflow.runtime.wire.frames import HEADER_BYTES, Decoder, Encoder, Frame, Kind
from evenflow.runtime.wire.handshake import Handshake

SECRET = b"s" * 32
ENDLESS = 1 << 30


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Socket:
    """A socket whose kernel has room for `room` bytes to send, and `inbox` to be read."""

    def __init__(self):
        self.room = ENDLESS
        self.sent = bytearray()
        self.inbox = bytearray()
        self.ended = False
        self.broken = None
        self.closed = 0

    def sendmsg(self, buffers):
        if self.broken:
            raise self.broken
        if not self.room:
            raise BlockingIOError
        data = b"".join(buffers)[: self.room]
        self.sent += data
        self.room -= len(data)
        return len(data)

    def recv_into(self, target):
        if self.broken:
            raise self.broken
        count = min(len(target), len(self.inbox))
        if not count and not self.ended:
            raise BlockingIOError
        target[:count] = self.inbox[:count]
        del self.inbox[:count]
        return count

    def close(self):
        self.closed += 1


class Line:
    """A client's channel, past its handshake, and the server's end as plain bytes."""

    def __init__(self, finish=True):
        self.clock, self.socket = Clock(), Socket()
        handshake = Handshake(SECRET, b"c" * 32, server=False)
        self.channel = Channel(self.socket, handshake, peer="worker 3", patience=5.0, clock=self.clock)
        self.server = Handshake(SECRET, b"s" * 32, server=True)
        if finish:
            self.finish()

    def finish(self):
        self.channel.flush()
        self.socket.inbox += self.server.receive(self.take(self.server.expects))
        self.channel.receive(1)
        self.channel.flush()
        self.server.receive(self.take(self.server.expects))
        sending, receiving = self.server.seeds()
        self.encoder, self.decoder = Encoder(sending), Decoder(receiving)

    def take(self, count):
        data = bytes(self.socket.sent[:count])
        del self.socket.sent[:count]
        return data

    def arrive(self, *frames):
        """Frames of the server arrive."""
        for frame in frames:
            self.socket.inbox += b"".join(self.encoder.encode(frame))

    def heard(self):
        """The frames that reached the server."""
        return list(self.decoder.feed(self.take(ENDLESS)))

    def at(self, now, room):
        """At `now` the kernel has room for `room` bytes, and the owner tries again."""
        self.clock.now, self.socket.room = now, room
        return self.channel.flush()


def data(size, sequence=0):
    return Frame(Kind.DATA, bytes([sequence % 256]) * size, sequence)


# -- sending


def test_frames_queued_behind_a_block_wait_with_it():
    line = Line()
    line.clock.now, line.socket.room = 1.0, 10
    line.channel.send(data(10, 1))  # 10 bytes go, the rest would block
    line.channel.send(data(20, 2))
    assert line.channel.unsent == 2 * HEADER_BYTES + 20
    assert not line.at(5.0, room=0)  # woken for nothing
    assert line.at(7.0, room=ENDLESS)
    assert line.channel.unsent == 0
    assert line.heard() == [data(10, 1), data(20, 2)]


@pytest.mark.parametrize("room", [1, 7, HEADER_BYTES, HEADER_BYTES + 1, 1000])
def test_partial_sends_lose_nothing(room):
    line = Line()
    frames = [data(size, number) for number, size in enumerate([0, 1, 300, 0, 5])]
    line.socket.room = 0
    for frame in frames:
        line.channel.send(frame)
    tries = 0
    while not line.at(float(tries), room):
        tries += 1
    assert tries == (300 + 6 + 5 * HEADER_BYTES - 1) // room
    assert line.heard() == frames


def test_more_frames_than_one_call_takes():
    line = Line()
    line.socket.room = 0
    for number in range(100):
        line.channel.send(data(3, number))
    assert line.at(0.0, room=ENDLESS)
    assert line.heard() == [data(3, number) for number in range(100)]


# -- receiving


def test_no_more_than_asked_for():
    line = Line()
    frames = [data(10, number) for number in range(5)]
    line.arrive(*frames)
    assert line.channel.receive(2) == frames[:2]
    assert line.channel.receive(9) == frames[2:]
    assert line.channel.receive(9) == []


def test_one_peer_does_not_keep_the_others_waiting(monkeypatch):
    monkeypatch.setattr(channel, "READ_BYTES", 1000)
    line = Line()
    frames = [data(600, number) for number in range(5)]
    line.arrive(*frames)
    assert [line.channel.receive(9) for _ in range(4)] == [frames[:2], frames[2:4], frames[4:], []]


def test_byte_by_byte():
    line = Line()
    line.arrive(data(3, 1), data(0, 2))
    inbox, seen = bytes(line.socket.inbox), []
    line.socket.inbox.clear()
    for byte in inbox:
        line.socket.inbox.append(byte)
        seen += line.channel.receive(8)
    assert seen == [data(3, 1), data(0, 2)]


def test_what_came_before_an_error_is_handed_out_first():
    line = Line()
    line.arrive(data(3, 1))
    line.socket.inbox += b"x" * HEADER_BYTES
    assert line.channel.receive(8) == [data(3, 1)]
    assert line.channel.failure is not None
    for _ in range(2):
        with pytest.raises(ProtocolError, match="frame 1 starts with b'xxxx'"):
            line.channel.receive(8)


@pytest.mark.parametrize(
    ("inbox", "message"),
    [
        (b"", "worker 3 closed the connection$"),
        (b"E", "worker 3 closed the connection, in the middle of a frame"),
    ],
)
def test_the_peer_closes(inbox, message):
    line = Line()
    line.socket.inbox += inbox
    line.socket.ended = True
    with pytest.raises(PeerGone, match=message):
        line.channel.receive(8)


@pytest.mark.parametrize("call", [lambda channel: channel.receive(8), lambda channel: channel.send(data(1))])
def test_the_network_breaks(call):
    line = Line()
    line.socket.broken = ConnectionResetError("connection reset by peer")
    with pytest.raises(PeerGone, match="worker 3 is gone: connection reset by peer"):
        call(line.channel)


def test_close():
    line = Line()
    line.socket.room = 0
    line.channel.send(data(9))
    line.channel.close()
    line.channel.close()
    assert (line.channel.unsent, line.socket.closed) == (0, 2)


# -- the handshake on the wire


def test_frames_wait_for_the_handshake():
    line = Line(finish=False)
    line.channel.send(data(5, 1))
    line.channel.send(data(5, 2))
    assert not line.channel.open
    line.finish()
    assert line.channel.open
    assert line.heard() == [data(5, 1), data(5, 2)]


def test_frames_right_behind_the_handshake():
    line = Line(finish=False)
    line.channel.flush()
    line.socket.inbox += line.server.receive(line.take(line.server.expects))
    sending, _ = line.server.seeds()
    line.encoder = Encoder(sending)
    line.arrive(data(5, 1))
    assert line.channel.receive(8) == [data(5, 1)]


def test_a_server_that_does_not_hold_the_secret():
    line = Line(finish=False)
    line.socket.inbox += b"x" * 64 + b"more"
    with pytest.raises(HandshakeError, match="the server does not hold this cluster's secret"):
        line.channel.receive(8)
    assert not line.channel.open
    assert line.socket.inbox == b"more"  # not a byte more was read than a handshake has


def test_half_a_handshake_is_not_one():
    line = Line(finish=False)
    line.socket.inbox += b"x" * 63
    assert line.channel.receive(8) == []
    line.socket.ended = True
    with pytest.raises(PeerGone, match="worker 3 closed the connection"):
        line.channel.receive(8)
