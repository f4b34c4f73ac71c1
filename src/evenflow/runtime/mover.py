"""The mover: a worker's second thread, which sends units to other workers and receives theirs (flux §5.1, StateMover).

State goes over connections of its own with deep buffers, so that rows are processed meanwhile. What has arrived, or
could not be delivered, waits in `inbox` for the worker's loop, which is woken.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from evenflow.errors import EvenflowError
from evenflow.runtime.channel import Channel, PeerGone
from evenflow.runtime.frames import Frame, Kind
from evenflow.runtime.switchboard import Lost, Received, Switchboard

BUFFER = 4 * 1024 * 1024
"""SO_SNDBUF and SO_RCVBUF of these connections."""
PART_BYTES = 64 * 1024 * 1024
"""State is cut into frames of this size; a unit may be larger than any frame."""
SWITCH_S = 0.0005
"""The mover must not wait for the interpreter each time it has read a little: with Python's own 5 ms, a move of 10 MB
took twice as long on a busy machine (median 176 ms against 83)."""
REMEMBERED = 1000
"""Movements sent over one connection that are reported undelivered when it breaks: the latest of them."""
CONNECT_S = 10.0
CLOSE_S = 10.0


Part = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Parcel:
    """The units of one movement, in parts: a pickle, then the buffers it speaks of, none of them copied on the way."""

    move: int
    parts: list[Part]
    host: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True)
class Undelivered:
    """The target of a movement could not be reached, or went away."""

    move: int
    reason: str


class Mover:
    """Owns a thread, a listener and the connections to the other movers."""

    def __init__(self, secret: bytes, wake: Callable[[], None]) -> None:
        self.inbox: queue.SimpleQueue[Parcel | Undelivered] = queue.SimpleQueue()
        self.port = 0
        self._wake = wake
        self._board = Switchboard(secret, buffer=BUFFER)
        self._outbox: queue.SimpleQueue[Parcel] = queue.SimpleQueue()
        self._channels: dict[tuple[str, int], Channel] = {}
        self._sent: dict[Channel, deque[int]] = {}
        self._parts: dict[Channel, list[Part]] = {}
        self._closing = False
        self._thread: threading.Thread | None = None

    def start(self, host: str) -> None:
        """Listen on `host`."""
        sys.setswitchinterval(SWITCH_S)
        self.port = self._board.listen(host)
        self._thread = threading.Thread(target=self._run, name="evenflow-mover", daemon=True)
        self._thread.start()

    def send(self, parcel: Parcel) -> None:
        """Send a parcel in the background."""
        self._outbox.put(parcel)
        self._board.wake()

    def close(self) -> None:
        """End the thread and close its connections."""
        self._closing = True
        if self._thread is not None:
            self._board.wake()
            self._thread.join(CLOSE_S)
            if self._thread.is_alive():
                raise EvenflowError(f"the mover's thread did not end within {CLOSE_S:g} s")
        self._board.close()

    def _run(self) -> None:
        while not self._closing:
            for happening in self._board.poll(1.0):
                match happening:
                    case Received(channel=channel, frame=frame):
                        self._received(channel, frame)
                    case Lost(channel=channel, reason=reason):
                        self._lost(channel, reason)
            while not self._outbox.empty():
                self._dispatch(self._outbox.get())

    def _dispatch(self, parcel: Parcel) -> None:
        try:
            channel = self._channel(parcel.host, parcel.port)
            self._sent[channel].append(parcel.move)
            pieces = [(number, piece) for number, part in enumerate(parcel.parts) for piece in _cut(part)]
            for place, (number, piece) in enumerate(pieces, 1):
                channel.send(Frame(Kind.STATE, piece, parcel.move, unit=number, more=place < len(pieces)))
        except PeerGone as error:
            self._deliver(Undelivered(parcel.move, str(error)))

    def _channel(self, host: str, port: int) -> Channel:
        channel = self._channels.get((host, port))
        if channel is None:
            channel = self._board.connect(host, port, "another worker's mover", CONNECT_S)
            self._channels[host, port] = channel
            self._sent[channel] = deque(maxlen=REMEMBERED)
        return channel

    def _received(self, channel: Channel, frame: Frame) -> None:
        if frame.kind is not Kind.STATE:
            self._board.drop(channel)
            self._lost(channel, f"it sent a {frame.kind.name} frame")
            return
        parts = self._parts.setdefault(channel, [])
        if frame.unit < len(parts):  # the part was cut; unpickled arrays are to be written to, so not bytes
            parts[frame.unit] = bytearray().join((parts[frame.unit], frame.body))
        else:
            parts.append(frame.body)
        if not frame.more:
            del self._parts[channel]
            self._deliver(Parcel(frame.sequence, parts))

    def _lost(self, channel: Channel, reason: str) -> None:
        self._parts.pop(channel, None)
        self._channels = {address: other for address, other in self._channels.items() if other is not channel}
        for move in self._sent.pop(channel, ()):  # those that have long arrived do not mind
            self._deliver(Undelivered(move, reason))

    def _deliver(self, news: Parcel | Undelivered) -> None:
        self.inbox.put(news)
        self._wake()


def _cut(part: Part) -> list[memoryview]:
    view = memoryview(part).cast("B")
    return [view[start : start + PART_BYTES] for start in range(0, max(1, view.nbytes), PART_BYTES)]
