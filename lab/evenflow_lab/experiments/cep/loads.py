"""The loads of engines as the splitter counts them (cep §2.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.policy.keyed.balance import KeyedBalance
from evenflow.policy.keyed.loads import engine_loads

Longs = npt.NDArray[np.int64]


class EmittedLoads:
    """A balance, and by window the texts that were emitted to each engine while it decided.

    eng_load[e] is the sum of keys_load[k], the texts of k that have come in, over the keys with keys_map[k] = e; and
    keys_map changes when the balance has decided, not when the last key has arrived: from then on the splitter forwards
    a key's texts to the new engine, which keeps them until it has the key's state (§3.3, steps ii to v). What engines
    have done by then is another thing: one that fetches texts from the database does none.
    """

    def __init__(self, balance: KeyedBalance, engines: int, window: float) -> None:
        self._balance, self._engines, self._window = balance, engines, window
        self.name, self.by_content = balance.name, balance.by_content
        self.windows: list[tuple[float, Longs]] = []
        """The end of each window, and the texts emitted to each engine."""
        self.given: Longs | None = None
        """Where texts do not go by key: a view of how many each engine has been given so far."""
        self.report_s: float = balance.report_s
        self._came: Longs | None = None
        self._map: Longs = np.zeros(0, np.int64)
        self._total = np.zeros(engines, np.int64)
        self._before = np.zeros(engines, np.int64)

    def __getattr__(self, name: str) -> Any:
        """Any other attribute is that of the balance."""
        return getattr(self._balance, name)

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """What the balance decides; texts that have come since the last time are counted for their engines first."""
        came = snapshot.unit_asked.astype(np.int64)
        if self._came is None or not snapshot.moving:
            self._map = snapshot.table.owners.astype(np.int64)
        self._total += engine_loads(self._map, came if self._came is None else came - self._came, self._engines)
        self._came = came
        if snapshot.time >= self._window * (len(self.windows) + 1) - 1e-9:
            total = self._total.copy() if self.given is None else self.given.copy()
            self.windows.append((round(snapshot.time, 3), total - self._before))
            self._before = total
        moves = self._balance.decide(snapshot)
        for move in moves:
            self._map[list(move.units)] = move.target
        return moves
