"""The node behind an ordered map: puts what its lanes give back into the order of the rows.

Frames of one feeder's source are numbered (turns), and every turn comes here exactly once, with or without rows: those
that are early are held. So behind it rows have the order in which the source gave them.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.graph.nodes.operator import NodeOperator
from evenflow.operators.keyed import Keys, Units, UnitState


@dataclass(frozen=True, slots=True)
class HeldTurn:
    """Rows that wait for those before them."""

    root: int
    """Their root frame."""
    identity: int
    """Stands for a frame that is under way, until they go on."""
    turn: int
    rows: pa.RecordBatch


class OrderNode(NodeOperator):
    """Keeps, by feeder, the next turn and the rows of later ones. While no rows are under way it keeps none."""

    kind: ClassVar[str] = "order"
    stateful: ClassVar[bool] = True
    logged: ClassVar[bool] = False
    ordering = True

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._held: dict[int, dict[int, HeldTurn]] = {}

    def process(self, side: int, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        """The rows, which are in order where there is one process."""
        return rows

    def due(self, feeder: int, turn: int) -> bool:
        """Whether the feeder's rows of this turn may go on now; if so, the next turn is expected from now on."""
        if self._next.get(feeder, 0) != turn:
            return False
        self._next[feeder] = turn + 1
        return True

    def hold(self, feeder: int, held: HeldTurn) -> None:
        """Keep rows that are early."""
        self._held.setdefault(feeder, {})[held.turn] = held

    def following(self, feeder: int) -> list[HeldTurn]:
        """Remove and return the held rows that may go on now."""
        waiting, found = self._held.get(feeder, {}), []
        while self._next.get(feeder, 0) in waiting:
            found.append(waiting.pop(self._next[feeder]))
            self._next[feeder] += 1
        return found

    def keep(self, feeders: Container[int]) -> None:
        """Forget all feeders but these."""
        self._next = {feeder: turn for feeder, turn in self._next.items() if feeder in feeders}
        self._held = {feeder: turns for feeder, turns in self._held.items() if feeder in feeders}

    def extract(self, unit: int) -> UnitState:
        state = self._next, self._held
        self._next, self._held = {}, {}
        return state if any(state) else None

    def install(self, unit: int, state: UnitState) -> None:
        self._next.update(state[0])
        self._held.update(state[1])

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        held = sum(each.rows.nbytes for turns in self._held.values() for each in turns.values())
        return np.full(len(units), held, np.int64)
