"""River: rows go to a worker drawn at random, whatever their key (RiverDQ, flux §2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.model.given import check_seed
from evenflow.policy.keyed.balance import KeyedBalance


@dataclass
class River(KeyedBalance):
    """RiverDQ: the next frame goes to a worker drawn at random, by how empty its queue is.

    A worker's queue holds two frames; it is drawn with a probability in proportion to the places that are free. So a
    slow worker, whose queue is fuller, is drawn less often, and a cluster with little to do shares it evenly. The draws
    of a feeder follow from `seed` and its partition.

    This balances by itself, but needs an operator for which the rows of one key may be on several workers: there are
    no units, and nothing to move.
    """

    name: ClassVar[str] = "river"
    by_content: ClassVar[bool] = False

    seed: int = 0

    def __post_init__(self) -> None:
        self.seed = check_seed(self.seed)

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """Never any moves."""
        return []
