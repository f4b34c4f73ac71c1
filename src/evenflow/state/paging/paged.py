"""Keyed state within a memory budget: units on disk, their pending input, rotation (flux §6.1).

A unit is in memory, and then all its rows have been processed; or it is on disk, and its rows wait. Units go to disk in
groups, oldest in memory first. They come back, the first on disk first, when t_gap has passed since the last came back
and the rows that wait weigh much more than the state they wait for (`rotate`), or all of them at the end of a batch
(`drain`): as many groups at a time as half of the budget holds, so that a unit is read and written about once a batch.

Results are kept until they are given, so an error (a full disk) loses none: the next call gives them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import FunctionError, SpillError
from evenflow.state.paging.batch_ids import BatchIds
from evenflow.state.paging.disk_groups import Group
from evenflow.state.paging.operator import Hosting, Keys, Operator, Origin, Units
from evenflow.state.paging.pending import Piece, Rows, runs
from evenflow.state.paging.pool import Pool
from evenflow.state.paging.spill import unpack
from evenflow.state.paging.swap import Swap, release

WORTH = 4.0
"""Pending input worth a rotation, in bytes per byte of state."""
PATIENCE_S = 5.0
"""After so long a rotation is worth it for any input."""


@dataclass(frozen=True, slots=True)
class Done:
    """Results of some rows of one batch."""

    tag: Any
    """What the batch is called."""
    places: npt.NDArray[np.int64]
    """The rows, by their places in the batch."""
    batch: pa.RecordBatch
    origin: Origin | None
    """For each result the place of the row it comes from; None if there is one for each of `places`, in that order, or
    if the operator does not say."""
    left: int
    """Rows of the batch that still wait here."""


@dataclass(slots=True)
class Spilled:
    """A unit as it was on disk, with its pending input: what `extract` gives for such a unit, and `install` takes."""

    parts: list[npt.NDArray[np.uint8]]
    weight: int
    rows: list[tuple[Any, Rows]]
    """In their order, each with the tag of the batch they are from."""
    aside: Any = None
    """What the operator keeps aside."""

    def state(self) -> Any:
        """What was on disk."""
        return unpack([part.data for part in self.parts])


class Paged:
    """One evaluation of one operator on one worker. No threads: all is done when a call returns.

    `directory` is where a directory for files is made when one is needed. `t_gap` is in seconds of `clock`; without it,
    it is the time it took to bring in what was brought in last, as in the paper.
    """

    def __init__(
        self,
        hosted: Hosting,
        pool: Pool,
        directory: str | Path,
        clock: Callable[[], float],
        *,
        ordered: bool = False,
        t_gap: float | None = None,
    ) -> None:
        self.operator: Operator = hosted.fresh()
        self._swap = Swap(self.operator, hosted.units, pool, directory, clock)
        self._parted = self._swap.parted
        self._memory, self._pending, self._groups = self._swap.memory, self._swap.pending, self._swap.groups
        self._hosted, self._pool, self._clock, self._ordered = hosted, pool, clock, ordered
        self._fixed_gap, self._gap, self._activated = t_gap, 0.0, 0.0
        self._looked = (0, 0.0)
        """How many rows were pending when we last looked for groups worth it, and when that was."""
        self._todo: deque[Rows | Piece] = deque()
        """Work that is to be done before anything else."""
        self._ready: list[Done] = []
        self._tags = BatchIds()
        self._apart = not (ordered or self.operator.adds)
        """Whether batches must be processed one by one, since it cannot be told whose the results are."""

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
    def pending_rows(self) -> int:
        """Rows whose results are still to come."""
        return self._pending.rows

    @property
    def pending_bytes(self) -> int:
        """Bytes of them, in memory and on disk."""
        return self._pending.memory + self._pending.disk

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
            return np.asarray(self.operator.sizes(units), np.int64)
        self._swap.measure()
        weights = self._memory.weight[units]
        return weights if self._parted is None else weights + self._parted.aside_sizes(units)

    # -- rows

    def process(self, tag: Any, rows: pa.RecordBatch, units: Units, keys: Keys) -> list[Done]:
        """Take a batch. Results that there are: those of units in memory, and any that an error kept back."""
        self._swap.used = self._clock()
        count = rows.num_rows
        if not count:
            out, origin = self._hosted.process(self.operator, rows, units, keys, self._ordered, placed=True)
            self._ready.append(Done(tag, np.empty(0, np.int64), out, origin, 0))
        else:
            number = self._tags.number(tag, count)
            self._todo.append(Rows(rows, units, keys, np.full(count, number), np.arange(count)))
        return self._advance()

    def rotate(self, now: float) -> list[Done]:
        """If t_gap has passed: bring in units on disk with enough input, the first on disk first, and process it."""
        self._work()
        if not len(self._groups) or now - self._activated < (self._gap if self._fixed_gap is None else self._fixed_gap):
            return self._given()
        if not self._pending.rows:
            self._bring_what_fits()
        elif self._may_be_worth(now) and (groups := self._first(lambda units: self._is_worth(units, now))):
            start = self._clock()
            self._bring(groups)
            self._activated = self._clock()
            self._gap = self._activated - start
            self._work()
            release()
        return self._advance()

    def drain(self) -> list[Done]:
        """Process all that is pending."""
        for _ in self._drained():
            pass
        return self._given()

    def draining(self) -> Iterator[list[Done]]:
        """Process all that is pending, and give the results of what was brought in for it step by step."""
        for _ in self._drained():
            yield self._given()

    def _drained(self) -> Iterator[None]:
        self._work()
        yield
        while self._pending.rows:
            self._bring(self._first(lambda units: True))
            self._work()
            release()
            yield

    def settle(self, units: Iterable[int]) -> list[Done]:
        """Process all that is pending of some units, and of those that are on disk beside them."""
        self._work()
        wanted = np.zeros(len(self.resident), np.bool_)
        wanted[list(units)] = True
        while groups := self._first(lambda some: bool(wanted[some].any())):
            self._bring(groups)
            self._work()
        return self._given()

    # -- units that come and go

    def extract(self, unit: int) -> Any:
        """Take a unit out: its state, or None; or, if it is on disk, all there is of it as a Spilled."""
        self._work()
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
        """After a unit has left: rows of others that were read in with its own go to disk again, if there is room."""
        self._swap.tell()
        if self._parted is not None and self._pool.over():
            with suppress(SpillError):  # the unit is out, and whoever comes with rows is told
                self._swap.make_room(0)

    def install(self, unit: int, state: Any) -> None:
        """Put in what `extract` gave, here or elsewhere. A spilled unit that does not fit goes to disk as it is."""
        self._work()
        if isinstance(state, Spilled):
            if state.rows or self._pool.over(state.weight):
                self._install_spilled(unit, state)
                return
            state = state.state() if self._parted is None else self._parted.joined(state.aside, state.state())
        self.operator.install(unit, state)
        if self._pool.budget is not None:
            self._memory.arrived(unit, state if self._parted is None else self._parted.parted(state)[1])
            self._swap.make_fit()

    def snapshot(self, unit: int) -> Any:
        """A unit's state as `extract` gives it from memory, which stays here; nothing of the unit may be pending."""
        if self.resident[unit]:
            return self.operator.snapshot(unit)
        state = unpack(self._groups.read(unit))
        return state if self._parted is None else self._parted.joined(self._parted.snapshot_aside(unit), state)

    def close(self) -> None:
        """Let go of everything, and remove the files."""
        self._todo.clear()
        self._swap.close()

    def _install_spilled(self, unit: int, state: Spilled) -> None:
        self._swap.accept(unit, list(state.parts), state.weight)
        if self._parted is not None:
            self._parted.install_aside(unit, state.aside)
            self._swap.make_fit()
        for tag, rows in state.rows:
            numbers = np.full(len(rows), self._tags.number(tag, len(rows)))
            self._swap.wait(Rows(rows.batch, rows.units, rows.keys, numbers, rows.places))

    def _take_rows(self, unit: int) -> list[tuple[Any, Rows]]:
        """The pending rows of one unit, which are not pending here any more."""
        taken: list[tuple[Any, Rows]] = []
        group = self._groups.holding(unit)
        if not self._pending.waiting[unit]:
            return taken
        for piece in self._pending.gather([group.number], self._groups.waiting(group)):
            rows = piece.load()
            mine = rows.units == unit
            self._pending.add(rows.where(~mine), self._clock())
            rows = rows.where(mine)
            for start, stop in runs(rows.tags):
                tag = self._tags.subtract(int(rows.tags[start]), stop - start)
                taken.append((tag, rows.part(start, stop)))
        return taken

    # -- rotation

    def _first(self, fit: Callable[[npt.NDArray[np.int64]], bool]) -> list[Group]:
        return self._groups.first(self._pool.limit(self._swap) // 2, fit, self._clock())

    def _may_be_worth(self, now: float) -> bool:
        """Whether to look: not for every few rows that come."""
        rows, when = self._looked
        if self._pending.rows < 1.1 * rows and when <= now < when + PATIENCE_S / 10:
            return False
        self._looked = self._pending.rows, now
        return True

    def _is_worth(self, units: npt.NDArray[np.int64], now: float) -> bool:
        size = float(self._pending.waiting[units].sum()) * self._pending.row_bytes
        waited = now - float(self._pending.since[units].min())
        return size >= WORTH * float(self._memory.weight[units].sum()) or waited >= PATIENCE_S

    def _bring(self, groups: list[Group]) -> None:
        """Read in those units of the groups that have rows."""
        self._todo += self._swap.bring([(group, self._groups.waiting(group).tolist()) for group in groups])

    def _bring_what_fits(self) -> None:
        """Nothing waits: read back what fits without putting anything else on disk."""
        for group in self._groups:
            if self._pool.over(group.weight + self._swap.batch):
                return
            self._swap.bring([(group, list(group.units))])

    # -- work

    def _advance(self) -> list[Done]:
        self._work()
        return self._given()

    def _given(self) -> list[Done]:
        given, self._ready = self._ready, []
        return given

    def _work(self) -> None:
        """Do what is to be done: rows of units on disk wait there, others are processed."""
        while self._todo:
            first = self._todo[0]
            rows = self._todo[0] = first.load() if isinstance(first, Piece) else first
            here = self.resident[rows.units]
            if not here.all():
                self._todo[0] = rows.where(here)
                self._swap.wait(rows.where(~here))
                continue
            piece, rest = self._cut(rows)
            if len(rest):
                self._todo[0] = rest
            else:
                self._todo.popleft()
            if len(piece):
                self._apply(piece)
                self._swap.make_fit()

    def _cut(self, rows: Rows) -> tuple[Rows, Rows]:
        """Rows that can be processed without going far beyond the budget, those of one unit at least; and the others.

        Growth is foretold from what rows and new units have added so far.
        """
        if self._apart and len(rows) and (others := np.flatnonzero(rows.tags != rows.tags[0])).size:
            end = int(others[0])
            piece, rest = self._cut(rows.part(0, end))
            after = rows.part(end, len(rows))
            return piece, _chain(rest, after) if len(rest) else after
        whole = rows, rows.part(0, 0)
        if self._pool.budget is None or not self._pool.over(_whole(self._memory.foretell(rows.units)[1].sum())):
            return whole
        self._swap.measure()
        units, growth = self._memory.foretell(rows.units)
        if not self._pool.over(_whole(growth.sum())):
            return whole
        little = self._swap.batch // 2
        if self._memory.known and self._pool.over(little):
            self._pool.ask(self._swap, little)
            if self._pool.over(little):
                self._swap.shelve(self._swap.batch)
            if self._pool.over(little):
                self._swap.evict(self._swap.batch, but=units)
        room = self._pool.budget - self._pool.held
        chosen = np.zeros(len(self.resident), np.bool_)
        chosen[units[: max(1, int(np.searchsorted(np.cumsum(growth), room, side="right")))]] = True
        mine = chosen[rows.units]
        return rows.where(mine), rows.where(~mine)

    def _apply(self, rows: Rows) -> None:
        """Process rows of units in memory, all of one batch or such that results can be told apart."""
        aside = self._swap.aside
        out, origin = self._hosted.process(self.operator, rows.batch, rows.units, rows.keys, self._ordered, placed=True)
        self._apart = self._apart and origin is None
        if self._pool.budget is not None:
            self._memory.note(rows.units)
            if self._swap.aside < aside:  # that went on to the units: by how much they grew the rows do not tell
                self._swap.measure()
        parts = runs(rows.tags)
        if len(parts) > 1 and origin is None and out.num_rows != len(rows):
            raise FunctionError(
                f"{type(self.operator).__name__}.process gave {out.num_rows} rows for {len(rows)} without the places "
                "of the rows they come from, which it gave before: give them always, or never"
            )
        for start, stop in parts:
            if origin is None:
                batch, source = (out.slice(start, stop - start) if len(parts) > 1 else out), None
            else:
                begin, end = np.searchsorted(origin, [start, stop]).tolist()
                batch, source = out.slice(begin, end - begin), rows.places[origin[begin:end]]
            tag = self._tags.subtract(int(rows.tags[start]), stop - start)
            self._ready.append(Done(tag, rows.places[start:stop], batch, source, self._tags.left(tag)))


def _whole(growth: float) -> int:
    return int(min(growth, 1 << 60))


def _chain(first: Rows, second: Rows) -> Rows:
    """Rows one after the other."""
    batch = pa.concat_batches([first.batch, second.batch])
    names = ("units", "keys", "tags", "places")
    return Rows(batch, *(np.concatenate([getattr(each, name) for each in (first, second)]) for name in names))
