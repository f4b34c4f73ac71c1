"""Connections to the other workers, over which rows of graphs go; emulated links delay them.

Each worker sends over connections that it has made itself. So two workers have two connections, one for each direction;
only answers to flushes go the other way.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from math import inf

from evenflow.model.capacity import Emulate
from evenflow.model.messages import OpenPeer, WorkerAddress
from evenflow.runtime.wire.channel import DEEP_BUFFER, Channel, PeerGone
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import packed
from evenflow.runtime.wire.poller import Poller

PROBE_S = 0.5
"""Seconds between two probes of a connection."""
RECONNECT_S = 0.5
"""Seconds between two attempts to connect to a worker that the controller takes to be live."""
TRIPS = 10
"""Latest probes that are kept: the quickest counts, since a busy worker answers late."""
LARGE = bytes(128 * 1024)
"""Body of a large probe: the bandwidth follows from how much longer it takes than a small one."""
LARGE_EVERY = 4
"""One of so many probes is large."""
LEAST_S = 1e-4
"""Seconds that a large probe counts as longer than a small one, at least: less only says that bandwidth is large."""
EMULATED_ROW = 128
"""Bytes of a probe that count as a row on an emulated link."""


@dataclass(slots=True)
class PeerLink:
    """The connection to one worker."""

    channel: Channel
    incarnation: int
    free_at: float = 0.0
    """When the emulated link will have sent the frames that it has."""
    arrives: float = 0.0
    """When the last frame on the emulated link arrives; frames keep their order."""
    late: int = 0
    """Frames that are on the emulated link now."""
    probed: float = -inf
    """When it was last probed."""
    trips: deque[float] = field(default_factory=lambda: deque(maxlen=TRIPS))
    """Seconds that the latest small probes took, there and back."""
    large: deque[float] = field(default_factory=lambda: deque(maxlen=TRIPS))
    """Seconds that the latest large probes took, there and back."""
    probes: int = 0


class Peers:
    """The connections of one worker to the others."""

    def __init__(self, worker: int, poller: Poller, emulate: Emulate | None, clock: Callable[[], float]) -> None:
        self._worker = worker
        self._poller = poller
        self._emulate = emulate
        self._clock = clock
        self._links: dict[int, PeerLink] = {}
        self._by_channel: dict[Channel, int] = {}
        self._directory: dict[int, WorkerAddress] = {}
        """The other workers, as the controller named them last."""
        self._called: dict[int, float] = {}
        """Per worker: when this worker tried to connect to it last."""
        self._late: list[tuple[float, int, Channel, Frame]] = []
        """Frames on emulated links: when each arrives, a number that keeps their order, its connection."""
        self._numbers = count()

    def __contains__(self, channel: Channel) -> bool:
        return channel in self._by_channel

    def meet(self, workers: Iterable[WorkerAddress]) -> list[Channel]:
        """Connect to these workers; returns the connections to other workers, which are closed."""
        self._directory = {entry.id: entry for entry in workers if entry.id != self._worker}
        gone = []
        for worker, link in list(self._links.items()):
            entry = self._directory.get(worker)
            if entry is None or entry.incarnation != link.incarnation:
                self._poller.drop(link.channel)
                self.lost(link.channel)
                gone.append(link.channel)
        self._called.clear()
        self._call()
        return gone

    def _call(self) -> None:
        """Connect to workers that are not connected, to each at most every RECONNECT_S."""
        now = self._clock()
        for worker, entry in self._directory.items():
            if worker not in self._links and now - self._called.get(worker, -inf) >= RECONNECT_S:
                self._called[worker] = now
                self._connect(entry)

    def _connect(self, entry: WorkerAddress) -> None:
        with suppress(PeerGone):  # it died since the controller heard of it; its replacement will be announced
            # a small buffer would wait for a late acknowledgement, 40 ms, once for each time it is full
            channel = self._poller.connect(entry.host, entry.port, f"worker {entry.id}", buffer=DEEP_BUFFER)
            channel.send(Frame(Kind.OPEN, packed(OpenPeer(self._worker))))
            self._links[entry.id] = PeerLink(channel, entry.incarnation)
            self._by_channel[channel] = entry.id

    def met(self) -> bool:
        """Whether all other workers are connected."""
        return all(worker in self._links and self._links[worker].channel.open for worker in self._directory)

    def lost(self, channel: Channel) -> int:
        """A connection is over; returns the worker that it went to."""
        worker = self._by_channel.pop(channel)
        del self._links[worker]
        self._late = [each for each in self._late if each[2] is not channel]
        heapq.heapify(self._late)
        return worker

    def send(self, worker: int, frame: Frame, rows: int = 0) -> bool:
        """Send a frame to a worker; False if there is no connection. If that breaks, the poller will say so."""
        link = self._links.get(worker)
        if link is None:
            return False
        if self._emulate is not None and self._emulated(worker, link, rows):
            heapq.heappush(self._late, (link.arrives, next(self._numbers), link.channel, frame))
            link.late += 1
        else:
            with suppress(ConnectionError):
                link.channel.send(frame)
        return True

    def flush(self, move: int) -> list[Channel]:
        """Ask all workers to acknowledge the frames sent so far; returns the connections."""
        for worker in self._links:
            self.send(worker, Frame(Kind.FLUSH, b"", move))
        return list(self._by_channel)

    def _emulated(self, worker: int, link: PeerLink, rows: int) -> bool:
        """Note when a frame arrives, by the link's rate and delay; False if it arrives at once."""
        assert self._emulate is not None
        pair, now = (self._worker, worker), self._clock()
        link.free_at = max(now, link.free_at) + rows / self._emulate.link_rows(pair)
        link.arrives = max(link.arrives, link.free_at + self._emulate.link_delay_s(pair))
        return link.arrives > now or link.late > 0

    # -- distances

    def probe(self, now: float) -> None:
        """Send a probe over every connection that has had none for PROBE_S."""
        for worker, link in self._links.items():
            if link.channel.open and now - link.probed >= PROBE_S and not link.channel.unsent:
                link.probed = now
                link.probes += 1
                body = LARGE if link.probes % LARGE_EVERY == 0 else b""
                self.send(worker, Frame(Kind.PROBE, body, int(now * 1e6), part=len(body)), len(body) // EMULATED_ROW)

    def answer_probe(self, channel: Channel, sender: int | None, frame: Frame) -> None:
        """Answer a probe, over the connection to its sender; or take the answer to a probe that was sent from here."""
        if not frame.told:
            if sender is not None:
                self.send(sender, Frame(Kind.PROBE, b"", frame.sequence, part=frame.part, told=True))
        elif sender in self._links:
            link = self._links[sender]
            (link.large if frame.part else link.trips).append(max(0.0, self._clock() - frame.sequence * 1e-6))

    @property
    def round_trips(self) -> dict[int, float]:
        """Per worker: seconds of the quickest recent probe, there and back."""
        return {worker: min(link.trips) for worker, link in self._links.items() if link.trips}

    @property
    def bandwidths(self) -> dict[int, float]:
        """Per worker: bytes a second, by the quickest recent probes."""
        probed = {worker: link for worker, link in self._links.items() if link.trips and link.large}
        return {worker: len(LARGE) / max(LEAST_S, min(link.large) - min(link.trips)) for worker, link in probed.items()}

    @property
    def unsent(self) -> int:
        """Bytes queued for other workers that the kernel has not taken yet."""
        return sum(link.channel.unsent for link in self._links.values())

    @property
    def due_in(self) -> float | None:
        """Seconds until the next frame on an emulated link arrives; None if there is none."""
        return max(0.0, self._late[0][0] - self._clock()) if self._late else None

    def tend(self) -> None:
        """Connect again to workers that were lost; send the frames that are due."""
        self._call()
        self.send_late()

    def send_late(self) -> None:
        """Send the frames that arrive by now on emulated links."""
        now = self._clock()
        while self._late and self._late[0][0] <= now:
            _, _, channel, frame = heapq.heappop(self._late)
            self._links[self._by_channel[channel]].late -= 1
            with suppress(ConnectionError):
                channel.send(frame)

    def sleep(self, nap: Callable[[float], None], seconds: float) -> None:
        """Sleep by `nap`, as an emulated worker that is busy, and meanwhile send frames on emulated links in time."""
        while seconds > 0:
            due = self.due_in
            length = seconds if due is None else min(seconds, due)
            nap(length)
            self.send_late()
            seconds -= length
