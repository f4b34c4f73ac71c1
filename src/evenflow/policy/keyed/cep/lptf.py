"""Longest Processing Time First, a baseline of cep-load-balancing §4 and §5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.policy.keyed.loads import Longs, Windowed


@dataclass
class Lptf(Windowed):
    """All keys are placed anew: the heaviest first, each on the engine that has the least load at that point.

    Ties go to the lower id. The present places of keys do not count, so most keys move. Keys without rows in the window
    stay where they are. In the paper this is done once, on past data; here whenever the score is above theta.
    """

    name: ClassVar[str] = "lptf"

    def _place(self, owner: Longs, load: Longs, engines: Longs) -> Longs:
        from evenflow.policy.keyed.cep.greedy import longest_first  # here: it imports numba, which takes a second

        keys = np.flatnonzero(load > 0)
        keys = keys[np.argsort(-load[keys], kind="stable")]
        placed = owner.copy()
        placed[keys] = longest_first(load[keys].astype(np.int64), len(engines))
        return placed
