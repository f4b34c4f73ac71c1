"""The default: FluxAuto for load, and memory first, without parameters (the hybrid of flux §6.4, tuning itself)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.policy.keyed.flux_auto import FluxAuto, moves_between, places
from evenflow.policy.keyed.flux_memory import excess
from evenflow.policy.keyed.placement import Floats, Ints, Limits, Units

COMFORT = 0.1
"""Share of its memory that a worker is to have free after it was relieved, if there is that much to be had."""
SCARCE = 0.05
"""A worker with less free is relieved, if others have more."""
AGAIN_S = (0.5, 20.0)
"""Seconds until a worker is relieved again: usually, and at most, when moves are taken back."""


@dataclass(slots=True)
class _Memory:
    """What workers have free, while units are placed."""

    free: Floats
    budget: Floats
    size: Ints
    placed: Ints
    short: Units
    """Workers that give; they take nothing."""

    def give(self, donor: int, units: Ints, level: float, beyond: bool = False) -> None:
        """Units of the donor's go to those with most free, who keep `level`, until it has as much free as that.

        Only units that do not take it above `level`, unless `beyond`.
        """
        room = np.delete(self.free - level * self.budget, self.short).max(initial=0.0)
        for unit in units[self.size[units] <= room].tolist():
            size = int(self.size[unit])
            missing = level * self.budget[donor] - self.free[donor]
            if missing <= 0:
                return
            after = (self.free - size) / self.budget
            after[self.short] = -inf
            taker = int(np.argmax(after))
            if after[taker] >= level and (beyond or size <= missing):
                self.placed[unit] = taker
                self.free[donor] += size
                self.free[taker] -= size


class Auto(FluxAuto):
    """Relieve workers whose memory runs out; else balance load as FluxAuto does, where there is memory for it.

    With E_j and M_j as in §6.2 (see `FluxMemory`), worker j has f_j = E_j / M_j free, and all together have
    g = sum(E_j) / sum(M_j). Two levels follow:

        goal = min(0.1, g)          low = min(0.05, g / 2), or g - 0.05 if g < 0

    Workers with f_j < low, though the state still fits, give units until they have `goal` free, to those with most
    free, who keep `goal` if that can be and `low` in any case. So nobody comes below `low` by a move: nothing goes back
    and forth, and while g >= 0 nobody is made to spill. When the state exceeds all memory, g < 0, the same rule evens
    out what is on disk. Units in memory go first (§6.2), and of these the ones with most bytes for the rows they get:
    moving those takes fewest units, holds back fewest rows and changes load least.

    Plans for load may fill a worker's memory up to midway between the two levels. Nothing is decided before all workers
    have reported since the last moves ended. Without budgets this is FluxAuto.
    """

    name: ClassVar[str] = "auto"

    def __init__(self) -> None:
        super().__init__()
        self._seen: KeyedSnapshot | None = None
        self._again = -inf
        """Nobody is relieved before that."""
        self._pause = AGAIN_S[0]
        self._undone = 0

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """Moves for memory, if any are called for; else the moves for load."""
        before, self._seen = self._seen, snapshot
        if before is not None and _settled(before, snapshot) and snapshot.time >= self._again:
            moves = self._relieve(snapshot)
            if moves:
                return moves
        return super().decide(snapshot)

    def _relieve(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        if not any(consumer.memory > 0 for consumer in snapshot.consumers):
            return []
        workers = np.array([consumer.worker for consumer in snapshot.consumers])
        owner = places(snapshot.table.owners, workers)
        free, budget = excess(snapshot), _budgets(snapshot)
        low, goal = _levels(free, budget)
        short = np.flatnonzero(free < low * budget)
        if not len(short):
            return []
        self._pause = min(2 * self._pause, AGAIN_S[1]) if snapshot.undone > self._undone else AGAIN_S[0]
        self._again, self._undone = snapshot.time + self._pause, snapshot.undone
        share = free[short] / budget[short]
        short, order = short[np.argsort(share, kind="stable")], self._order(snapshot)
        memory = _Memory(free, budget, snapshot.unit_bytes, owner.copy(), short)
        for donor in short.tolist():
            memory.give(donor, order[owner[order] == donor], goal)
        for donor in short.tolist():
            memory.give(donor, order[memory.placed[order] == donor], low, beyond=True)
        if (memory.placed == owner).all():
            return []
        told = f"worker {workers[short[0]]} has {share.min():.0%} of its memory free; {goal:.0%} is the aim"
        return moves_between(snapshot.region, owner, memory.placed, workers, told)

    def _order(self, snapshot: KeyedSnapshot) -> Ints:
        """Units with state, those to move first in front."""
        size = snapshot.unit_bytes
        load = self._loads if len(self._loads) == len(size) else np.zeros(len(size))
        weight = size / (load + max(float(load.mean()), 1e-9))
        units: Ints = np.lexsort((-size, -weight, ~snapshot.unit_resident))
        return units[size[units] > 0]

    def _limits(self, snapshot: KeyedSnapshot) -> Limits | None:
        if not any(consumer.memory > 0 for consumer in snapshot.consumers):
            return None
        free, budget = excess(snapshot), _budgets(snapshot)
        floor = max(0.0, sum(_levels(free, budget)) / 2)
        return Limits(snapshot.unit_bytes, np.maximum(free - floor * budget, 0.0))


def _levels(free: Floats, budget: Floats) -> tuple[float, float]:
    """`low` and `goal`, see `Auto`."""
    mean = float(free.sum() / budget.sum()) if np.isfinite(free).all() else 1.0
    return (min(SCARCE, mean / 2) if mean >= 0 else mean - SCARCE), min(COMFORT, mean)


def _budgets(snapshot: KeyedSnapshot) -> Floats:
    """M_j of each worker; 1 where there is none, whose E_j is infinite."""
    return np.array([max(consumer.memory, 1) for consumer in snapshot.consumers], np.float64)


def _settled(before: KeyedSnapshot, now: KeyedSnapshot) -> bool:
    """Whether what workers report of their memory is as it is after the last moves."""
    return before.moving == now.moving == 0 and before.table.version == now.table.version
