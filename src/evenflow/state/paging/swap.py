"""Between an operator's memory and the local disk: units go out in groups, oldest first, and come back (flux §6.1)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from evenflow.errors import FunctionError, MemoryBudget, SpillError
from evenflow.scratch.files import Part, Segment, Spill, UnitState, pack, unpack
from evenflow.state.paging.disk_groups import DiskGroup, DiskGroups
from evenflow.state.paging.operator import Operator, Parted
from evenflow.state.paging.pending import Pending, PendingPiece, PendingRows
from evenflow.state.paging.pool import Pool
from evenflow.state.paging.residents import Residents

GROUPS = 16
"""A group of units is a budget divided by this; so is what goes to disk at a time."""
SMALLEST = 64 * 1024
"""Bytes of a group, at least; but never more than a quarter of the budget."""
SHELVED = 8
"""Batches of what an operator keeps aside are at most a budget divided by this."""
PENDING = 8
"""Pending input takes at most a budget divided by this in memory; the rest goes to disk."""
BUFFER = 1 << 20
"""Bytes of state written at a time."""


_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Only glibc has it."""


def release() -> None:
    """Have Arrow and the C library return freed memory to the system.

    They would keep it for later, and with it half a budget and more in blocks that were freed here and there.
    """
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)


class Swap:
    """Moves the state of one evaluation between memory and disk. A member of the pool."""

    def __init__(
        self,
        operator: Operator,
        units: int,
        pool: Pool,
        directory: str | Path,
        clock: Callable[[], float],
        named: Callable[[int], str],
    ) -> None:
        self.parted = operator if isinstance(operator, Parted) else None
        """The operator, if it keeps some of its state aside; then only the units of its `inner` are paged."""
        self.operator: Operator = operator if self.parted is None else self.parted.inner
        self.used = clock()
        """When it last had rows, in seconds of `clock`."""
        self.memory = Residents(self.operator, units)
        of = np.full(units, -1, np.int32)
        self.pending = Pending(units, of, self._segment)
        self.groups = DiskGroups(of, self.memory.weight, self.pending, self._segment)
        self.loads = self.evictions = 0
        """Units read from disk, and written to it, so far."""
        self._pool, self._directory, self._clock = pool, directory, clock
        self._named = named
        """What to call a unit in a message."""
        self._spill: Spill | None = None
        pool.join(self)

    @property
    def batch(self) -> int:
        """Bytes of a group of units on disk."""
        budget = self._pool.budget or 0
        return max(min(SMALLEST, budget // 4), budget // GROUPS)

    @property
    def held(self) -> int:
        """Bytes of memory that the evaluation takes."""
        return self.memory.total + int(self.memory.expected) + self.pending.memory + self.aside

    @property
    def aside(self) -> int:
        """Bytes of memory that the operator keeps aside."""
        return 0 if self.parted is None else self.parted.aside

    def tell(self) -> None:
        """Tell the pool how much memory we hold."""
        if self._pool.budget is not None:
            self._pool.holds(self, self.held)

    def measure(self) -> None:
        """Weigh the units that had rows since the last time, and tell the pool."""
        self.memory.measure()
        self.tell()

    def wait(self, rows: PendingRows) -> None:
        """Keep rows of units on disk until these are back."""
        self.pending.add(rows, self._clock())
        if self.pending.memory > self._pool.limit(self) // PENDING:
            self._pending_to_disk()
        self.tell()
        self.make_room(0)

    def close(self) -> None:
        """Let go of everything, and remove the files."""
        self._pool.leave(self)
        if self._spill is not None:
            self._spill.close()

    # -- out

    def give_up(self, amount: int) -> None:
        """Put at least `amount` bytes on disk, if there are so many: state first, then pending input."""
        wanted = self.held - amount
        self.shelve(amount)
        self.evict(self.held - wanted)
        if self.held > wanted:
            self.shelve(self.held - wanted, little=True)
        if self.held > wanted:
            self._pending_to_disk()

    def make_fit(self) -> None:
        """After state has grown: measure it if that is due, and put on disk what exceeds the budget."""
        if self._pool.budget is None:
            return
        self.tell()
        if self._pool.over() or not self.memory.known or self.memory.due(self._pool.budget):
            self.measure()
            self._check(np.flatnonzero(self.memory.weight > self._pool.budget).tolist())
            self.make_room(0)

    def check_fits(self, budget: int) -> None:
        """Refuse a budget that the largest unit alone would exceed."""
        self.measure()
        self._check(np.flatnonzero(self.memory.weight > budget).tolist(), budget)

    def make_room(self, amount: int) -> None:
        """Put enough on disk for `amount` more bytes to fit."""
        pool = self._pool
        if not pool.over(amount):
            return
        pool.ask(self, pool.over(amount))
        if over := pool.over(amount):
            self.shelve(max(over, self.batch))
        while (over := pool.over(amount)) and self.evict(max(over, self.batch)):
            pass
        if over := pool.over(amount):
            self.shelve(over, little=True)
        if pool.over(amount):
            self._pending_to_disk()
        if over := pool.over(amount):
            pool.ask(self, over, everything=True)

    def shelve(self, amount: int, little: bool = False) -> None:
        """Have the operator put `amount` bytes of what it keeps aside on disk, if there are so many.

        Less than a group is put there only with `little`, since it makes many small files.
        """
        least = 1 if little else self.batch
        if self.parted is not None and self._pool.budget is not None and self.parted.aside >= least:
            self.parted.shelve(amount, max(SMALLEST, self._pool.budget // SHELVED), self._segment)
            release()
            self.tell()

    def evict(self, amount: int, but: Iterable[int] = ()) -> bool:
        """Put `amount` bytes of units on disk, those longest in memory first, without `but`; whether there were any."""
        found = amount > 0 and self._put_out(amount, but)
        if found:
            release()
        return found

    def _put_out(self, amount: int, but: Iterable[int]) -> bool:
        self.measure()
        units = self.memory.oldest(amount, but)
        batch: list[tuple[int, UnitState, list[Part]]] = []
        size = 0
        for unit in units:
            state = self.operator.extract(unit)
            if state is None:
                self.memory.gone(unit)
                continue
            try:
                parts = pack(state)
            except BaseException as error:  # pickling runs the user's code: anything may be raised
                self._put_back([*batch, (unit, state, [])])
                raise FunctionError(
                    f"the state of {self._named(unit)} cannot be pickled, so it cannot be put on disk: "
                    f"{type(error).__name__}: {error}"
                ) from error
            batch.append((unit, state, parts))
            size += sum(memoryview(part).nbytes for part in parts)
            if size >= min(BUFFER, self.batch):
                self._write(batch)
                batch, size = [], 0
        self._write(batch)
        self.tell()
        return bool(units)

    def accept(self, unit: int, parts: list[Part], weight: int) -> None:
        """Put a unit that has come from another worker on disk, as it is."""
        self.memory.weight[unit] = weight
        try:
            self.groups.add([(unit, parts)], self.batch)
        except SpillError:
            self.memory.weight[unit] = 0
            raise
        self.memory.here[unit] = False

    def _write(self, batch: list[tuple[int, UnitState, list[Part]]]) -> None:
        if not batch:
            return
        try:
            self.groups.add([(unit, parts) for unit, _, parts in batch], self.batch)
        except SpillError:
            self._put_back(batch)
            raise
        for unit, state, parts in batch:
            before = int(self.memory.weight[unit])
            self.memory.gone(unit, parts, state)
            self.memory.here[unit] = False
            self.groups.heavier(unit, int(self.memory.weight[unit]) - before)
        self.evictions += len(batch)

    def _put_back(self, batch: list[tuple[int, UnitState, list[Part]]]) -> None:
        for unit, state, _ in batch:
            self.operator.install(unit, state)
        self.tell()

    def _pending_to_disk(self) -> None:
        self.pending.to_disk()
        release()
        self.tell()

    def _segment(self) -> Segment:
        if self._spill is None:
            self._spill = Spill(self._directory)
        return self._spill.segment()

    # -- in

    def bring(self, chosen: list[tuple[DiskGroup, list[int]]]) -> list[PendingPiece]:
        """Read some units of some groups into memory, all with pending input among them; their rows, to be processed.

        If that fails nothing has changed.
        """
        units = [unit for _, some in chosen for unit in some]
        self._check(units)
        for group, _ in chosen:
            self.groups.seal(group)
        done: list[int] = []
        self.groups.reading = frozenset(group.number for group, _ in chosen)
        try:
            for group, some in chosen:
                self.make_room(int(self.memory.weight[done + some].sum()))
                for unit, parts in group.segment.read(some):
                    self.operator.install(unit, unpack(parts))
                    done.append(unit)
        except BaseException:
            for unit in done:
                self.operator.extract(unit)  # it is still on disk
            raise
        finally:
            self.groups.reading = frozenset()
        pieces = self.pending.gather([group.number for group, _ in chosen], np.array(units, np.int64))
        for group, some in chosen:
            self.groups.leave(group, some)
        self.memory.landed(units)
        self.loads += len(units)
        self.tell()
        return pieces

    def forget(self, unit: int) -> None:
        """Drop a unit that is on disk."""
        self.groups.leave(self.groups.holding(unit), [unit])
        self.memory.weight[unit] = 0
        self.memory.here[unit] = True
        self.tell()

    def _check(self, units: list[int], budget: int | None = None) -> None:
        """Refuse units that are larger than a whole budget, by default the pool's."""
        budget = self._pool.budget if budget is None else budget
        for unit in units:
            if budget is None or self.memory.weight[unit] <= budget:
                continue
            if not self.memory.here[unit] or self.memory.weigh(unit) > budget:  # the weight was an estimate
                raise MemoryBudget(
                    f"{self._named(unit)} has {self.memory.weight[unit]} bytes of state, "
                    f"more than the memory budget of {budget} bytes: give more memory, or more units so "
                    "that each is smaller"
                )
