"""Keyed state within a memory budget: units on disk, their pending input, rotation (flux §6.1).

A unit is in memory, and then all its rows have been processed; or it is on disk, and its rows wait. Units go to disk in
groups, oldest in memory first. They come back, the first on disk first: when there is room, or their turn has come
(`rotate`; `rotation.py` has the rules), or all for which rows wait at the end of a batch (`drain`). As many groups come
back at a time as half of the budget holds, so that a unit is read and written about once a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import SpillError
from evenflow.scratch.files import UnitState, unpack
from evenflow.state.paging.operator import HostedOperator, Keys, Operator, Units, sizes_of
from evenflow.state.paging.pending import PendingRows
from evenflow.state.paging.pool import Pool
from evenflow.state.paging.processing import Done, Processing
from evenflow.state.paging.rotation import Gap, Rotation
from evenflow.state.paging.swap import Swap, release


@dataclass(slots=True)
class Spilled:
    """A unit that was on disk, with its pending input: `extract` gives it, `install` takes it."""

    parts: list[npt.NDArray[np.uint8]]
    """Its state as it was in the file."""
    weight: int
    """Bytes that the state takes in memory."""
    rows: list[tuple[Hashable, PendingRows]]
    """Pending input in its order, each part with the name of the batch it is from."""
    aside: UnitState = None
    """What the operator keeps aside of the unit."""

    def state(self) -> UnitState:
        """The unit's state."""
        return unpack([part.data for part in self.parts])


class Paged:
    """The state of one evaluation of one operator on one worker. No threads: all is done when a call returns.

    Files go into a directory made below `directory` when one is needed. `t_gap`, in seconds of `clock`, is explained in
    `rotation.py`.
    """

    def __init__(
        self,
        hosted: HostedOperator,
        pool: Pool,
        directory: str | Path,
        clock: Callable[[], float],
        *,
        ordered: bool = False,
        t_gap: Gap = None,
    ) -> None:
        self.operator: Operator = hosted.fresh()
        self._swap = Swap(self.operator, hosted.units, pool, directory, clock, hosted.named)
        self._swap.memory.fixed[np.asarray(hosted.fixed_units, np.int64)] = True
        self._parted = self._swap.parted
        self._memory, self._pending, self._groups = self._swap.memory, self._swap.pending, self._swap.groups
        self._processing = Processing(self.operator, hosted, self._swap, pool, ordered)
        self._rotation = Rotation(self._swap, self._processing, pool, clock, t_gap)
        self._pool, self._clock = pool, clock

    # -- what it holds

    @property
    def resident(self) -> npt.NDArray[np.bool_]:
        """Marks units that are not on disk."""
        return self._memory.here

    @property
    def resident_bytes(self) -> int:
        """Bytes of state in memory."""
        return self._memory.total + int(self._memory.expected) + self._swap.aside

    @property
    def spilled_bytes(self) -> int:
        """Bytes of state on disk."""
        shelved = 0 if self._parted is None else self._parted.shelved
        return sum(segment.live for segment in self._groups.segments) + shelved

    @property
    def on_disk(self) -> bool:
        """Whether any unit is on disk."""
        return len(self._groups) > 0

    @property
    def returning(self) -> bool:
        """Whether the last `rotate` found room for units on disk: the next may, too."""
        return self._rotation.returning

    @property
    def pending_rows(self) -> int:
        """Rows whose results are still to come."""
        return self._pending.rows

    @property
    def pending_bytes(self) -> int:
        """Bytes of these rows, in memory and on disk."""
        return self._pending.memory + self._pending.disk

    def pending_of(self, units: Units) -> npt.NDArray[np.int64]:
        """Bytes of the rows that wait for each of the units, by the average of a row."""
        return (self._pending.waiting[units] * self._pending.row_bytes).astype(np.int64)

    @property
    def files(self) -> int:
        """Files on disk: of units, of rows that wait for units, and of what the operator keeps aside."""
        shelved = 0 if self._parted is None else self._parted.shelved_files
        return len(self._groups.segments) + self._pending.files + shelved

    @property
    def traffic(self) -> tuple[int, int]:
        """Units read from disk, and written to it, so far."""
        return self._swap.loads, self._swap.evictions

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        """Bytes of state of each of the units, wherever it is."""
        if self._pool.budget is None:
            return sizes_of(self.operator, units)
        self._swap.measure()
        weights = self._memory.weight[units]
        return weights if self._parted is None else weights + self._parted.aside_sizes(units)

    # -- rows

    def process(self, tag: Hashable, rows: pa.RecordBatch, units: Units, keys: Keys) -> list[Done]:
        """Take a batch; all results there are, which are those of units in memory and any that an error kept back."""
        self._swap.used = self._clock()
        self._processing.take(tag, rows, units, keys)
        return self._advance()

    def parts(self, units: Units) -> Iterator[npt.NDArray[np.bool_]]:
        """For one who applies a batch to `operator` himself, so that no rows wait: masks of its rows, part by part.

        While a part is given, its units are in memory. Those that are there already come first.
        """
        self._swap.used = self._clock()
        left = np.ones(len(units), np.bool_)
        while left.any():
            here = left & self._memory.here[units]
            if not here.any():
                self._bring_units(np.unique(units[left]))
                continue
            part = here.copy()
            part[here] = self._processing.fitting(units[here])
            yield part
            self._memory.note(units[part])
            self._swap.make_fit()
            left &= ~part

    def _bring_units(self, units: Units) -> None:
        """Read in some of the units, all on disk: as many as half of the budget holds, one at least."""
        room, chosen = self._pool.limit(self._swap) // 2, dict[int, list[int]]()
        for unit in units.tolist():
            if chosen and self._memory.weight[unit] > room:
                break
            room -= int(self._memory.weight[unit])
            chosen.setdefault(int(self._groups.of[unit]), []).append(unit)
        self._swap.bring([(self._groups.holding(some[0]), some) for some in chosen.values()])

    def rotate(self, now: float) -> list[Done]:
        """Bring in units that there is room for, or whose turn has come; process the rows that waited for them."""
        self._processing.run()
        self._rotation.turn(now)
        return self._advance()

    def drain(self) -> list[Done]:
        """Process all that is pending."""
        for _ in self._drained():
            pass
        return self._processing.given()

    def draining(self) -> Iterator[list[Done]]:
        """Process all that is pending, giving the results after each group of units that was brought in."""
        for _ in self._drained():
            yield self._processing.given()

    def _drained(self) -> Iterator[None]:
        self._processing.run()
        yield
        while self._pending.rows:
            self._rotation.bring(self._rotation.first(lambda units: True))
            self._processing.run()
            release()
            yield

    def settle(self, units: Iterable[int]) -> list[Done]:
        """Process all pending input of some units, and of the units in the same groups."""
        self._processing.run()
        wanted = np.zeros(len(self.resident), np.bool_)
        wanted[list(units)] = True
        while groups := self._rotation.first(lambda some: bool(wanted[some].any())):
            self._rotation.bring(groups)
            self._processing.run()
        return self._processing.given()

    # -- units that come and go

    def extract(self, unit: int) -> UnitState:
        """Take a unit out: its state, None if it has none, or a Spilled if it is on disk."""
        self._processing.run()
        if self.resident[unit]:
            state = self.operator.extract(unit)
            self._memory.gone(unit)
            self._keep_to_budget()
            return state
        parts = [np.asarray(part) for part in self._groups.read(unit)]
        aside = None if self._parted is None else self._parted.extract_aside(unit)
        found = Spilled(parts, int(self._memory.weight[unit]), self._take_rows(unit), aside)
        self._swap.forget(unit)
        self._keep_to_budget()
        return found

    def _keep_to_budget(self) -> None:
        """After a unit has left: rows of other units that were read in with its own go back to disk."""
        self._swap.tell()
        if self._parted is not None and self._pool.over():
            with suppress(SpillError):  # the unit is out; the next rows that come meet the same error
                self._swap.make_room(0)

    def install(self, unit: int, state: UnitState) -> None:
        """Put in what `extract` gave, here or elsewhere. A spilled unit that does not fit goes to disk as it is."""
        self._processing.run()
        if isinstance(state, Spilled):
            if state.rows or self._pool.over(state.weight):
                self._install_spilled(unit, state)
                return
            state = state.state() if self._parted is None else self._parted.joined(state.aside, state.state())
        self.operator.install(unit, state)
        if self._pool.budget is not None and not self._memory.fixed[unit]:
            self._memory.arrived(unit, state if self._parted is None else self._parted.parted(state)[1])
            self._swap.make_fit()

    def snapshot(self, unit: int) -> UnitState:
        """A unit's state, which stays here, as `extract` gives it from memory. It must have no pending input."""
        if self.resident[unit]:
            return self.operator.snapshot(unit)
        state = unpack(self._groups.read(unit))
        return state if self._parted is None else self._parted.joined(self._parted.snapshot_aside(unit), state)

    def close(self) -> None:
        """Let go of everything, and remove the files."""
        self._processing.clear()
        self._swap.close()

    def _install_spilled(self, unit: int, state: Spilled) -> None:
        self._swap.accept(unit, list(state.parts), state.weight)
        if self._parted is not None:
            self._parted.install_aside(unit, state.aside)
            self._swap.make_fit()
        self._processing.arrive(state.rows)

    def _take_rows(self, unit: int) -> list[tuple[Hashable, PendingRows]]:
        """Take out the pending input of one unit."""
        taken: list[tuple[Hashable, PendingRows]] = []
        group = self._groups.holding(unit)
        if not self._pending.waiting[unit]:
            return taken
        for piece in self._pending.gather([group.number], self._groups.waiting(group)):
            rows = piece.load()
            mine, others = rows.split(rows.units == unit)
            self._pending.add(others, self._clock())
            taken += self._processing.leave(mine)
        return taken

    def _advance(self) -> list[Done]:
        self._processing.run()
        return self._processing.given()
