"""How rows find their worker: the ways of splitting an ordered region, and the routing table of a keyed operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # numpy weighs 20 MB, and every process imports this package
    import numpy as np
    import numpy.typing as npt

    Owners = npt.NDArray[np.int32]

MOST_UNITS = 1_000_000
"""Of one keyed operator."""
FIRST_SHARE = 1 << 20
"""Partitions of the second stage of an evaluation, that of the ticks, are numbered from here on."""
Splitting = Literal["block", "reroute", "credits"]
"""What the splitter does when the next connection in turn is full.

`block`: waits for it, and meters the wait (ordered-regions §3.1). `reroute`: tries the others first (§4.4).
`credits`: never offers a frame to a connection whose outstanding frames already keep it busy.
"""


@dataclass(frozen=True, slots=True, eq=False)
class RoutingTable:
    """Owners by unit. Never changed: a move gives a new table with the next version."""

    version: int
    owners: Owners

    @classmethod
    def even(cls, units: int, workers: Sequence[int]) -> RoutingTable:
        """Units dealt out in turn, as Exchange would: unit u to worker u mod N."""
        import numpy as np

        return cls(0, _frozen(np.asarray(sorted(workers), np.int32)[np.arange(units) % len(workers)]))

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self.owners)

    def moved(self, units: Sequence[int], worker: int) -> RoutingTable:
        """The table after `units` have gone to `worker`."""
        owners = self.owners.copy()
        owners[list(units)] = worker
        return RoutingTable(self.version + 1, _frozen(owners))

    def units_of(self, worker: int) -> npt.NDArray[np.intp]:
        """The units a worker owns."""
        import numpy as np

        return np.flatnonzero(self.owners == worker)


def _frozen(owners: Owners) -> Owners:
    owners.setflags(write=False)
    return owners
