"""What still holds of the entries of an event log: each new piece begins with it, so that it can be read alone.

These are entries as they were written, of each kind the latest of its worker or region: who the workers are, which
regions there are, their weights or routing tables, and their last samples, whose counters go on from there.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from evenflow.model.entries import (
    ClusterStartedEntry,
    EventEntry,
    ExecutorsEntry,
    GraphSampleEntry,
    KeyedSampleEntry,
    LogContinuedEntry,
    MemorySetEntry,
    QosEntry,
    RegionOpenedEntry,
    SampleEntry,
    UnitOwnersEntry,
    UnitRowsEntry,
    WeightsEntry,
    WorkerJoinedEntry,
    WorkerLostEntry,
    WorkerStoppedEntry,
    as_dict,
)

OF_REGION = ("region",)
OF_WORKER = ("worker",)
BY: dict[type[EventEntry], tuple[str, ...]] = {
    ClusterStartedEntry: (),
    ExecutorsEntry: (),
    WorkerJoinedEntry: OF_WORKER,
    WorkerLostEntry: OF_WORKER,
    WorkerStoppedEntry: OF_WORKER,
    MemorySetEntry: OF_WORKER,
    RegionOpenedEntry: OF_REGION,
    UnitOwnersEntry: OF_REGION,
    WeightsEntry: OF_REGION,
    QosEntry: OF_REGION,
    SampleEntry: OF_REGION,
    KeyedSampleEntry: OF_REGION,
    GraphSampleEntry: OF_REGION,
    UnitRowsEntry: OF_REGION,
}
"""By kind of entry, the fields that say what it is about: a newer one about the same takes its place."""
MOST = 4096
"""Entries that are kept, at most: the regions told of least recently are forgotten. What is of no region stays."""


class Standing:
    """The entries that still hold, oldest first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], EventEntry] = {}
        self._regions: dict[object, None] = {}
        """The regions that have entries, the one told of least recently first."""

    def add(self, entry: EventEntry) -> None:
        """An entry has been written."""
        fields = BY.get(type(entry))
        if fields is None:
            return
        about = (type(entry), *(getattr(entry, name) for name in fields))
        if isinstance(entry, UnitOwnersEntry):
            entry = self._whole(entry)
        self._kept.pop(about, None)  # so that the newest are last
        self._kept[about] = entry
        if fields == OF_REGION:
            self._regions.pop(about[1], None)
            self._regions[about[1]] = None
        while len(self._kept) > MOST and len(self._regions) > 1:
            self._forget(next(iter(self._regions)))

    def _forget(self, region: object) -> None:
        """Drop all entries of a region, since some of them without the others would mislead."""
        del self._regions[region]
        for kind, fields in BY.items():
            if fields == OF_REGION:
                self._kept.pop((kind, region), None)

    def _whole(self, entry: UnitOwnersEntry) -> UnitOwnersEntry:
        """The whole routing table, where an entry has only what has changed in it and the table before is known."""
        units, given = entry.units, entry.owners or []
        if units is UNSET:
            return entry
        owners = self._owners(entry.region)
        if len(units) != len(given) or not all(0 <= unit < len(owners) for unit in units):
            return entry
        for unit, owner in zip(units, given, strict=True):
            owners[unit] = owner
        return replace(entry, units=UNSET, owners=owners)

    def _owners(self, region: str) -> list[int]:
        """A region's routing table; empty if it is not known, or only in part."""
        known = self._kept.get((UnitOwnersEntry, region))
        if not isinstance(known, UnitOwnersEntry) or known.units is not UNSET:
            return []
        if known.even:  # workers take units in turn
            opened = self._kept.get((RegionOpenedEntry, region))
            units = opened.units if isinstance(opened, RegionOpenedEntry) else 0
            return [known.even[unit % len(known.even)] for unit in range(units or 0)]
        return list(known.owners or ())

    def entry(self, time: float, at: float) -> LogContinuedEntry:
        """The entry that a new piece begins with."""
        return LogContinuedEntry(time=time, at=at, standing=[as_dict(entry) for entry in self._kept.values()])
