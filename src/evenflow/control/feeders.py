"""The tasks that feed regions: each task's region, and its messages, which are passed on to that region."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from msgspec import UNSET

from evenflow.control.events import (
    CancelInstruction,
    FeederJoinedEvent,
    Instruction,
    Peer,
    PeerLeftEvent,
    SendInstruction,
)
from evenflow.control.regions.ordered import refused
from evenflow.control.regions.region import Region
from evenflow.model.entries import FeederFailedEntry, FeederJoinedEntry, FeederLeftEntry
from evenflow.model.messages import (
    MOST_ERROR,
    FeederBegan,
    FeederEnded,
    FeederFailed,
    FeederMessage,
    FeederRefused,
)

STOPPING = "the cluster is stopping"


class Feeders:
    """All tasks that have joined and not left, of all `regions`."""

    def __init__(self, regions: Mapping[str, Region]) -> None:
        self._regions = regions
        self._joined: dict[Peer, FeederJoinedEvent] = {}
        self._partitions: dict[Peer, int] = {}
        """By task that has begun, the partition that it named when it joined; its rows may be of another."""
        self._ended: set[Peer] = set()
        """Tasks that are through with their rows."""
        self.failed: dict[str, str] = {}
        """By region that was closed because of an error, the reason that its tasks are given."""
        self._stopping = False

    @property
    def peers(self) -> set[Peer]:
        """All tasks that have joined and not left, also if they are through with their rows."""
        return self._joined.keys() | self._ended

    def run_of(self, peer: Peer) -> str:
        """The run of the query of a feeder that has not ended; empty for any other peer."""
        feeder = self._joined.get(peer)
        return feeder.run if feeder is not None and peer not in self._ended else ""

    def region_of(self, peer: Peer) -> str:
        """The region of a feeder; empty for any other peer."""
        feeder = self._joined.get(peer)
        return feeder.region if feeder is not None else ""

    def dismiss(self, region: str) -> list[FeederJoinedEvent]:
        """Forget the tasks of a region that is closed, and return them; their messages are ignored from now on."""
        gone = [feeder for feeder in self._joined.values() if feeder.region == region]
        for feeder in gone:
            del self._joined[feeder.peer]
            self._partitions.pop(feeder.peer, None)
            self._ended.discard(feeder.peer)
        return gone

    def awaits(self, event: FeederJoinedEvent) -> bool:
        """Whether there is a region for a task that wants to join, and the cluster goes on."""
        return event.region in self._regions and not self._stopping

    def join(self, event: FeederJoinedEvent) -> Iterator[Instruction]:
        """A task wants to join its region."""
        if not self.awaits(event):
            known = event.region in self._regions
            gone = self.failed.get(event.region) or f"this cluster has no region {event.region} (any more)"
            why = STOPPING if known else gone
            yield from refused(event, why, FeederRefused(why))
            return
        region = self._regions[event.region]
        self._joined[event.peer] = event  # before it is registered: if that breaks the region, this task is told, too
        why = region.register(event)
        if why:
            del self._joined[event.peer]
            yield from refused(event, why)
            if isinstance(event.saved, str) and event.stage:  # a retry would fail as well, and hide the reason
                yield CancelInstruction(event.own_stage or event.stage, f"region {event.region}: {why}")
            return
        yield FeederJoinedEntry(
            time=event.time,
            region=event.region,
            partition=event.partition,
            attempt=event.attempt,
            query=event.query,
            epoch=event.epoch,
        )
        yield from region.join(event)

    def hear(self, time: float, peer: Peer, message: FeederMessage) -> Iterable[Instruction]:
        """Handle a message of a task; it is ignored if the task is not known or its region is gone."""
        feeder = self._joined.get(peer)
        region = self._regions.get(feeder.region) if feeder is not None else None
        if feeder is None or region is None:
            return ()
        region.check(message)
        if isinstance(message, FeederBegan):
            self._partitions.setdefault(peer, feeder.partition)
            feeder = self._joined[peer] = replace(feeder, partition=message.partition)
        elif isinstance(message, FeederEnded):
            self._ended.add(peer)
        elif isinstance(message, FeederFailed):
            return self._failed(time, feeder, region, message)
        return region.hear(time, feeder, message)

    def _failed(
        self, time: float, feeder: FeederJoinedEvent, region: Region, message: FeederFailed
    ) -> Iterator[Instruction]:
        """A task fails. If the cluster is stopping, only a failure of the user's function on a worker is recorded."""
        if not self._stopping or message.worker is not None:
            yield FeederFailedEntry(
                time=time,
                region=feeder.region,
                partition=self._partitions.get(feeder.peer, feeder.partition),
                attempt=feeder.attempt,
                worker=UNSET if message.worker is None else message.worker,
                error=message.reason[:MOST_ERROR],
            )
        if not self._stopping:
            yield from region.hear(time, feeder, message)

    def leave(self, event: PeerLeftEvent) -> Iterator[Instruction]:
        """A peer has left; it may have been a task."""
        feeder, ended = self._joined.pop(event.peer, None), event.peer in self._ended
        self._ended.discard(event.peer)
        if feeder is None:
            return
        partition = self._partitions.pop(event.peer, feeder.partition)
        yield FeederLeftEntry(time=event.time, region=feeder.region, partition=partition, attempt=feeder.attempt)
        region = self._regions.get(feeder.region)
        if region is not None and self._stopping:
            yield from region.note_rest(event.time)
        elif region is not None:
            yield from region.leave(feeder, event, ended)

    def stop(self) -> Iterator[Instruction]:
        """Tell all tasks that the cluster is stopping."""
        self._stopping = True
        for peer in self._joined:
            yield SendInstruction(peer, FeederRefused(STOPPING))
