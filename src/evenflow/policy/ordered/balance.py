"""What every balance of an ordered region is: a pure decision, and how its splitter treats a full connection."""

from __future__ import annotations

from typing import ClassVar, Protocol

from evenflow.model import RESOLUTION, SetWeights, Snapshot
from evenflow.model.routing import Splitting


class Balance(Protocol):
    """Decides how the frames of one region are shared among its workers.

    `decide` is called once a sample period with the region's snapshot, and whenever a worker joins or leaves. It reads
    no clock and does no I/O; what it learns it keeps in its own fields, so that the simulator runs the same code.
    """

    name: ClassVar[str]
    splitting: ClassVar[Splitting]

    def decide(self, snapshot: Snapshot) -> list[SetWeights]:
        """Weights to set now; an empty list leaves things as they are."""
        ...


def even_weights(workers: list[int]) -> dict[int, int]:
    """RESOLUTION shared evenly; what does not divide goes to the first workers, one each."""
    share, rest = divmod(RESOLUTION, len(workers))
    return {worker: share + (place < rest) for place, worker in enumerate(workers)}
