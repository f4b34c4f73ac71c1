"""Movements of units between simulated workers: what `control.moves.movements` asks for, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np
import numpy.typing as npt

from evenflow.model.messages import MoveOutcome, MoveReport
from evenflow.sim.keyed.arrays import STALLED, PlaneArrays
from evenflow.sim.keyed.memory import WorkerMemory
from evenflow.sim.keyed.serving import charge
from evenflow.sim.keyed.setup import KeyedSetup
from evenflow.sim.keyed.transfers import StateTransfer, StateTransfers
from evenflow.sim.simulation import FIRST_WORKER, Simulation

MBIT = 1e6 / 8
NO_UNITS: npt.NDArray[np.intp] = np.zeros(0, np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class UnitsLeaving:
    """Units that a worker was told to send to another."""

    move: int
    source: int
    target: int
    units: npt.NDArray[np.int64]


class Moves:
    """Units that leave and arrive. Rows that wait for a unit on disk go with it."""

    def __init__(self, setup: KeyedSetup, arrays: PlaneArrays, memory: WorkerMemory) -> None:
        self._setup, self._arrays, self._memory = setup, arrays, memory
        self._transfers = StateTransfers(setup.link_mbit * MBIT, setup.network_mbit * MBIT)
        self._announced: dict[int, UnitsLeaving] = {}
        """By source, the movement that waits for its markers."""
        self._under_way: dict[int, UnitsLeaving] = {}
        """By number, the movements whose units have left and are not installed."""
        self._looks_at = inf
        """When transfers are looked at next."""
        self._sized = np.ones(setup.units, np.bool_)
        """Units whose size is to be reported."""
        self._news = True
        """Whether there are any."""

    def begin(self, world: Simulation) -> None:
        """The simulation begins."""
        self._world = world

    def sized(self, worker: int, served: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Units of a worker whose sizes are not reported yet, or have changed with the rows that were served."""
        if self._setup.growth_bytes:
            self._sized[served] = self._news = True
        if not self._news:
            return NO_UNITS
        mine = np.flatnonzero(self._sized & (self._memory.home == worker))
        self._sized[mine] = False
        self._news = bool(self._sized.any())
        return mine

    def announced(self, leaving: UnitsLeaving) -> None:
        """The controller wants units to leave, once all markers are there."""
        self._announced[leaving.source] = leaving

    def waits(self, worker: int) -> bool:
        """Whether a worker is to send units, and waits for markers."""
        return worker in self._announced

    def quiet(self, now: float, source: int) -> None:
        """All markers are there: take the units out, from disk if need be, and send them."""
        leaving = self._announced.pop(source, None)
        if leaving is None:  # it was called off before its last marker came
            return
        self._under_way[leaving.move] = leaving
        self._say(now, source, leaving.move, "quiet")
        self._memory.leave(now, source, leaving.units.tolist(), partial(self._extract, leaving))

    def recall(self, move: int) -> bool:
        """The movement is called off, unless its units have left; whether it was."""
        before = len(self._announced)
        self._announced = {source: each for source, each in self._announced.items() if each.move != move}
        return len(self._announced) < before

    def discard(self, now: float, move: int) -> None:
        """The movement is called off: what is on its way is thrown away."""
        self._transfers.cancel(now, move)

    def restore(self, now: float, move: int) -> None:
        """The source has the units again."""
        leaving = self._under_way.pop(move, None)
        if leaving is not None:
            self._memory.arrive(now, leaving.source, leaving.units.tolist())
        self.recall(move)

    def _extract(self, leaving: UnitsLeaving, now: float) -> None:
        took = self._setup.source_part * self._cost(leaving)
        charge(self._arrays.workers, leaving.source, took, now)
        self._world.at(now + took, partial(self._send, leaving))

    def _send(self, leaving: UnitsLeaving, now: float) -> None:
        if leaving.move not in self._under_way:
            return
        size = self._bytes(leaving)
        self._transfers.begin(now, StateTransfer(leaving.move, leaving.source, leaving.target, size))
        self._look(now)

    def _look(self, now: float) -> None:
        """Install what has come, and look again when the next is due."""
        for transfer in self._transfers.done(now):
            self._world.at(now + self._setup.packet_us * 1e-6, partial(self._arrive, self._under_way[transfer.move]))
        self._looks_at = self._transfers.next_end()
        if self._looks_at < inf:
            self._world.at(self._looks_at, self._look_if_due)

    def _look_if_due(self, now: float) -> None:
        if now == self._looks_at:  # otherwise a transfer has begun or ended in between, and another look is due
            self._look(now)

    def _arrive(self, leaving: UnitsLeaving, now: float) -> None:
        """The target installs the units, unless it is busy with its disk."""
        if leaving.move not in self._under_way:
            return
        target = self._arrays.workers[leaving.target]
        if target["state"] == STALLED:
            self._world.at(float(target["ends"]), partial(self._arrive, leaving))
            return
        took = self._cost(leaving)
        charge(self._arrays.workers, leaving.target, took, now)
        if self._setup.state_share < 1:  # beside rows, and after what came before
            took = float(target["debt"]) / self._setup.state_share
        self._world.at(now + took, partial(self._installed, leaving))

    def _installed(self, leaving: UnitsLeaving, now: float) -> None:
        if self._under_way.pop(leaving.move, None) is None:
            return
        size = int(self._bytes(leaving))
        self._memory.arrive(now, leaving.target, leaving.units.tolist())
        self._sized[leaving.units] = self._news = True
        self._say(now, leaving.target, leaving.move, "installed", size)

    def _bytes(self, leaving: UnitsLeaving) -> float:
        units = self._arrays.units
        rows = float(units["waiting"][leaving.units].sum()) * self._setup.row_bytes
        return float(units["size"][leaving.units].sum()) + rows

    def _cost(self, leaving: UnitsLeaving) -> float:
        """Seconds that a worker of speed 1 needs to install the units."""
        state = float(self._arrays.units["size"][leaving.units].sum())
        return self._setup.state_row_us * 1e-6 * state / self._setup.row_bytes

    def _say(self, now: float, worker: int, move: int, outcome: MoveOutcome, size: int = 0) -> None:
        report = MoveReport(self._setup.region, move, outcome, bytes=size)
        self._world.say(now, FIRST_WORKER + worker, report)
