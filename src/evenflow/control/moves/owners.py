"""Who owns which unit, for the event log: whoever reads it knows the whole routing table, however it came about."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from evenflow.model import RoutingTable
from evenflow.model.entries import UnitOwnersEntry


class OwnersLog:
    """Writes what has changed in the routing table of one region since it was last written.

    The first entry has `even`, the workers that take units in turn; where units are not spread so, all `owners`. Later
    ones have `units` and `owners`, one for each of them.
    """

    def __init__(self, region: str) -> None:
        self._region = region
        self._version = -1
        self._told: npt.NDArray[np.int32] | None = None

    def note(self, time: float, table: RoutingTable, live: Collection[int]) -> Iterator[UnitOwnersEntry]:
        """The entry, if anything has changed."""
        if table.version == self._version or not live:
            return
        self._version, before, self._told = table.version, self._told, table.owners
        entry = UnitOwnersEntry(time=time, region=self._region, version=table.version)
        if before is None:
            even = np.array_equal(RoutingTable.even(table.units, sorted(live)).owners, table.owners)
            yield replace(entry, even=sorted(live)) if even else replace(entry, owners=table.owners.tolist())
            return
        units = np.flatnonzero(before != table.owners)
        if len(units):
            yield replace(entry, units=units.tolist(), owners=table.owners[units].tolist())
