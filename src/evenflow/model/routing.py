"""How rows find their worker: the ways to split an ordered region, and the routing table of a keyed operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # numpy weighs 20 MB, and every process imports this package
    import numpy as np
    import numpy.typing as npt

    Owners = npt.NDArray[np.int32]

MOST_UNITS = 1_000_000
"""The most units of one keyed operator."""
FIRST_SHARE = 1 << 20
"""The first partition number of the second stage of an evaluation, that of the ticks."""
Splitting = Literal["block", "reroute", "credits"]
"""What the splitter does when the next connection in turn is full.

`block`: it waits, and measures how long (ordered-regions §3.1). `reroute`: it tries the others first (§4.4).
`credits`: it never offers a frame to a connection whose outstanding frames keep it busy already.
"""


@dataclass(frozen=True, slots=True, eq=False)
class RoutingTable:
    """The owner of each unit. Never changed: a move makes a new table with the next version."""

    version: int
    owners: Owners

    @classmethod
    def even(cls, units: int, workers: Sequence[int]) -> RoutingTable:
        """A table in which workers take units in turn, as in Exchange: unit u goes to worker u mod N."""
        import numpy as np

        return cls(0, _frozen(np.asarray(sorted(workers), np.int32)[np.arange(units) % len(workers)]))

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.owners)

    def moved(self, units: Sequence[int], worker: int) -> RoutingTable:
        """The table after `units` have gone to `worker`."""
        owners = self.owners.copy()
        owners[list(units)] = worker
        return RoutingTable(self.version + 1, _frozen(owners))

    def units_of(self, worker: int) -> npt.NDArray[np.intp]:
        """The units that a worker owns."""
        import numpy as np

        return np.flatnonzero(self.owners == worker)


def _frozen(owners: Owners) -> Owners:
    owners.setflags(write=False)
    return owners
