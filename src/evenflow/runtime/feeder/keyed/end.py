"""The end of a keyed task: with a store, its rows must be durable, and noted as such, before Spark may go on."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.model.messages import FeederEnded, RowsDurable
from evenflow.runtime.feeder.connections import Connections
from evenflow.runtime.feeder.link import Link
from evenflow.runtime.wire.frames import Frame, Kind


class KeyedEnd:
    """The messages of workers and controller so far about the end of one task."""

    def __init__(self, connections: Connections, clock: Callable[[], float]) -> None:
        self._committed = False
        """Whether the controller has noted that the task's rows are durable."""
        self._connections = connections
        self._clock = clock
        self._awaited: set[int] = set()
        """Workers that have not said yet that all is durable."""
        self._segments: dict[str, int] = {}
        """How many segments of its log each worker has written."""
        self._left: dict[str, int] = {}
        """If an attempt is repeated: how many logged rows have not come again to each worker."""

    def reach(self, attempt: int, stored: bool) -> None:
        """Send END to the workers, wait until rows are durable, then until committed.

        With a store, a task without rows, too, may be the last to end of its batch.
        """
        began = self._clock()
        for link in list(self._connections.links.values()) if attempt else ():
            self._awaited.add(link.worker)
            self._connections.send(link, Frame(Kind.END))
        while self._awaited:
            self._connections.wait()
        self._connections.tell(FeederEnded(self._segments, self._clock() - began, self._left))
        while stored and not self._committed:
            self._connections.wait()

    def commit(self) -> None:
        """The controller has noted that the task's rows are durable."""
        self._committed = True

    def awaits(self, link: Link) -> bool:
        """Whether a worker has been asked, and has not answered."""
        return link.worker in self._awaited

    def durable(self, link: Link, answer: RowsDurable) -> None:
        """A worker has made all rows durable that it had from here."""
        self._awaited.discard(link.worker)
        if answer.segments:
            self._segments[answer.writer] = answer.segments
        if answer.left is not None:
            self._left[answer.writer] = answer.left
