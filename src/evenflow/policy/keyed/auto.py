"""The default: FluxAuto for load, and memory first, without parameters (the hybrid of flux §6.4, tuning itself)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from evenflow.model import KeyedSnapshot, MoveUnits
from evenflow.policy.keyed.flux.auto import FluxAuto
from evenflow.policy.keyed.flux.memory import excess
from evenflow.policy.keyed.owners import Floats, Ints, Units, moves_between, places
from evenflow.policy.keyed.placement import StateLimits

COMFORT = 0.1
"""Share of its memory that a relieved worker should have free afterwards, if all workers together have that much."""
SCARCE = 0.05
"""A worker with a smaller share of its memory free is relieved, if others have more."""
AGAIN_S = (0.5, 20.0)
"""Seconds until workers are relieved again: at first, and at most, where moves are taken back."""


@dataclass(slots=True)
class _Memory:
    """How many bytes workers have free, while units are placed."""

    free: Floats
    budget: Floats
    size: Ints
    placed: Ints
    short: Units
    """Workers that are short of memory: they give units and take none."""

    def give(self, donor: int, units: Ints, level: float, beyond: bool = False) -> None:
        """Place units of the donor elsewhere until a share of `level` of its memory is free.

        Each unit goes to the worker with the most free memory, which must have `level` left afterwards. A unit that
        would free more than the donor needs is placed only if `beyond`.
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
    """Relieve workers whose memory runs out; otherwise balance load as FluxAuto does, where there is memory for it.

    With E_j and M_j as in §6.2 (see `FluxMemory`), worker j has f_j = E_j / M_j free, and all together have
    g = sum(E_j) / sum(M_j). Two levels follow:

        goal = min(0.1, g)          low = min(0.05, g / 2), or g - 0.05 if g < 0

    Workers with f_j < low give units until they have `goal` free. The units go to the workers with the most free, which
    keep `goal` if possible, and `low` in any case. So no move takes a worker below `low`: nothing goes back and forth,
    and while g >= 0 no worker has to spill. When the state exceeds all memory, g < 0, the same rule evens out what is
    on disk. Units in memory go first (§6.2), and of these the ones with the most bytes for the rows they get: moving
    those takes the fewest units, holds back the fewest rows and changes load least.

    Plans for load may fill a worker's memory up to midway between the two levels. Nothing is decided before all workers
    have reported since the last moves ended. Without budgets this is FluxAuto.
    """

    name: ClassVar[str] = "auto"

    def __init__(self) -> None:
        super().__init__()
        self._seen: KeyedSnapshot | None = None
        self._again = -inf
        """No worker is relieved before this time."""
        self._pause = AGAIN_S[0]
        self._undone = 0

    def decide(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """Moves for memory, if any are needed; otherwise the moves for load."""
        before, self._seen = self._seen, snapshot
        if before is not None and _settled(before, snapshot) and snapshot.time >= self._again:
            moves = self._relieve(snapshot)
            if moves:
                return moves
        return super().decide(snapshot)

    def _relieve(self, snapshot: KeyedSnapshot) -> list[MoveUnits]:
        """The moves that give workers below `low` free memory; none if there is no budget, or no such worker."""
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
        """Units with state, in the order in which they are to be moved."""
        size = snapshot.unit_bytes
        load = self._loads.rows if len(self._loads.rows) == len(size) else np.zeros(len(size))
        weight = size / (load + max(float(load.mean()), 1e-9))
        units: Ints = np.lexsort((-size, -weight, ~snapshot.unit_resident))
        return units[size[units] > 0]

    def _limits(self, snapshot: KeyedSnapshot) -> StateLimits | None:
        if not any(consumer.memory > 0 for consumer in snapshot.consumers):
            return None
        free, budget = excess(snapshot), _budgets(snapshot)
        floor = max(0.0, sum(_levels(free, budget)) / 2)
        return StateLimits(snapshot.unit_bytes, np.maximum(free - floor * budget, 0.0))


def _levels(free: Floats, budget: Floats) -> tuple[float, float]:
    """`low` and `goal`, see `Auto`."""
    mean = float(free.sum() / budget.sum()) if np.isfinite(free).all() else 1.0
    return (min(SCARCE, mean / 2) if mean >= 0 else mean - SCARCE), min(COMFORT, mean)


def _budgets(snapshot: KeyedSnapshot) -> Floats:
    """M_j of each worker; 1 for a worker without a budget, whose E_j is infinite."""
    return np.array([max(consumer.memory, 1) for consumer in snapshot.consumers], np.float64)


def _settled(before: KeyedSnapshot, now: KeyedSnapshot) -> bool:
    """Whether the memory that workers report is that after the last moves."""
    return before.moving == now.moving == 0 and before.table.version == now.table.version
