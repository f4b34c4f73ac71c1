"""A feeder's connections to the controller and to workers: how long they may be silent, and their figures.

A feeder runs inside the user's own Spark task, and its connections live as long as that. They split and merge nothing:
what they hear goes to a `Listener`, which is the feeder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, Required, TypedDict

import pyarrow as pa

from evenflow.errors import ClusterStopped, EvenflowError, FunctionError, RegionStalled, described
from evenflow.model.latency import Latencies
from evenflow.model.messages import (
    MOST_ERROR,
    FeederFailed,
    FeederHello,
    FeederMessage,
    FeederRefused,
    FeederReport,
    Opening,
    ToFeeder,
    WorkerAddress,
)
from evenflow.runtime.feeder.link import Link, Meter
from evenflow.runtime.wire.channel import Channel, PeerGone
from evenflow.runtime.wire.frames import Frame, Kind
from evenflow.runtime.wire.messages import TO_FEEDER, control, packed
from evenflow.runtime.wire.poller import Lost, Opened, Poller, Received
from evenflow.runtime.wire.settings import Settings

LEAVE_S = 5.0
"""How long a feeder that has nothing else to do waits for the controller to take its last message."""
RECONNECT_S = 0.5
"""How often workers are called again that the controller takes to be live."""


class Listener(Protocol):
    """The methods of a feeder that its connections call when they hear something."""

    def told(self, message: ToFeeder) -> None:
        """The controller sent a message about the feeder's region."""
        ...

    def opened(self, link: Link) -> None:
        """The handshake with a worker is done."""
        ...

    def answered(self, link: Link, frame: Frame) -> None:
        """A worker sent a frame."""
        ...

    def lost(self, link: Link, reason: str) -> None:
        """The connection to a worker is over; its link is not among `Connections.links` any more."""
        ...

    def polled(self, now: float) -> None:
        """All frames of one poll have been handled: do what they allow."""
        ...


class EvaluationIdentity(TypedDict, total=False):
    """Which evaluation a feeder belongs to, in the words of `FeederHello`."""

    query: Required[str]
    epoch: Required[int]
    stage: Required[str]
    own_stage: str
    run: str
    kinds: int
    mark: str
    execution: str


class Identity(EvaluationIdentity, total=False):
    """The task that a feeder belongs to, as its `FeederHello` names it."""

    partition: Required[int]
    attempt: Required[int]
    task: int


class FeederFigures(NamedTuple):
    """A feeder's own figures since its last report."""

    rows_out: int
    overhead: float | None
    resent: int = 0
    rerouted: int = 0
    rows_in: int = 0
    latencies: Latencies = Latencies()
    shed: int = 0


class Connections:
    """The connections of one task: one to the controller, one to each worker."""

    def __init__(
        self, listener: Listener, settings: Settings, region: str, poller: Poller, clock: Callable[[], float]
    ) -> None:
        self.links: dict[int, Link] = {}
        """By worker."""
        self.meter = Meter()
        self._listener = listener
        self._settings = settings
        self._region = region
        self._poller = poller
        self._clock = clock
        self._controller: Channel | None = None
        self._by_channel: dict[Channel, Link] = {}
        self._directory: dict[int, WorkerAddress] = {}
        """The workers that the controller takes to be live."""
        self._greeting: tuple[Frame, ...] = ()
        self._reconnect_at = 0.0
        self._progress = self._reported = clock()
        """When anything was last heard of the workers; when the controller was last sent a report."""

    @property
    def registered(self) -> bool:
        """Whether the controller has been called, and the handshake is done."""
        return self._controller is not None and self._controller.open

    @property
    def unsent(self) -> bool:
        """Whether some frame has not gone to its worker yet."""
        return any(link.unsent for link in self.links.values())

    def poll(self, timeout: float) -> None:
        """Tell the listener what happens within `timeout` seconds; returns as soon as anything has."""
        for happening in self._poller.poll(timeout):
            match happening:
                case Received(channel=channel, frame=frame):
                    link = self._by_channel.get(channel)
                    if link is not None:
                        self._progress = self._clock()
                        self._listener.answered(link, frame)
                    elif channel is self._controller:
                        self._hear(frame)
                case Lost(channel=channel, reason=reason):
                    if channel is self._controller:
                        raise self._cluster_gone(reason)
                    if channel in self._by_channel:
                        self.drop(self._by_channel[channel], reason)
                case Opened(channel=channel):
                    self._progress = self._clock()
                    if channel in self._by_channel:
                        self._listener.opened(self._by_channel[channel])
        self._listener.polled(self._clock())

    def wait(self, most: float = 1.0) -> None:
        """Wait for something to happen, for a period or `most` seconds.

        Raises `RegionStalled` if nothing has been heard of the workers for `stall_timeout` seconds.
        """
        self.poll(min(self._settings.period, most))
        idle = self._clock() - self._progress
        if idle > self._settings.stall_timeout:
            raise self._stalled(idle)

    def _stalled(self, idle: float) -> RegionStalled:
        stuck = [link for link in self.links.values() if link.under_way or not link.open]
        what = "; ".join(f"{link} has {len(link.under_way)} frames" for link in stuck) or (
            f"workers {sorted(self._directory)} do not answer" if self._directory else "no worker is live"
        )
        return RegionStalled(
            f"region {self._region}: nothing heard for {idle:.0f} s: {what}. If the function may take this long on a "
            f"frame, give Cluster a stall_timeout above {self._settings.stall_timeout:g} s"
        )

    def progressed(self) -> None:
        """Note that the workers are known to be at work."""
        self._progress = self._clock()

    def pause(self) -> None:
        """The task turns to Spark: no connection is to blame for time from now on."""
        self.meter.pause(self._clock())
        for link in self.links.values():
            link.count()

    def resume(self) -> None:
        """The task is back from Spark."""
        self._progress = now = self._clock()
        self.meter.resume(now)
        for link in self.links.values():
            link.count(away=True)

    def close(self) -> None:
        """Close every connection."""
        self._poller.close()

    # -- the controller

    def register(self, identity: Identity) -> None:
        """Call the controller and say which task this is."""
        self._reported = self._progress = self._clock()
        try:
            self._controller = self._poller.connect(self._settings.host, self._settings.port, "the controller")
        except PeerGone as error:
            raise self._cluster_gone(str(error)) from None
        self._controller.send(control(FeederHello(self._region, **identity)))

    def tell(self, message: FeederMessage) -> None:
        """Send a message to the controller."""
        assert self._controller is not None
        try:
            self._controller.send(control(message))
        except PeerGone as error:
            self.hear()
            raise self._cluster_gone(str(error)) from None

    def hear(self) -> None:
        """Tell the listener what the controller has said already: it knows why a worker is gone."""
        assert self._controller is not None
        try:
            for frame in self._controller.receive(most=8):
                self._hear(frame)
        except PeerGone as error:
            raise self._cluster_gone(str(error)) from None

    def report_due(self, now: float) -> bool:
        """Whether a period has passed since the last report."""
        return now - self._reported >= self._settings.period

    def report(self, now: float, news: FeederFigures) -> None:
        """Send the controller the feeder's figures, and those of each connection since the last report."""
        if self._controller is None:
            return
        self.meter.charge(now)
        connections = {link.worker: link.news() for link in self.links.values()}
        feeding_s, self._reported = now - self._reported, now
        self.tell(
            FeederReport(
                feeding_s=feeding_s,
                rows_out=news.rows_out,
                connections=connections,
                resent=news.resent,
                rerouted=news.rerouted,
                overhead=news.overhead,
                rows_in=news.rows_in,
                latencies=news.latencies,
                shed=news.shed,
            )
        )

    def leave(self, news: FeederFigures | None) -> None:
        """Send a last report, if any, and wait until all has gone to the controller, for LEAVE_S at most."""
        if news is not None:
            self.report(self._clock(), news)
        deadline = self._clock() + LEAVE_S
        controller = self._controller
        while controller is not None and (controller.unsent or not controller.open) and self._clock() < deadline:
            self.poll(0.1)

    def fail(self, error: Exception, news: FeederFigures | None) -> None:
        """Tell the controller why the task fails, and leave."""
        reason = str(error) if isinstance(error, EvenflowError) else described(error)
        self.tell(FeederFailed(reason[:MOST_ERROR], error.worker if isinstance(error, FunctionError) else None))
        self.leave(news)

    def _hear(self, frame: Frame) -> None:
        message = TO_FEEDER.read(frame)
        if isinstance(message, FeederRefused):
            raise self._cluster_gone(message.reason)
        self._listener.told(message)

    def _cluster_gone(self, reason: str) -> EvenflowError:
        return ClusterStopped(
            f"cluster {self._settings.cluster} does not serve region {self._region} any more: {reason}. "
            "Start the query again on a running Cluster"
        )

    # -- the workers

    def meet(self, workers: Iterable[WorkerAddress], opening: Opening, schema: pa.Schema) -> None:
        """Connect to workers not known yet, and open the operator there for rows of `schema`.

        Workers that left are noticed by their own connections.
        """
        self._directory = {entry.id: entry for entry in workers}
        self._greeting = (
            Frame(Kind.OPEN, packed(opening)),
            Frame(Kind.SCHEMA, memoryview(schema.serialize())),
        )
        for entry in self._directory.values():
            known = self.links.get(entry.id)
            if known is not None and known.incarnation == entry.incarnation:
                continue
            if known is not None:
                self.drop(known, "it was replaced")
            self._connect(entry)

    def reconnect(self, now: float) -> bool:
        """Call workers again that were lost but that the controller takes to be live; whether any was called."""
        if now < self._reconnect_at or self.links.keys() >= self._directory.keys():
            return False
        self._reconnect_at = now + RECONNECT_S
        for worker, entry in self._directory.items():
            if worker not in self.links:
                self._connect(entry)
        return True

    def send(self, link: Link, frame: Frame) -> None:
        """Send a frame to a worker; if its connection is over, drop it."""
        try:
            link.send(frame)
        except PeerGone as error:
            self.drop(link, str(error))

    def drop(self, link: Link, reason: str) -> None:
        """Close the connection to a worker, and tell the listener."""
        self._poller.drop(link.channel)
        del self._by_channel[link.channel], self.links[link.worker]
        self._listener.lost(link, reason)

    def _connect(self, entry: WorkerAddress) -> None:
        try:
            channel = self._poller.connect(entry.host, entry.port, f"worker {entry.id}", self._settings.stall_timeout)
        except PeerGone:
            return  # it died since the controller heard of it; its replacement will be announced
        for frame in self._greeting:
            channel.send(frame)
        link = Link(entry.id, entry.incarnation, entry.pid, channel, self._clock)
        self.links[link.worker] = self._by_channel[channel] = link
