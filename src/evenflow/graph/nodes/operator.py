"""Operators of graphs: what a node does with the rows of its inputs, and the state that it keeps by unit."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.hosted import units_of, values_of
from evenflow.operators.keyed import Keys, Units, UnitState

NO_UNITS: Units = np.empty(0, np.int32)
NO_KEYS: Keys = np.empty(0, np.int64)


class NodeOperator(ABC):
    """What one node of a graph does. It is pickled and sent to every worker; each evaluation works on a copy.

    A node has `units` units, each on one worker at a time: one if the whole operator lives in one place, more if its
    state is spread by key. Units are numbered from 0 within the node. A `stateful` operator keeps its state so that
    `extract` finds all of a unit; what it applies is logged where the query has a checkpoint.
    """

    kind: ClassVar[str]
    """What it is called in pictures and in the event log: filter, map, join, keyed."""
    stateful: ClassVar[bool] = False
    logged: ClassVar[bool] = True
    """Whether rows that a stateful operator applies are logged; not if its state is empty at the end of each batch."""
    ordering: bool = False
    """Whether it puts frames into the order of their turns."""
    lanes: bool = False
    """Whether any of its units may take any frame: those of an ordered map, which has no state."""
    by_rows: bool = False
    """Whether it is a join whose window is in rows."""
    units: int = 1
    by_batch: ClassVar[bool] = False
    """Whether it has to know of which micro-batch rows are."""
    batch: int = 0
    """The number of the micro-batch that the rows are of; 0 for a batch DataFrame."""

    def key_places(self, side: int) -> list[int] | None:
        """The places of the key columns in rows of input `side`; None if there are no keys."""
        return None

    def keys(self, side: int, rows: pa.RecordBatch) -> pa.Array | None:
        """64-bit hashes of the keys of rows of input `side`, null where the key is null; None if there are no keys."""
        places = self.key_places(side)
        if places is None:
            return None
        from evenflow.graph.hashing import hashes_of  # numba comes with it: only those who have keys pay

        return hashes_of([rows.column(place) for place in places])

    def routed(self, side: int, rows: pa.RecordBatch) -> tuple[Units, Keys]:
        """The unit and the key of each row of input `side`, as `process` takes them: both empty without keys."""
        hashes = self.keys(side, rows)
        if hashes is None:
            return NO_UNITS, NO_KEYS
        keys = values_of(hashes)
        return units_of(hashes, self.units) if self.units > 1 else np.zeros(len(keys), np.int32), keys

    @abstractmethod
    def process(self, side: int, rows: pa.RecordBatch, units: Units, keys: Keys) -> pa.RecordBatch:
        """Apply rows of input `side`; the result has exactly the columns of the node's stream.

        `units` has the unit of each row and `keys` the hash of its key; both are empty if the node has no keys.
        """

    def fresh(self) -> NodeOperator:
        """A copy without state."""
        return copy.deepcopy(self)

    def warm_up(self) -> None:  # noqa: B027 - nothing to do is a fine default
        """Compile and import all that the first row would otherwise wait for; state must stay empty."""

    def tallies(self) -> dict[str, int]:
        """Named counts since this copy was made; their sums over workers are in the event log."""
        return {}

    def stored_as(self) -> str:
        """A text that is the same for nodes that may share stored state."""
        return self.kind

    # -- state; only those that are stateful override these

    def extract(self, unit: int) -> UnitState:
        """Remove a unit's state from this copy and return it: a picklable value, or None if there is none."""
        return None

    def install(self, unit: int, state: UnitState) -> None:
        """Add the state that another copy's `extract` returned for this unit."""
        raise TypeError(f"{type(self).__name__} has no state to install")

    def snapshot(self, unit: int) -> UnitState:
        """A unit's state as `extract` returns it, without removing it. It is pickled before any other call."""
        state = self.extract(unit)
        if state is not None:
            self.install(unit, state)
        return state

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        """Bytes of state of each unit, roughly; 0 where that is not known."""
        return np.zeros(len(units), np.int64)
