"""Memory budgets of simulated workers: units on disk, their pending input, and the rotation of flux §6.1.

Each worker has two queues of units, in memory and on disk. What exceeds the budget is written at once, the unit that
was activated first before others. A unit on disk comes back when there is room; if there is none, and as much time has
passed since the last one was activated as it took to read it (t_gap), the first unit in memory changes places with the
first on disk. Then all rows that waited for it are served. The disk stops everything else on its worker (§6.3), but
between two units that are read or written the worker hears the controller and reports to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.errors import SimulationError
from evenflow.model.messages import MemorySet
from evenflow.sim.draws import random_state, spread
from evenflow.sim.keyed.arrays import IDLE, PlaneArrays
from evenflow.sim.keyed.serving import catch_up, stall
from evenflow.sim.keyed.setup import KeyedSetup
from evenflow.sim.simulation import FIRST_WORKER, Simulation

Then = Callable[[float], None]
NO_UNITS: npt.NDArray[np.int32] = np.zeros(0, np.int32)
NO_COUNTS: npt.NDArray[np.int64] = np.zeros(0, np.int64)


@dataclass(slots=True)
class _Room:
    """The memory of one worker."""

    budget: int
    inside: deque[int] = field(default_factory=deque)
    outside: deque[int] = field(default_factory=deque)
    asked: tuple[int, float] | None = None
    """The budget that is being set, and since when."""
    fetched: deque[tuple[int, Then]] = field(default_factory=deque)
    """Units on disk that leave the worker: read, then go on."""
    waited_for: deque[int] = field(default_factory=deque)
    """Units in memory that came with rows that waited for them."""
    reading: tuple[int, Then | None] | None = None
    """The unit that is being read, and what then, if it leaves."""
    activated: float = -inf
    gap: float = 0.0
    alarm: float = inf
    """When the worker looks after its disk again."""
    known: tuple[npt.NDArray[np.int32], int, int] | None = None
    """Units on disk, bytes in memory and on disk; None if they are to be counted again."""


class WorkerMemory:
    """The memory of all workers."""

    def __init__(self, setup: KeyedSetup, arrays: PlaneArrays) -> None:
        self._setup, self._arrays = setup, arrays
        self._rooms = [_Room(setup.memory_bytes) for _ in range(setup.workers)]
        self._draws = random_state(setup.seed, 200_000)
        self.home = np.full(setup.units, -1, np.int64)
        """The worker that has each unit's state; -1 while it is on its way."""

    def begin(self, world: Simulation, free: Callable[[float, int], None]) -> None:
        """The simulation begins; `free(now, worker)` has a worker that waits look after its disk."""
        self._world, self._free = world, free

    def settle(self, now: float, owner: npt.NDArray[np.int64]) -> None:
        """The first routing table has come: units are in the memory of their owners, as far as there is room."""
        if (self.home >= 0).any():
            return
        self.home[:] = owner
        for unit, worker in enumerate(owner.tolist()):
            self._rooms[worker].inside.append(unit)
            self._rooms[worker].known = None
        for worker in range(len(self._rooms)):
            self._attend(now, worker)

    def told(self, worker: int) -> dict[str, Any]:
        """What a worker reports of its memory."""
        room = self._rooms[worker]
        if not room.budget:
            return {"on_disk": NO_UNITS, "pending": NO_COUNTS}
        units = self._arrays.units
        if room.known is None or self._setup.growth_bytes:
            on_disk, inside = np.array(sorted(room.outside), np.int32), list(room.inside)
            room.known = on_disk, int(units["size"][inside].sum()), int(units["size"][on_disk].sum())
        on_disk, resident, spilled = room.known
        return {
            "on_disk": on_disk,
            "pending": units["waiting"][on_disk] * self._setup.row_bytes,
            "memory": room.budget,
            "resident": resident,
            "spilled": spilled,
        }

    def grown(self, now: float) -> None:
        """Units may have grown beyond budgets since the last time: have workers look after that."""
        if self._setup.growth_bytes:
            for worker, room in enumerate(self._rooms):
                if room.budget:
                    self._attend(now, worker)

    def set(self, now: float, worker: int, budget: int) -> None:
        """The worker is given another budget."""
        room = self._rooms[worker]
        room.budget, room.asked = budget, (budget, now)
        self._want(worker)

    def short(self, worker: int) -> bool:
        """Whether a worker has units on disk."""
        return bool(self._rooms[worker].outside)

    def came(self, worker: int) -> None:
        """Rows of units in memory may wait as well, since a worker has taken all packets: they are served first."""
        units = self._arrays.units
        mine = (units["waiting"] > 0) & (units["away"] == 0) & (self.home == worker)
        self._rooms[worker].waited_for.extend(np.flatnonzero(mine).tolist())

    def leave(self, now: float, worker: int, units: Iterable[int], then: Then) -> None:
        """Units leave a worker: those on disk are read first. Then go on."""
        room = self._rooms[worker]
        room.known = None
        on_disk = [unit for unit in units if self._arrays.units["away"][unit]]
        for unit in units:
            self.home[unit] = -1
            if unit not in on_disk:
                room.inside.remove(unit)
        if on_disk:
            for unit in on_disk:
                room.outside.remove(unit)
            room.fetched.extend((unit, _nothing) for unit in on_disk[:-1])
            room.fetched.append((on_disk[-1], then))
        else:
            then(now)
        self._attend(now, worker)

    def arrive(self, now: float, worker: int, units: Iterable[int]) -> None:
        """Units are installed at a worker, with the rows that waited for them."""
        room = self._rooms[worker]
        room.known = None
        for unit in units:
            self.home[unit] = worker
            self._arrays.units["away"][unit] = False
            room.inside.append(unit)
            if self._arrays.units["waiting"][unit]:
                room.waited_for.append(unit)
        self._attend(now, worker)

    def was_read(self, now: float, worker: int) -> None:
        """If the disk has read a unit, it is in memory now, or leaves the worker."""
        room = self._rooms[worker]
        if room.reading is None:
            return
        (unit, then), room.reading = room.reading, None
        if then is not None:
            then(now)
            return
        self._arrays.units["away"][unit] = False
        room.inside.append(unit)
        room.known = None
        room.waited_for.append(unit)
        room.activated = now

    def go_on(self, now: float, worker: int) -> bool:
        """A worker serves no packet: begin what its disk has to do next, or rows that waited; whether there is any."""
        room, units = self._rooms[worker], self._arrays.units
        self._arrays.workers["wants_disk"][worker] = False
        while room.waited_for:
            unit = room.waited_for.popleft()
            if units["waiting"][unit] and not units["away"][unit] and self.home[unit] == worker:
                self._want(worker)
                catch_up(self._arrays, worker, unit, now)
                return True
        if room.fetched:
            self._read(now, worker, *room.fetched.popleft())
            return True
        if not room.budget:
            return False
        used = float(units["size"][list(room.inside)].sum())
        if used > room.budget and room.inside:
            self._write(now, worker)
            return True
        self._answer(now, worker)
        return self._bring_back(now, worker, used)

    def _bring_back(self, now: float, worker: int, used: float) -> bool:
        """Read the first unit on disk if there is room; if it is time, make room first."""
        room = self._rooms[worker]
        if not room.outside:
            return False
        unit = room.outside[0]
        if used + self._arrays.units["size"][unit] <= room.budget:
            room.outside.popleft()
            room.known = None
            self._read(now, worker, unit, None)
            return True
        due = room.activated + room.gap
        if now >= due and room.inside:
            self._write(now, worker)
            return True
        if due != room.alarm:
            room.alarm = due
            self._world.at(due, partial(self._ring, worker))
        return False

    def _ring(self, worker: int, now: float) -> None:
        if now == self._rooms[worker].alarm:
            self._rooms[worker].alarm = inf
            self._attend(now, worker)

    def _attend(self, now: float, worker: int) -> None:
        """Have the worker look after its disk: now if it waits for rows, else after the packet that it serves."""
        self._want(worker)
        if self._arrays.workers["state"][worker] == IDLE:
            self._free(now, worker)

    def _want(self, worker: int) -> None:
        self._arrays.workers["wants_disk"][worker] = True

    def _write(self, now: float, worker: int) -> None:
        room = self._rooms[worker]
        unit = room.inside.popleft()
        self._check_fits(now, worker, unit)
        room.outside.append(unit)
        room.known = None
        self._arrays.units["away"][unit] = True
        self._stall(now, worker, unit)

    def _check_fits(self, now: float, worker: int, unit: int) -> None:
        """Refuse a unit that has grown larger than its worker's memory: it could never be read again."""
        size, budget = int(self._arrays.units["size"][unit]), self._rooms[worker].budget
        if size > budget:
            raise SimulationError(
                f"unit {unit} has {size} bytes at second {now:.3g}, more than worker {worker} has memory, {budget}: no "
                "row of it could be served any more; give more memory_bytes, more units, or most_unit_bytes"
            )

    def _read(self, now: float, worker: int, unit: int, then: Then | None) -> None:
        room = self._rooms[worker]
        room.reading, room.gap = (unit, then), self._stall(now, worker, unit)

    def _stall(self, now: float, worker: int, unit: int) -> float:
        """The disk is busy with a unit, and with the input that waits for it; returns for how long."""
        size = (
            float(self._arrays.units["size"][unit]) + float(self._arrays.units["waiting"][unit]) * self._setup.row_bytes
        )
        seek = spread(self._draws, self._setup.seek_ms, self._setup.seek_jitter_ms) * 1e-3
        seconds = max(0.0, float(seek)) + size / (self._setup.disk_mb * 1e6)
        self._want(worker)
        stall(self._arrays, worker, now, seconds)
        return seconds

    def _answer(self, now: float, worker: int) -> None:
        """The budget that was asked for holds: say so."""
        room = self._rooms[worker]
        if room.asked is not None:
            (asked, since), room.asked = room.asked, None
            told = self.told(worker)
            answer = MemorySet(asked, room.budget, told["resident"], told["spilled"], now - since)
            self._world.say(now, FIRST_WORKER + worker, answer)


def _nothing(now: float) -> None:
    """Nothing is to be done then."""
