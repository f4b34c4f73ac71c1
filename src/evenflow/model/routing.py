"""The routing table of a keyed operator: which worker owns which unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # numpy weighs 20 MB, and every process imports this package
    import numpy as np
    import numpy.typing as npt

    Owners = npt.NDArray[np.int32]


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
