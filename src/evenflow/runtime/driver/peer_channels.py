"""The connections of workers and feeders to the controller."""

from __future__ import annotations

from itertools import count

from evenflow.control.events import Peer
from evenflow.model.messages import ToFeeder, ToWorker
from evenflow.runtime.wire.channel import Channel, PeerGone
from evenflow.runtime.wire.frames import Frame
from evenflow.runtime.wire.messages import control


class PeerChannels:
    """Everybody who has said who it is: each has a number, which is never used again."""

    def __init__(self) -> None:
        self.channels: dict[Peer, Channel] = {}
        self._numbers: dict[Channel, Peer] = {}
        self._free = count(1)

    def new(self) -> Peer:
        """The number for the next one."""
        return next(self._free)

    def of(self, channel: Channel) -> Peer | None:
        """The peer behind a connection; None if it has not said who it is."""
        return self._numbers.get(channel)

    def add(self, peer: Peer, channel: Channel) -> None:
        """Somebody has said who it is."""
        self._numbers[channel], self.channels[peer] = peer, channel

    def remove(self, channel: Channel) -> Peer | None:
        """A connection is over; returns the peer that was behind it, if it had said who it is."""
        peer = self._numbers.pop(channel, None)
        if peer is not None:
            del self.channels[peer]
        return peer

    def send(self, peer: Peer, message: ToWorker | ToFeeder) -> None:
        """Send a message to a peer, unless it is gone."""
        channel = self.channels.get(peer)
        if channel is not None:
            tell(channel, control(message))


def tell(channel: Channel, frame: Frame) -> None:
    """Send a frame over a connection."""
    try:
        channel.send(frame)
    except PeerGone:
        channel.reading = True  # the poller will find it gone and report it in its own time
