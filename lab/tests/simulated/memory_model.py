"""The model of keyed_model.py with state that grows and workers that spill it: flux §6.1 in small.

Each worker has a budget. State beyond it goes to disk, the unit that was activated first in front; rows for a unit on
disk wait there, outside the skew buffer. If there is room the unit that is longest on disk comes back; if not, it
changes places with the first in memory when as much time has passed since the last was read as reading it took (the
paper's rule for t_gap). Reading and writing stops everything else on that worker (§6.3).
"""

from dataclasses import dataclass, field, replace

import numpy as np
from tests.support.keyed_model import STEP, Model

MB = 1_000_000


@dataclass
class MemoryModel(Model):
    memory: list = field(default_factory=list)
    """Bytes by worker."""
    squeeze: tuple = ()
    """(second, budgets from then on)."""
    size: float | np.ndarray = 1.0 * MB
    """Bytes of each unit at the start."""
    row_bytes: float | np.ndarray = 0.0
    """Bytes that a row adds to its unit's state."""
    disk: float = 100.0 * MB
    network: float = 30.0 * MB

    def __post_init__(self):
        super().__post_init__()
        units, workers = len(self.load), len(self.speed)
        self.sizes = np.broadcast_to(np.asarray(self.size, float), units).copy()
        self.resident = np.ones(units, bool)
        self._since = np.zeros(units)
        self._io, self._gap, self._read = np.zeros(workers), np.zeros(workers), np.zeros(workers)
        self.history = []
        """Bytes on disk, step by step, by worker."""

    def _step(self):
        for second, memory in self.squeeze:
            if abs(self.time - second) < STEP / 2:
                self.memory = list(memory)
        self._arrive()
        able, queued = self._demand()
        io = np.minimum(self._io, STEP) / STEP
        self._io -= io * STEP
        self.sizes += self._serve(able, queued, 1 - io, io) * self.row_bytes
        self._move()
        self.time += STEP
        for worker in self._pressed():
            self._page(worker)
        self.history.append(self.spilled())

    def _pressed(self):
        """Workers that have too much in memory, or units on disk."""
        owners, workers = self.table.owners, len(self.speed)
        used = np.bincount(owners, np.where(self.resident, self.sizes, 0.0), workers)
        outside = np.bincount(owners, ~self.resident & ~self._held, workers)
        return np.flatnonzero((used > self.memory) | (outside > 0))

    def spilled(self):
        return np.bincount(self.table.owners, np.where(self.resident, 0.0, self.sizes), len(self.speed))

    def _buffered(self):
        return self._waiting[self.resident].sum()

    def _ready(self):
        return np.where(self._held | ~self.resident, 0.0, self._waiting)

    def _page(self, worker):
        mine = (self.table.owners == worker) & ~self._held
        used = float(self.sizes[(self.table.owners == worker) & self.resident].sum())
        used = self._spill(worker, mine, used, 0.0)
        outside = np.flatnonzero(mine & ~self.resident)
        if self._io[worker] > 0 or not len(outside):
            return
        unit = outside[np.argmin(self._since[outside])]
        if used + self.sizes[unit] > self.memory[worker]:
            if self.time - self._read[worker] < self._gap[worker]:
                return
            used = self._spill(worker, mine, used, self.sizes[unit])
        if used + self.sizes[unit] <= self.memory[worker]:
            self.resident[unit], self._since[unit] = True, self.time
            self._gap[worker] = self.sizes[unit] / self.disk
            self._io[worker] += self._gap[worker]
            self._read[worker] = self.time + self._io[worker]

    def _spill(self, worker, mine, used, wanted):
        """Write units to disk until so many bytes more have room."""
        if used + wanted <= self.memory[worker]:
            return used
        inside = np.flatnonzero(mine & self.resident)
        for unit in inside[np.argsort(self._since[inside], kind="stable")]:
            if used + wanted <= self.memory[worker]:
                break
            self.resident[unit], self._since[unit] = False, self.time
            self._io[worker] += self.sizes[unit] / self.disk
            used -= self.sizes[unit]
        return used

    def _takes(self, unit):
        return self.sizes[unit] / self.network + (0.0 if self.resident[unit] else self.sizes[unit] / self.disk)

    def _arrived(self, unit):
        self.resident[unit], self._since[unit] = True, self.time

    def snapshot(self):
        shown, owners = super().snapshot(), self.table.owners
        held = np.bincount(owners, np.where(self.resident, self.sizes, 0.0), len(self.speed))
        consumers = tuple(
            replace(c, memory=int(self.memory[j]), resident=int(held[j]), spilled=int(disk))
            for j, (c, disk) in enumerate(zip(shown.consumers, self.spilled(), strict=True))
        )
        return replace(
            shown, consumers=consumers, unit_bytes=self.sizes.astype(np.int64), unit_resident=self.resident.copy()
        )
