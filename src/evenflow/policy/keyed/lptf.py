"""Longest Processing Time First, a baseline of cep-load-balancing §4 and §5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.policy.keyed.loads import Longs, Windowed


@dataclass
class Lptf(Windowed):
    """All keys are placed anew: the heaviest first, each on the engine that has least load by then.

    Ties go to the lower id. Wherever keys were does not count, so most of them move. Keys without rows in the window
    stay: anywhere is as good. In the paper this is done once, on past data; here when the score is above theta.
    """

    name: ClassVar[str] = "lptf"

    def _prepare(self) -> None:
        self._place(np.zeros(2, np.int64), np.ones(2, np.int64), np.array([2, 0]))

    def _place(self, owner: Longs, load: Longs, engines: Longs) -> Longs:
        from evenflow.policy.keyed.greedy import longest_first  # numba comes with it: only those who use it pay

        keys = np.flatnonzero(load > 0)
        keys = keys[np.argsort(-load[keys], kind="stable")]
        placed = owner.copy()
        placed[keys] = longest_first(load[keys].astype(np.int64), len(engines))
        return placed
