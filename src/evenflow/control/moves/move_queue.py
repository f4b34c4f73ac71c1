"""Moves that have not begun: how their units are shared out among movements, and which of these have to wait."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby

from evenflow.control.moves.movement import Movement
from evenflow.model import MoveUnits
from evenflow.model.graphs.shape import GraphShape

BATCH_BYTES = 8 * 1024 * 1024
"""The most bytes of state in one movement, and in all movements of a graph from one source, so that no unit waits long
for others. A unit with more state moves alone."""
BATCH_UNITS = 64
"""The most units in one movement."""


@dataclass(frozen=True, slots=True)
class UnitNodes:
    """Which node of a graph each unit belongs to, and which nodes are neighbours."""

    firsts: Sequence[int]
    """By node, its first unit."""
    neighbours: Set[tuple[int, int]]
    """Pairs of nodes of which one reads the other, both ways round. Only one of the two moves at a time: rows that the
    first sends while the second moves are held, and would be overtaken by rows sent after a move of its own."""

    @classmethod
    def of(cls, shape: GraphShape) -> UnitNodes:
        """The nodes of a graph."""
        edges = {(number, reader) for number, node in enumerate(shape.nodes) for reader in node.readers}
        return cls([node.first for node in shape.nodes], edges | {(reader, number) for number, reader in edges})

    def node_of(self, unit: int) -> int:
        """The node that a unit belongs to."""
        return bisect_right(self.firsts, unit) - 1


@dataclass
class MoveQueue:
    """Moves of one region that have not begun, in parts: each part is one movement, and has units of one node only."""

    nodes: UnitNodes | None = None
    """None if the units do not belong to a graph."""
    units: set[int] = field(default_factory=set)
    """All units of the parts."""
    _parts: list[tuple[MoveUnits, int]] = field(default_factory=list)
    """With the bytes of state of each."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, move: MoveUnits, sizes: Mapping[int, int]) -> None:
        """Add a move; `sizes`: by unit, bytes of state."""
        for units in self._split(move.units, sizes):
            self._parts.append((replace(move, units=units), sum(int(sizes.get(unit, 0)) for unit in units)))
            self.units.update(units)

    def ready(self, under_way: Mapping[int, Movement]) -> Iterator[tuple[MoveUnits, int]]:
        """Take out the parts that may begin now, with their bytes.

        The caller adds each to `under_way` before it asks for the next one.
        """
        for part in list(self._parts):
            if not self._has_to_wait(*part, under_way.values()):
                self._remove(part)
                yield part

    def worker_lost(self, worker: int) -> None:
        """Drop the parts that were to leave a worker or to go there."""
        for part in [part for part in self._parts if worker in (part[0].source, part[0].target)]:
            self._remove(part)

    def clear(self) -> None:
        """Drop all parts."""
        self._parts.clear()
        self.units.clear()

    def _remove(self, part: tuple[MoveUnits, int]) -> None:
        self._parts.remove(part)
        self.units -= set(part[0].units)

    def _split(self, units: Iterable[int], sizes: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
        """The units of each part: only of one node, and not too many."""
        if self.nodes is None:
            yield from batches(units, sizes)
            return
        for _, some in groupby(sorted(units, key=self.nodes.node_of), self.nodes.node_of):
            yield from batches(some, sizes)

    def _has_to_wait(self, move: MoveUnits, size: int, under_way: Collection[Movement]) -> bool:
        """Whether a part has to wait for movements: one at a time for each source.

        In a graph several from one source, if they have little state; and one at a time of neighbours.
        """
        same = [movement for movement in under_way if movement.source == move.source]
        if self.nodes is None:
            return bool(same)
        node = self.nodes.node_of(move.units[0])
        if any((self.nodes.node_of(movement.units[0]), node) in self.nodes.neighbours for movement in under_way):
            return True
        return bool(same) and size + sum(movement.size for movement in same) > BATCH_BYTES


def batches(units: Iterable[int], sizes: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """The units in groups; each group is one movement."""
    group: list[int] = []
    held = 0
    for unit in units:
        size = int(sizes.get(unit, 0))
        if group and (held + size > BATCH_BYTES or len(group) == BATCH_UNITS):
            yield tuple(group)
            group, held = [], 0
        group.append(int(unit))
        held += size
    if group:
        yield tuple(group)
