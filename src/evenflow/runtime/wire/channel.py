"""A channel: one TCP connection that carries frames, authenticated and never blocking."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from itertools import islice

from evenflow.errors import ProtocolError
from evenflow.runtime.wire.frames import Decoder, Encoder, Frame
from evenflow.runtime.wire.handshake import Handshake

SOCKET_BUFFER = 32 * 1024
"""SO_SNDBUF and SO_RCVBUF: deep kernel buffers would hide imbalance (ordered-regions §4.4)."""
DEEP_BUFFER = 1024 * 1024
"""The same where a worker has few frames at a time, so that nothing can hide in the kernel: fewer wake-ups a frame."""
KEEPALIVE = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3}
"""Seconds and tries: a host that vanishes is noticed in 5 s; a process that is merely busy is not disturbed."""
READ_BYTES = 1024 * 1024
"""Bytes read from one peer at a time, before others are served."""

_IOV = 16


class PeerGone(ConnectionError):
    """The peer closed the connection, or the network broke."""


def configure(sock: socket.socket, buffer: int = SOCKET_BUFFER) -> None:
    """Set the options that every connection has."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, buffer)


class Channel:
    """Sends and receives frames once the handshake is done; owns its socket.

    Nothing here waits: `flush` and `receive` go as far as the kernel allows at once. They raise `PeerGone` when the
    connection is over, and `ProtocolError` when the peer does not speak our protocol.
    """

    def __init__(
        self, sock: socket.socket, handshake: Handshake, *, peer: str, patience: float, clock: Callable[[], float]
    ) -> None:
        self.peer = peer
        self.patience = patience
        self.deadline = clock() + patience
        """When the next message of the handshake is due: `patience` seconds after the one before."""
        self.reading = True
        """Whether the owner wants frames from this peer now: off for backpressure."""
        self.unsent = 0
        """Bytes queued here."""
        self._sock = sock
        self._clock = clock
        self._handshake: Handshake | None = handshake
        self._greeting = bytearray()
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._early: list[Frame] = []
        self.failure: PeerGone | ProtocolError | None = None
        """The error that ended the connection, held back until the frames before it are handed out."""
        self._out: deque[memoryview] = deque()
        self._push(handshake.start())

    def fileno(self) -> int:
        """The socket's descriptor, for the poller."""
        return self._sock.fileno()

    @property
    def open(self) -> bool:
        """Whether the handshake is done."""
        return self._handshake is None

    @property
    def address(self) -> str:
        """The address of this side of the connection."""
        return str(self._sock.getsockname()[0])

    def send(self, frame: Frame) -> None:
        """Queue a frame and send what the kernel takes at once; frames wait for the end of the handshake."""
        if self._handshake is not None:
            self._early.append(frame)
            return
        for part in self._encoder.encode(frame):
            self._push(part)
        self.flush()

    def flush(self) -> bool:
        """Send queued bytes; returns whether none are left."""
        if not self._out:
            return True
        while self._out:
            try:
                sent = self._sock.sendmsg(list(islice(self._out, _IOV)))
            except BlockingIOError:
                return False
            except OSError as error:
                raise PeerGone(f"{self.peer} is gone: {error}") from None
            self._advance(sent)
        return True

    def receive(self, most: int) -> list[Frame]:
        """Up to `most` frames that have arrived whole; an error is raised after all frames before it are handed out."""
        frames: list[Frame] = []
        read = 0
        if self.failure is not None:
            raise self.failure
        try:
            while len(frames) < most and read < READ_BYTES:
                if self._handshake is not None and not self._greet(self._handshake):
                    break
                count = self._read(self._decoder.target())
                if count == 0:
                    break
                read += count
                frame = self._decoder.received(count)
                if frame is not None:
                    frames.append(frame)
        except (PeerGone, ProtocolError) as error:
            if not frames:
                raise
            self.failure = error
        return frames

    def close(self) -> None:
        """Close the socket; safe to call twice."""
        self._sock.close()
        self._out.clear()
        self.unsent = 0

    def _greet(self, handshake: Handshake) -> bool:
        """Go on with the handshake; returns whether it is done."""
        while not handshake.done:
            missing = bytearray(handshake.expects - len(self._greeting))
            count = self._read(memoryview(missing))
            if count == 0:
                return False
            self._greeting += missing[:count]
            if len(self._greeting) == handshake.expects:
                answer = handshake.receive(bytes(self._greeting))
                self.deadline = self._clock() + self.patience
                self._greeting.clear()
                self._push(answer)
        sending, receiving = handshake.seeds()
        self._encoder, self._decoder = Encoder(sending), Decoder(receiving)
        self._handshake = None
        for frame in self._early:
            self.send(frame)
        self._early.clear()
        self.flush()
        return True

    def _read(self, target: memoryview) -> int:
        try:
            count = self._sock.recv_into(target)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerGone(f"{self.peer} is gone: {error}") from None
        if count == 0:
            where = "" if self._decoder.clean else ", in the middle of a frame"
            raise PeerGone(f"{self.peer} closed the connection{where}")
        return count

    def _push(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        if view.nbytes:
            self._out.append(view)
            self.unsent += view.nbytes

    def _advance(self, sent: int) -> None:
        self.unsent -= sent
        while sent:
            head = self._out[0]
            if head.nbytes > sent:
                self._out[0] = head[sent:]
                return
            sent -= head.nbytes
            self._out.popleft()
