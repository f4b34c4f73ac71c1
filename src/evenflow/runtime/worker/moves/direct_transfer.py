"""Direct transfer: a thread of a worker that sends units to other workers and receives theirs (flux §5.1, StateMover).

State goes over connections of its own with deep buffers, so that rows are processed meanwhile. Units that have arrived,
or could not be delivered, wait in `inbox` for the worker's loop, which is woken. Units that the controller has not
announced are refused by their label, unread.
"""

from __future__ import annotations

import queue
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from evenflow.errors import ProtocolError, described
from evenflow.runtime.threads import BackgroundThread, Inbox, Start
from evenflow.runtime.wire.channel import Channel, PeerGone
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.poller import Lost, Poller, Received
from evenflow.runtime.worker.events import DeliveryFailedEvent, DeliveryRefusedEvent
from evenflow.runtime.worker.limits import LIMITS
from evenflow.runtime.worker.moves.label import Label, Part
from evenflow.runtime.worker.moves.movements import remember

TRANSFER_BUFFER = 4 * 1024 * 1024
"""SO_SNDBUF and SO_RCVBUF of these connections."""
SWITCH_S = 0.0005
"""Python's thread switch interval. With the default of 5 ms the thread waits for the interpreter after every read: a
movement of 10 MB took twice as long on a busy machine (median 176 ms against 83)."""
REMEMBERED = 1000
"""When a connection breaks, at most this many of the latest movements sent over it are reported undelivered."""
LABEL_BYTES = 32 * 1024 * 1024
"""The size of a label, at most: no more of a parcel is kept before its label is checked."""
CONNECT_S = 10.0
CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class Parcel:
    """The units of one movement, in parts: a `Label`, a pickle, then the buffers that the pickle refers to."""

    move: int
    parts: list[Part]
    host: str = ""
    port: int = 0


@dataclass(slots=True)
class _Arriving:
    """A parcel that is on its way in."""

    move: int
    parts: list[Part]
    admitted: bool = False


class DirectTransfer(BackgroundThread):
    """Owns a thread, a listener and the connections to the other direct transfers."""

    def __init__(
        self,
        poller: Poller,
        wake: Callable[[], None],
        key: str,
        start: Start | None = None,
        part_bytes: int = LIMITS.part_bytes,
    ) -> None:
        super().__init__("direct transfer", self._run, lambda _error: wake(), start)
        self.inbox: Inbox[Parcel | DeliveryFailedEvent | DeliveryRefusedEvent] = Inbox(wake)
        self.port = 0
        self.key = key
        """For tickets of movements to this worker; drawn at its start, and told only to the controller."""
        self._poller = poller
        self._part_bytes = part_bytes
        self._outbox: queue.SimpleQueue[Parcel] = queue.SimpleQueue()
        self._channels: dict[tuple[str, int], Channel] = {}
        self._sent: dict[Channel, deque[int]] = {}
        self._arriving: dict[Channel, _Arriving] = {}
        self._admitted: dict[int, None] = {}
        """The latest movements that were let in: none is let in twice."""

    def start(self, host: str) -> None:
        """Listen on `host`, and start the thread."""
        sys.setswitchinterval(SWITCH_S)
        self.port = self._poller.listen(host)
        self.begin()

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way in, waits to be sent or waits for the worker's loop."""
        return not self._arriving and self._outbox.empty() and self.inbox.empty()

    def send(self, parcel: Parcel) -> None:
        """Send a parcel in the background."""
        self._outbox.put(parcel)
        self._poller.wake()

    def close(self) -> None:
        """End the thread and close its connections."""
        self.end(CLOSE_S)
        self._poller.close()

    def rouse(self) -> None:
        self._poller.wake()

    def _run(self) -> None:
        while not self.closing.is_set():
            for happening in self._poller.poll(1.0):
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
            pieces = [
                (number, piece) for number, part in enumerate(parcel.parts) for piece in _cut(part, self._part_bytes)
            ]
            for place, (number, piece) in enumerate(pieces, 1):
                channel.send(Frame(Kind.STATE, piece, parcel.move, part=number, more=place < len(pieces)))
        except PeerGone as error:
            self.inbox.put(DeliveryFailedEvent(parcel.move, str(error)))
        except Exception as error:  # it costs this movement, which is taken back, and no other
            self.inbox.put(DeliveryFailedEvent(parcel.move, described(error)))

    def _channel(self, host: str, port: int) -> Channel:
        channel = self._channels.get((host, port))
        if channel is None:
            channel = self._poller.connect(host, port, "another worker's direct transfer", CONNECT_S)
            self._channels[host, port] = channel
            self._sent[channel] = deque(maxlen=REMEMBERED)
        return channel

    def _received(self, channel: Channel, frame: Frame) -> None:
        try:
            parcel = self._take(channel, frame)
        except Exception as error:  # its sender notices, and the movement is taken back
            reason = f"{channel.peer}: {error if isinstance(error, ProtocolError) else described(error)}"
            self._poller.drop(channel)
            self._lost(channel, reason)
            self.inbox.put(DeliveryRefusedEvent(reason))
            return
        if parcel is not None:
            self.inbox.put(parcel)

    def _take(self, channel: Channel, frame: Frame) -> Parcel | None:
        """Add a frame to the parcel on this connection; returns the parcel once it is whole."""
        if frame.kind is not Kind.STATE:
            raise ProtocolError(f"a worker's direct transfer sent a {frame.kind.name} frame")
        arriving = self._arriving.setdefault(channel, _Arriving(frame.sequence, []))
        parts = arriving.parts
        if frame.sequence != arriving.move or frame.part not in (len(parts), max(0, len(parts) - 1)):
            raise ProtocolError(f"part {frame.part} of movement {frame.sequence} came out of turn")
        if frame.part and not arriving.admitted:
            self._admit(arriving)
        if frame.part < len(parts):  # the part was cut; unpickled arrays are to be written to, so not bytes
            parts[frame.part] = bytearray().join((parts[frame.part], frame.body))
        else:
            parts.append(frame.body)
        if not arriving.admitted and len(parts[0]) > LABEL_BYTES:
            raise ProtocolError(f"the label of movement {frame.sequence} has more than {LABEL_BYTES} bytes")
        if frame.more:
            return None
        if not arriving.admitted:
            self._admit(arriving)
        del self._arriving[channel]
        return Parcel(arriving.move, parts)

    def _admit(self, arriving: _Arriving) -> None:
        """Refuse a parcel that the controller has not announced, by its label."""
        Label.read(arriving.parts[0]).check(self.key, arriving.move)
        if arriving.move in self._admitted:
            raise ProtocolError(f"movement {arriving.move} comes again")
        remember(self._admitted, arriving.move, None)
        arriving.admitted = True

    def _lost(self, channel: Channel, reason: str) -> None:
        self._arriving.pop(channel, None)
        self._channels = {address: other for address, other in self._channels.items() if other is not channel}
        for move in self._sent.pop(channel, ()):  # those that have long arrived do not mind
            self.inbox.put(DeliveryFailedEvent(move, reason))


def _cut(part: Part, size: int) -> list[memoryview]:
    view = memoryview(part).cast("B")
    return [view[start : start + size] for start in range(0, max(1, view.nbytes), size)]
