"""Units on disk, in groups: units that went to disk together share a file, and their pending input lies together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evenflow.errors import SpillError
from evenflow.scratch.files import Part, Segment
from evenflow.state.paging.pending import Pending

FEW = 16
"""Up to this many files, however small, are left as they are."""

Longs = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class DiskGroup:
    """Units that lie in one file."""

    number: int
    segment: Segment
    units: list[int] = field(default_factory=list)
    weight: int = 0
    """Bytes that they take in memory."""


class DiskGroups:
    """The groups in the order in which they went to disk. Units are added to the last one until it is full."""

    def __init__(
        self, of: npt.NDArray[np.int32], weight: Longs, pending: Pending, segment: Callable[[], Segment]
    ) -> None:
        self.of = of
        """The number of each unit's group; -1 if it is not on disk."""
        self._weight = weight
        self._pending = pending
        self._segment = segment
        self._groups: dict[int, DiskGroup] = {}
        self._open: DiskGroup | None = None
        self._made = 0
        self.reading: frozenset[int] = frozenset()
        """Groups whose units are being read: they stay in their files."""

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[DiskGroup]:
        return iter(list(self._groups.values()))

    def holding(self, unit: int) -> DiskGroup:
        """The group of a unit on disk."""
        return self._groups[int(self.of[unit])]

    @property
    def segments(self) -> list[Segment]:
        """The files."""
        return list({id(group.segment): group.segment for group in self}.values())

    def add(self, items: list[tuple[int, list[Part]]], full: int) -> None:
        """Write units to the last group, to a new one if that weighs `full`; all or, with a SpillError, none."""
        if self._open is None or self._open.weight >= full:
            with suppress(SpillError):  # no space for larger files: then there are many small ones
                self._tidy(full)
        group = self._with_room(full)
        group.segment.append(items)
        self._enter(group, [unit for unit, _ in items])

    def heavier(self, unit: int, by: int) -> None:
        """Correct the weight of a unit that was added."""
        self.holding(unit).weight += by

    def read(self, unit: int) -> list[memoryview]:
        """The parts of a unit's state."""
        ((_, parts),) = self.holding(unit).segment.read([unit])
        return parts

    def leave(self, group: DiskGroup, units: list[int]) -> None:
        """Drop units of a group: they are no longer on disk."""
        group.segment.drop(units)
        gone = set(units)
        group.units = [unit for unit in group.units if unit not in gone]
        group.weight -= int(self._weight[units].sum())
        self.of[units] = -1
        if not group.units:
            del self._groups[group.number]
            self.seal(group)

    def seal(self, group: DiskGroup) -> None:
        """Add nothing more to a group."""
        if self._open is group:
            self._open = None

    def waiting(self, group: DiskGroup) -> Longs:
        """The group's units that have pending input."""
        units = np.array(group.units, np.int64)
        return units[self._pending.waiting[units] > 0]

    def first(self, window: int, fit: Callable[[Longs], bool], now: float) -> list[DiskGroup]:
        """The first groups with pending input that `fit`, up to `window` bytes; of units without input nothing counts.

        A group that is larger than the window is split.
        """
        found: list[DiskGroup] = []
        room = window
        for group in self:
            units = self.waiting(group)
            if not len(units) or not fit(units):
                continue
            weight = int(self._weight[units].sum())
            if weight > window and len(units) > 1:
                return found or [self._split(group, units, window, now)]
            if found and weight > room:
                break
            found.append(group)
            room -= weight
        return found

    def _split(self, group: DiskGroup, units: Longs, window: int, now: float) -> DiskGroup:
        """Replace a group by several that fit and share its file; the first of them."""
        pieces = self._pending.gather([group.number], units)
        made: list[DiskGroup] = []
        for unit in units.tolist():
            weight = int(self._weight[unit])
            if not made or made[-1].weight + weight > window:
                made.append(self._new(group.segment))
            made[-1].units.append(unit)
            made[-1].weight += weight
            self.of[unit] = made[-1].number
        group.units = [unit for unit in group.units if self.of[unit] == group.number]
        group.weight -= sum(each.weight for each in made)
        self.seal(group)
        rest = {number: each for number, each in self._groups.items() if each.units}
        self._groups = {each.number: each for each in made} | rest
        for piece in pieces:
            self._pending.add(piece.load(), now)
        return made[0]

    def _tidy(self, full: int) -> None:
        """If there are many small files: write units without pending input into new ones."""
        segments = self.segments
        if len(segments) <= FEW + 2 * sum(segment.live for segment in segments) // full:
            return
        for group in self:
            if group is self._open or group.number in self.reading or 2 * group.weight >= full:
                continue
            if len(self.waiting(group)):
                continue
            target, units = self._with_room(full), list(group.units)
            target.segment.append(list(group.segment.read(units)))
            self.leave(group, units)
            self._enter(target, units)

    def _with_room(self, full: int) -> DiskGroup:
        if self._open is None or self._open.weight >= full:
            self._open = self._new(self._segment())
        return self._open

    def _enter(self, group: DiskGroup, units: list[int]) -> None:
        self._groups[group.number] = group
        group.units += units
        group.weight += int(self._weight[units].sum())
        self.of[units] = group.number

    def _new(self, segment: Segment) -> DiskGroup:
        self._made += 1
        return DiskGroup(self._made, segment)
