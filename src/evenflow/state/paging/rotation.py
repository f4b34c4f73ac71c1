"""Which units on disk come back, and when (flux §6.1): all that memory is free for, and by turns those rows wait for.

*Return*: while more than a group's worth of memory is free, the first on disk come back, a little a turn. Nothing goes
to disk for them, and so much stays free that state which grows a little does not push them out again.

*Rotation*: rows that wait for units without room must not wait forever, so units change places. `t_gap` says how:

- None, ours: when the rows that wait weigh much more than the state they wait for, or have waited long, and as much
  time has passed since the last rotation as it took; as many groups at a time as half of the budget holds.
- a number, the paper's: each time that `t_gap` seconds have passed since the last came back, the first group on disk
  for which rows wait changes places with the units longest in memory.
- "read", the paper's rule of thumb: the same, with the time that it took to read the last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from evenflow.state.paging.disk_groups import DiskGroup
from evenflow.state.paging.pool import Pool
from evenflow.state.paging.processing import Processing
from evenflow.state.paging.swap import PENDING, Swap, release

WORTH = 4.0
"""Pending input worth a rotation, in bytes per byte of state."""
PATIENCE_S = 5.0
"""Input that has waited for this long is worth a rotation, however little it is; and a return that failed is tried
again after as long."""
LOOK_S = 1.0
"""Seconds until memory is looked for again after none was free."""
RETURNED = 8 << 20
"""Bytes of state that return in one turn, at most; but one unit at least."""

Longs = npt.NDArray[np.int64]
Gap = float | Literal["read"] | None
Chosen = list[tuple[DiskGroup, list[int]]]


class Rotation:
    """Brings units of one evaluation back from disk, and has the rows processed that waited for them."""

    def __init__(
        self, swap: Swap, processing: Processing, pool: Pool, clock: Callable[[], float], t_gap: Gap = None
    ) -> None:
        self._swap, self._processing, self._pool, self._clock, self._t_gap = swap, processing, pool, clock, t_gap
        self._memory, self._pending, self._groups = swap.memory, swap.pending, swap.groups
        self._activated = self._took_s = 0.0
        """When units last changed places, and how long that took."""
        self._returned = self._return_s = 0.0
        """When units last returned, or no memory was free for them; and how long to wait after that."""
        self._looked = (0, 0.0)
        """When groups worth a rotation were last looked for: how many rows were pending then, and the time."""
        self.returning = False
        """Whether the last turn brought back units that there was room for: there may be more."""

    def turn(self, now: float) -> None:
        """Bring back what there is room for; if there is none, change places if that is due. Process what waited."""
        self.returning = False
        if not len(self._groups):
            return
        if now - self._returned >= self._return_s and (chosen := self._fitting(now)):
            self._return(chosen)
        elif self._pending.rows and now - self._activated >= self._gap and (groups := self._due(now)):
            start = self._clock()
            self.bring(groups)
            self._activated = self._clock()
            self._took_s = self._activated - start
            self._processing.run()
            release()

    def first(self, fit: Callable[[Longs], bool]) -> list[DiskGroup]:
        """The first groups whose units with pending input `fit`, as many as half of the budget holds."""
        return self._groups.first(self._pool.limit(self._swap) // 2, fit, self._clock())

    def bring(self, groups: list[DiskGroup]) -> None:
        """Read in those units of some groups that have pending input."""
        self._processing.go_on(self._swap.bring([(group, self._groups.waiting(group).tolist()) for group in groups]))

    # -- return

    def _return(self, chosen: Chosen) -> None:
        self._returned, self._return_s = self._clock(), PATIENCE_S
        pieces = self._swap.bring(chosen)
        start, self._returned = self._returned, self._clock()
        self._return_s = self._returned - start  # so at most half of the time goes into it
        self.returning = True
        self._processing.go_on(pieces)
        self._processing.run()

    def _fitting(self, now: float) -> Chosen:
        """Units that memory is free for, the first on disk first: up to RETURNED bytes, one unit at least."""
        self._returned, self._return_s = now, LOOK_S
        free = self._free()
        room = min(free, self._swap.batch, RETURNED)
        chosen: Chosen = []
        for group in self._groups if free > 0 else ():
            waiting, units = self._groups.waiting(group), np.array(group.units, np.int64)
            units = np.concatenate([waiting, np.setdiff1d(units, waiting, assume_unique=True)])
            sums = np.cumsum(self._memory.weight[units])
            least = max(1, len(waiting))  # rows that wait are handed out for the whole group
            count = int(np.searchsorted(sums, room, side="right"))
            if count < least:
                if chosen or sums[least - 1] > free:
                    break
                count = least
            chosen.append((group, units[:count].tolist()))
            room -= int(sums[count - 1])
            if count < len(units):
                break
        return chosen

    def _free(self) -> int:
        """Bytes for units to return to.

        A group's worth stays free for state that grows; and, unless all that is on disk fits, what pending input may
        take: it comes and goes, and units would go and come with it.
        """
        expected = int(self._memory.expected)
        if expected and not self._pool.over(self._swap.batch + 1 - expected):
            self._swap.measure()  # growth that was expected and did not come would keep units out
        if self._pool.budget is None or self._pool.over(self._swap.batch + 1):
            return 0
        spare = self._swap.batch
        if self._pool.over(spare + sum(group.weight for group in self._groups)):
            spare += max(0, self._pool.limit(self._swap) // PENDING - self._pending.memory)
        return self._pool.budget - self._pool.held - spare

    # -- rotation

    @property
    def _gap(self) -> float:
        return self._t_gap if isinstance(self._t_gap, float | int) else self._took_s

    def _due(self, now: float) -> list[DiskGroup]:
        if self._t_gap is not None:
            return self.first(lambda units: True)[:1]
        return self.first(lambda units: self._is_worth(units, now)) if self._may_be_worth(now) else []

    def _may_be_worth(self, now: float) -> bool:
        """Whether to look for groups worth a rotation: not each time that a few rows have come."""
        rows, when = self._looked
        if self._pending.rows < 1.1 * rows and when <= now < when + PATIENCE_S / 10:
            return False
        self._looked = self._pending.rows, now
        return True

    def _is_worth(self, units: Longs, now: float) -> bool:
        size = float(self._pending.waiting[units].sum()) * self._pending.row_bytes
        waited = now - float(self._pending.since[units].min())
        return size >= WORTH * float(self._memory.weight[units].sum()) or waited >= PATIENCE_S
