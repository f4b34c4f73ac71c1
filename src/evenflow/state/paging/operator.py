"""What paging needs of an operator and of its host; `operators.keyed` and `operators.hosted` provide it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import FunctionError
from evenflow.scratch.files import UnitState
from evenflow.scratch.rows import NewFile

Units = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]
Origin = npt.NDArray[np.int64]


class Operator(Protocol):
    """An operator whose state can be taken out and put in by unit."""

    @property
    def adds(self) -> bool:
        """Whether there is always exactly one result for each row."""

    def extract(self, unit: int) -> UnitState:
        """Take a unit's state out; None if there is none."""

    def install(self, unit: int, state: UnitState) -> None:
        """Put a unit's state in."""

    def snapshot(self, unit: int) -> UnitState:
        """A unit's state, which stays."""

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        """Bytes of state of each of the units; zero where that is not known."""

    def tallies(self) -> dict[str, int]:
        """Counters of its own, by name, since it was made."""


def sizes_of(operator: Operator, units: Units) -> npt.NDArray[np.int64]:
    """What an operator says that units take; refused if it is no number of bytes for each."""
    given = np.asarray(operator.sizes(units))
    if given.shape != units.shape or given.dtype.kind not in "iu":
        raise FunctionError(
            f"{type(operator).__name__}.sizes returned {given.tolist()!r:.100} for {len(units)} units: return an array "
            "of whole numbers, the bytes of each"
        )
    return given.astype(np.int64, copy=False)


@runtime_checkable
class Parted(Protocol):
    """An operator that keeps part of its state aside and puts that on disk by itself; units of `inner` are paged."""

    inner: Operator

    @property
    def aside(self) -> int:
        """Bytes of memory that the part kept aside takes."""

    @property
    def shelved(self) -> int:
        """Bytes of disk that it takes."""

    @property
    def shelved_files(self) -> int:
        """Files that it takes."""

    def aside_sizes(self, units: Units) -> npt.NDArray[np.int64]:
        """Bytes of it for each of the units, in memory and on disk."""

    def shelve(self, amount: int, largest: int, file: NewFile) -> None:
        """Put at least `amount` bytes of it on disk, if there are so many; batches in memory get at most `largest`."""

    def extract_aside(self, unit: int) -> UnitState:
        """Remove and return the waiting rows of a unit."""

    def snapshot_aside(self, unit: int) -> UnitState:
        """Copy the waiting rows of a unit; they stay."""

    def install_aside(self, unit: int, aside: UnitState) -> None:
        """Put in what `extract_aside` gave."""

    def joined(self, aside: UnitState, inner: UnitState) -> UnitState:
        """The whole state of a unit, as `extract` gives it, from what is aside and the state in `inner`."""

    def parted(self, state: UnitState) -> tuple[UnitState, UnitState]:
        """The reverse of `joined`."""


class HostedOperator(Protocol):
    """An operator with what a worker needs to run it."""

    @property
    def units(self) -> int:
        """How many there are."""

    @property
    def fixed_units(self) -> Sequence[int]:
        """Those that never go to disk."""

    def named(self, unit: int) -> str:
        """What to call a unit in a message."""

    def fresh(self) -> Operator:
        """A copy of the operator without state."""

    def process(
        self, operator: Any, rows: pa.RecordBatch, units: Units, keys: Keys, ordered: bool, placed: bool = False
    ) -> tuple[pa.RecordBatch, Origin | None]:
        """The results of rows; with `placed`, also the place of the row that each comes from, if the operator says."""
