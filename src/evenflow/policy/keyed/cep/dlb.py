"""Dynamic Load Balancing: Algorithm 1 of cep-load-balancing §3.2, with its two ways to pick a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.policy.keyed.loads import Longs, Windowed, spread


@dataclass
class Dlb(Windowed):
    """Algorithm 1: one key after the other goes from a loaded engine to the least loaded one, e_min.

    While the score is above theta, engines are tried as e_loaded, by falling load, until e_min is reached. Of each
    engine one key k* is tried. The first key whose move lowers the score is moved; if there is none, this is the end.
    Ties go to the lower id, of engines and of keys.

    As printed, eng_load_temp (line 7) is not reset after a trial that did not help, so that later trials, and then
    eng_load itself, would include a move that was never made; by the text of §3.2 a trial is one key. So here every
    trial starts from eng_load.

    The mean never changes, so the score falls iff the sum of squares does, and with g = L_loaded - L_min

        (L_loaded - k)^2 + (L_min + k)^2 - L_loaded^2 - L_min^2 = 2 k (k - g) < 0   iff   0 < k < g

    So the key of DLB-H is the heaviest one that is lighter than g. Keys without rows in the window change no score and
    are never picked.
    """

    heaviest: ClassVar[bool]

    def _place(self, owner: Longs, load: Longs, engines: Longs) -> Longs:
        from evenflow.policy.keyed.cep.greedy import algorithm_1  # here: it imports numba, which takes a second

        keys = np.flatnonzero(load > 0)
        keys = keys[::-1] if self.heaviest else keys  # so that of keys with equal load the lower id is picked first
        keys = keys[np.argsort(load[keys], kind="stable")]
        deviation, total = spread(engines)
        home = owner[keys].astype(np.int64)
        goal = self.theta * self.theta * float(total) * float(total) / 1e4
        algorithm_1(load[keys].astype(np.int64), home, engines, float(deviation), goal, self.heaviest)
        placed = owner.copy()
        placed[keys] = home
        return placed


@dataclass
class DlbH(Dlb):
    """Pick heavy loaded: k* is the heaviest key of e_loaded that lowers the score when it moves. Few keys move."""

    name: ClassVar[str] = "dlb-h"
    heaviest: ClassVar[bool] = True


@dataclass
class DlbL(Dlb):
    """Pick lightly loaded: k* is the lightest key of e_loaded that has rows. Many keys move, the balance is finer."""

    name: ClassVar[str] = "dlb-l"
    heaviest: ClassVar[bool] = False
