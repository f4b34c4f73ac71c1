"""What still holds of the entries of an event log: each new piece begins with it, so that it can be read alone.

These are entries as they were written, of each kind the latest of its worker or region: who the workers are, which
regions there are, their weights or routing tables, and their last samples, whose counters go on from there.
"""

from __future__ import annotations

from typing import Any

LoggedEvent = dict[str, Any]
OF_REGION = ("region",)
BY = {
    "cluster-started": (),
    "executors": (),
    "worker-joined": ("worker",),
    "worker-lost": ("worker",),
    "worker-stopped": ("worker",),
    "memory-set": ("worker",),
    "region-opened": OF_REGION,
    "unit-owners": OF_REGION,
    "weights": OF_REGION,
    "qos": OF_REGION,
    "sample": OF_REGION,
    "keyed-sample": OF_REGION,
    "graph-sample": OF_REGION,
    "unit-rows": OF_REGION,
}
"""By kind of entry, the fields that say what it is about: a newer one about the same takes its place."""
MOST = 4096
"""Entries that are kept, at most: the regions told of least recently are forgotten. What is of no region stays."""
CONTINUED = "log-continued"
"""The kind of the entry that a piece begins with; its field `standing` has the entries."""


class Standing:
    """The entries that still hold, oldest first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], LoggedEvent] = {}
        self._regions: dict[Any, None] = {}
        """The regions that have entries, the one told of least recently first."""

    def add(self, entry: LoggedEvent) -> None:
        """An entry has been written."""
        kind = entry["event"]
        fields = BY.get(kind)
        if fields is None:
            return
        about = (kind, *(entry.get(name) for name in fields))
        if kind == "unit-owners":
            entry = self._whole(entry)
        self._kept.pop(about, None)  # so that the newest are last
        self._kept[about] = entry
        if fields == OF_REGION:
            self._regions.pop(about[1], None)
            self._regions[about[1]] = None
        while len(self._kept) > MOST and len(self._regions) > 1:
            self._forget(next(iter(self._regions)))

    def _forget(self, region: Any) -> None:
        """Drop all entries of a region, since some of them without the others would mislead."""
        del self._regions[region]
        for kind, fields in BY.items():
            if fields == OF_REGION:
                self._kept.pop((kind, region), None)

    def _whole(self, entry: LoggedEvent) -> LoggedEvent:
        """The whole routing table, where an entry has only what has changed in it and the table before is known."""
        units, given = entry.get("units"), entry.get("owners", ())
        if units is None:
            return entry
        owners = self._owners(entry.get("region"))
        if len(units) != len(given) or not all(0 <= unit < len(owners) for unit in units):
            return entry
        for unit, owner in zip(units, given, strict=True):
            owners[unit] = owner
        whole = {name: value for name, value in entry.items() if name != "units"}
        return {**whole, "owners": owners}

    def _owners(self, region: Any) -> list[Any]:
        """A region's routing table; empty if it is not known, or only in part."""
        known = self._kept.get(("unit-owners", region), {})
        if "units" in known:
            return []
        turn = known.get("even")
        if turn:  # workers take units in turn
            units = self._kept.get(("region-opened", region), {}).get("units", 0)
            return [turn[unit % len(turn)] for unit in range(units)]
        return list(known.get("owners", ()))

    def entry(self, time: float, at: float) -> LoggedEvent:
        """The entry that a new piece begins with."""
        return {"time": time, "at": at, "event": CONTINUED, "standing": list(self._kept.values())}
