"""What still holds of the entries of an event log: each new piece begins with it, so that it can be read alone.

These are entries as they were written, of each kind the latest of its worker or region: who the workers are, which
regions there are, their weights or routing tables, and their last samples, whose counters go on from there.
"""

from __future__ import annotations

from typing import Any

LoggedEvent = dict[str, Any]
BY = {
    "cluster-started": (),
    "executors": (),
    "worker-joined": ("worker",),
    "worker-lost": ("worker",),
    "worker-stopped": ("worker",),
    "memory-set": ("worker",),
    "region-opened": ("region",),
    "unit-owners": ("region",),
    "weights": ("region",),
    "qos": ("region",),
    "sample": ("region",),
    "keyed-sample": ("region",),
    "graph-sample": ("region",),
    "unit-rows": ("region",),
}
"""By kind of entry, the fields that say what it is about: a newer one about the same takes its place."""
MOST = 4096
"""Entries that are kept, at most: the oldest are forgotten, such as those of regions long out of use."""
CONTINUED = "log-continued"
"""The kind of the entry that a piece begins with; its field `standing` has the entries."""


class Standing:
    """The entries that still hold, oldest first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], LoggedEvent] = {}

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
        if len(self._kept) > MOST:
            del self._kept[next(iter(self._kept))]

    def _whole(self, entry: LoggedEvent) -> LoggedEvent:
        """The whole routing table, where an entry has only what has changed in it."""
        known = self._kept.get(("unit-owners", entry["region"]))
        if "units" not in entry or known is None:
            return entry
        owners = known.get("owners")
        if owners is None:  # workers take units in turn
            opened, turn = self._kept.get(("region-opened", entry["region"]), {}), known["even"]
            owners = [turn[unit % len(turn)] for unit in range(opened.get("units", 0))]
        owners = list(owners)
        for unit, owner in zip(entry["units"], entry["owners"], strict=True):
            owners[unit] = owner
        whole = {name: value for name, value in entry.items() if name != "units"}
        return {**whole, "owners": owners}

    def entry(self, time: float, at: float) -> LoggedEvent:
        """The entry that a new piece begins with."""
        return {"time": time, "at": at, "event": CONTINUED, "standing": list(self._kept.values())}
