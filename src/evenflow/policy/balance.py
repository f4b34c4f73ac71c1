"""What every balance of an ordered region is: a pure decision, and how its splitter treats a full connection."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol

from evenflow.model import RESOLUTION, SetWeights, Snapshot

Splitting = Literal["block", "reroute", "credits"]
"""What the splitter does when the next connection in turn is full.

`block`: waits for it, and meters the wait (ordered-regions §3.1). `reroute`: tries the others first (§4.4).
`credits`: never offers a frame to a connection whose outstanding frames already keep it busy.
"""


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
