"""Connections to the other workers, over which rows of graphs go; with emulated links, as late as these would have it.

Each worker makes its own connections, over which it sends; what others send comes over theirs. So between two workers
there are two connections, each for one direction, but for the answers to flushes.
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
"""How often a worker is called again that the controller takes to be live."""
TRIPS = 10
"""Probes that are remembered: the quickest counts, since a busy worker answers late."""
LARGE = bytes(128 * 1024)
"""What a large probe carries there: the time that it takes longer tells the bandwidth."""
LARGE_EVERY = 4
"""One of so many probes is large."""
LEAST_S = 1e-4
"""A large probe that takes no longer than a small one by more than this says only that the bandwidth is large."""
EMULATED_ROW = 128
"""Bytes of a probe that count as a row on an emulated link."""


@dataclass(slots=True)
class PeerLink:
    """The connection to one worker."""

    channel: Channel
    incarnation: int
    free_at: float = 0.0
    """When the emulated link has sent all that went before."""
    arrives: float = 0.0
    """When the last frame on the emulated link arrives: none arrives before those that went before it."""
    late: int = 0
    """Frames on the emulated link."""
    probed: float = -inf
    """When it was last probed."""
    trips: deque[float] = field(default_factory=lambda: deque(maxlen=TRIPS))
    """Seconds that the latest probes took, there and back."""
    large: deque[float] = field(default_factory=lambda: deque(maxlen=TRIPS))
    """The same of large probes."""
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
        """The other workers, as the controller had them last."""
        self._called: dict[int, float] = {}
        """When workers were called last."""
        self._late: list[tuple[float, int, Channel, Frame]] = []
        """Frames on emulated links: when they arrive, a number that keeps them in order, where they go."""
        self._numbers = count()

    def __contains__(self, channel: Channel) -> bool:
        return channel in self._by_channel

    def meet(self, workers: Iterable[WorkerAddress]) -> list[Channel]:
        """Connect to the workers that there are now; the connections to others, which are over."""
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
        """Connect to workers that are not connected, each now and then."""
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
        """A connection is over; the worker that it went to."""
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
        """Ask all workers whether what was sent is there; the connections."""
        for worker in self._links:
            self.send(worker, Frame(Kind.FLUSH, b"", move))
        return list(self._by_channel)

    def _emulated(self, worker: int, link: PeerLink, rows: int) -> bool:
        """Note when a frame arrives: behind those before it, and after the link's delay; False if that is at once."""
        assert self._emulate is not None
        pair, now = (self._worker, worker), self._clock()
        link.free_at = max(now, link.free_at) + rows / self._emulate.link_rows(pair)
        link.arrives = max(link.arrives, link.free_at + self._emulate.link_delay_s(pair))
        return link.arrives > now or link.late > 0

    # -- how long the ways are

    def probe(self, now: float) -> None:
        """Send a probe over every connection that has had none for a while."""
        for worker, link in self._links.items():
            if link.channel.open and now - link.probed >= PROBE_S and not link.channel.unsent:
                link.probed = now
                link.probes += 1
                body = LARGE if link.probes % LARGE_EVERY == 0 else b""
                self.send(worker, Frame(Kind.PROBE, body, int(now * 1e6), part=len(body)), len(body) // EMULATED_ROW)

    def answer_probe(self, channel: Channel, sender: int | None, frame: Frame) -> None:
        """A probe has come, which is answered over the connection to its sender; or the answer to one of ours."""
        if not frame.told:
            if sender is not None:
                self.send(sender, Frame(Kind.PROBE, b"", frame.sequence, part=frame.part, told=True))
        elif sender in self._links:
            link = self._links[sender]
            (link.large if frame.part else link.trips).append(max(0.0, self._clock() - frame.sequence * 1e-6))

    @property
    def round_trips(self) -> dict[int, float]:
        """By worker, seconds there and back, at best lately."""
        return {worker: min(link.trips) for worker, link in self._links.items() if link.trips}

    @property
    def bandwidths(self) -> dict[int, float]:
        """By worker, bytes a second that go there, at best lately."""
        probed = {worker: link for worker, link in self._links.items() if link.trips and link.large}
        return {worker: len(LARGE) / max(LEAST_S, min(link.large) - min(link.trips)) for worker, link in probed.items()}

    @property
    def unsent(self) -> int:
        """Bytes queued here that the kernel has not taken yet."""
        return sum(link.channel.unsent for link in self._links.values())

    @property
    def due_in(self) -> float | None:
        """Seconds until the next frame on an emulated link arrives; None if there is none."""
        return max(0.0, self._late[0][0] - self._clock()) if self._late else None

    def tend(self) -> None:
        """Call workers again that were lost; send the frames that are due."""
        self._call()
        self.send_late()

    def send_late(self) -> None:
        """Send the frames whose time on emulated links is over."""
        now = self._clock()
        while self._late and self._late[0][0] <= now:
            _, _, channel, frame = heapq.heappop(self._late)
            self._links[self._by_channel[channel]].late -= 1
            with suppress(ConnectionError):
                channel.send(frame)

    def sleep(self, nap: Callable[[float], None], seconds: float) -> None:
        """Sleep by `nap` as an emulated worker that is busy: emulated links are not, their frames arrive in time."""
        while seconds > 0:
            due = self.due_in
            length = seconds if due is None else min(seconds, due)
            nap(length)
            self.send_late()
            seconds -= length
