"""The poller: all connections of a worker, a feeder or the controller, behind one selector."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from evenflow.errors import ProtocolError
from evenflow.runtime.wire.channel import SOCKET_BUFFER, Channel, PeerGone, configure
from evenflow.runtime.wire.frames import Frame
from evenflow.runtime.wire.handshake import NONCE_BYTES, Handshake

HANDSHAKE_S = 30.0
"""Seconds that a peer which connected to us may take for each message of the handshake: a feeder that waits for Spark
on a busy machine answers late, and would take the worker for lost."""
CONNECT_S = 60.0
"""Seconds that a peer to which we connect may take for each message of the handshake."""
LAST_WORDS = 1000
"""Frames read at most from a peer that is gone."""
MAX_HALF_OPEN = 256
"""Strangers, peers that have not proved themselves: beyond this many the oldest is turned out."""
MAX_CALLS = 4096
"""Connections that we are making at once, at most; they never make room for strangers."""
DEAF_S = 0.2
"""Seconds for which nobody is let in when descriptors have run out."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The handshake with a peer is done."""

    channel: Channel


@dataclass(frozen=True, slots=True)
class Received:
    """A frame arrived."""

    channel: Channel
    frame: Frame


@dataclass(frozen=True, slots=True)
class Lost:
    """A connection is over, and its channel closed; `known`: the handshake had been done."""

    channel: Channel
    reason: str
    known: bool


Happening = Opened | Received | Lost


class Poller:
    """Accepts, makes and polls connections, and owns their channels: `close()` closes those that are left."""

    def __init__(
        self, secret: bytes, clock: Callable[[], float] = time.perf_counter, buffer: int = SOCKET_BUFFER
    ) -> None:
        self.waited_s = 0.0
        """Seconds spent waiting with nothing to do."""
        self._secret = secret
        self._clock = clock
        self._buffer = buffer
        self._selector = selectors.DefaultSelector()
        self._masks: dict[Channel, int] = {}
        self._half_open: dict[Channel, None] = {}
        """Strangers, oldest first."""
        self._calls: dict[Channel, None] = {}
        """Connections that we are making."""
        self._turned_out: list[Lost] = []
        self._deaf: dict[socket.socket, float] = {}
        """Listeners that are not listened to for lack of descriptors, and until when."""
        self._listeners: dict[socket.socket, int] = {}
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ, None)

    def listen(self, host: str, buffer: int | None = None) -> int:
        """Accept connections on `host`, with socket buffers of `buffer` bytes; returns the port."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer or self._buffer)
        listener.bind((host, 0))
        listener.listen(MAX_HALF_OPEN)
        listener.setblocking(False)
        self._listeners[listener] = buffer or self._buffer
        self._selector.register(listener, selectors.EVENT_READ, None)
        return int(listener.getsockname()[1])

    def connect(
        self, host: str, port: int, peer: str, patience: float = CONNECT_S, buffer: int | None = None
    ) -> Channel:
        """Begin to connect, with socket buffers of `buffer` bytes; `Opened` or `Lost` will tell how it went.

        Raises `PeerGone` if it cannot be begun.
        """
        where = f"{peer} at {host}:{port}"
        if len(self._calls) >= MAX_CALLS:
            raise PeerGone(f"{where} is not called: {MAX_CALLS} other connections are being made")
        sock = None
        try:
            sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
            configure(sock, buffer or self._buffer)
            status = sock.connect_ex((host, port))
            if status not in (0, errno.EINPROGRESS):
                raise OSError(status, os.strerror(status))
        except OSError as error:  # descriptors have run out, the name is not known, nobody is there
            if sock is not None:
                sock.close()
            raise PeerGone(f"{where} cannot be reached: {error.strerror or error}") from None
        channel = self._add(sock, server=False, peer=where, patience=patience)
        self._calls[channel] = None
        return channel

    def poll(self, timeout: float, most: int = 8) -> Iterator[Happening]:
        """Wait up to `timeout` seconds for a happening; yields all there are then, at most `most` frames a channel."""
        for channel in self._masks:
            self._watch(channel)
        if self._half_open or self._calls:
            timeout = min(timeout, 0.5)
        if self._deaf:
            timeout = min(timeout, DEAF_S)
            self._listen_again()
        began = self._clock()
        ready = self._selector.select(timeout)
        heard = self._clock()  # deadlines count from here: a peer may write while we handle what came before
        self.waited_s += heard - began
        for key, mask in ready:
            if key.fileobj is self._bell:
                self._bell.recv(4096)
            elif key.fileobj in self._listeners:
                self._accept(key.fileobj)
            elif isinstance(key.fileobj, Channel) and key.fileobj in self._masks:
                yield from self._serve(key.fileobj, mask, most)
        yield from self._expire(heard)
        while self._turned_out:
            yield self._turned_out.pop(0)

    def wake(self) -> None:
        """Make a `poll` in another thread return."""
        with suppress(OSError):  # the pipe is full of earlier calls, or closed
            self._button.send(b"!")

    def drop(self, channel: Channel) -> None:
        """Close a channel and forget it."""
        if channel in self._masks:
            if self._masks.pop(channel):
                self._selector.unregister(channel)
            self._half_open.pop(channel, None)
            self._calls.pop(channel, None)
            channel.close()

    def close(self) -> None:
        """Close everything."""
        for channel in list(self._masks):
            self.drop(channel)
        for sock in (*self._listeners, self._bell, self._button):
            sock.close()
        self._selector.close()

    def _serve(self, channel: Channel, mask: int, most: int) -> Iterator[Happening]:
        was_open = channel.open
        frames: list[Frame] = []
        reason = ""
        try:
            if mask & selectors.EVENT_WRITE:
                channel.flush()
        except (PeerGone, ProtocolError) as error:
            reason = str(error)
            most = LAST_WORDS  # what the peer sent before it went still counts
        try:
            if reason or (mask & selectors.EVENT_READ and (channel.reading or not channel.open)):
                frames = channel.receive(most)
        except (PeerGone, ProtocolError) as error:
            reason = reason or str(error)
        if channel.open and not was_open:
            self._half_open.pop(channel, None)
            self._calls.pop(channel, None)
            yield Opened(channel)
        for frame in frames:
            if channel in self._masks:
                yield Received(channel, frame)
        if channel.failure is not None:
            reason = str(channel.failure)
        if reason and channel in self._masks:
            self.drop(channel)
            yield Lost(channel, reason, channel.open)

    def _watch(self, channel: Channel) -> None:
        mask = selectors.EVENT_READ if channel.reading or not channel.open else 0
        if channel.unsent:
            mask |= selectors.EVENT_WRITE
        old = self._masks[channel]
        if mask == old:
            return
        self._masks[channel] = mask
        if not old:
            self._selector.register(channel, mask)
        elif mask:
            self._selector.modify(channel, mask)
        else:
            self._selector.unregister(channel)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, address = listener.accept()
        except OSError as error:  # the peer left before we looked; or descriptors have run out
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._selector.unregister(listener)
                self._deaf[listener] = self._clock() + DEAF_S
            return
        try:
            configure(sock, self._listeners[listener])
        except OSError:  # the peer has left since
            sock.close()
            return
        if len(self._half_open) >= MAX_HALF_OPEN:
            oldest = next(iter(self._half_open))
            self.drop(oldest)
            reason = f"{oldest.peer} made room: {MAX_HALF_OPEN} strangers were here at once"
            self._turned_out.append(Lost(oldest, reason, False))
        channel = self._add(sock, server=True, peer=f"{address[0]}:{address[1]}", patience=HANDSHAKE_S)
        self._half_open[channel] = None

    def _listen_again(self) -> None:
        for listener in [each for each, until in self._deaf.items() if self._clock() >= until]:
            del self._deaf[listener]
            self._selector.register(listener, selectors.EVENT_READ, None)

    def _add(self, sock: socket.socket, *, server: bool, peer: str, patience: float) -> Channel:
        handshake = Handshake(self._secret, os.urandom(NONCE_BYTES), server)
        channel = Channel(sock, handshake, peer=peer, patience=patience, clock=self._clock)
        self._masks[channel] = 0
        return channel

    def _expire(self, now: float) -> Iterator[Happening]:
        for channel in [c for c in (*self._half_open, *self._calls) if now > c.deadline]:
            self.drop(channel)
            yield Lost(channel, f"{channel.peer} did not finish the handshake in time", False)
