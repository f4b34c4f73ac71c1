"""What paging needs of an operator, and of what hosts it: `operators.keyed` and `operators.hosted` have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Units = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]
Origin = npt.NDArray[np.int64]


class Operator(Protocol):
    """Whose state comes and goes by units."""

    @property
    def adds(self) -> bool:
        """Whether there is one result for each row, always."""

    def extract(self, unit: int) -> Any:
        """Take a unit's state out, None if there is none."""

    def install(self, unit: int, state: Any) -> None:
        """Put a unit's state in."""

    def snapshot(self, unit: int) -> Any:
        """A unit's state, which stays where it is."""

    def sizes(self, units: Units) -> npt.NDArray[np.int64]:
        """Bytes of state of each of the units, zeros where that is not known."""

    def tallies(self) -> dict[str, int]:
        """What it has counted since it was made."""


@runtime_checkable
class Parted(Protocol):
    """An operator that keeps part of its state aside, and puts that on disk by itself; units of `inner` are paged."""

    inner: Any

    @property
    def aside(self) -> int:
        """Bytes of memory that it takes."""

    @property
    def shelved(self) -> int:
        """Bytes of disk that it takes."""

    @property
    def shelved_files(self) -> int:
        """Files that it has on disk."""

    def aside_sizes(self, units: Units) -> npt.NDArray[np.int64]:
        """Bytes of it of each of the units, wherever it is."""

    def shelve(self, amount: int, largest: int, file: Callable[[], Any]) -> None:
        """Put on disk at least `amount` bytes of it, if there is so much; in memory, have blocks of up to `largest`."""

    def extract_aside(self, unit: int) -> Any:
        """Take it out for a unit."""

    def snapshot_aside(self, unit: int) -> Any:
        """The same, which stays."""

    def install_aside(self, unit: int, aside: Any) -> None:
        """Put it in."""

    def joined(self, aside: Any, inner: Any) -> Any:
        """The state of a unit, as `extract` gives it, of what is aside and what `inner` gave."""

    def parted(self, state: Any) -> tuple[Any, Any]:
        """The reverse of `joined`."""


class Hosting(Protocol):
    """An operator as it came to this worker."""

    @property
    def units(self) -> int:
        """How many there are."""

    def fresh(self) -> Any:
        """A copy of the operator without state."""

    def process(
        self, operator: Any, rows: pa.RecordBatch, units: Units, keys: Keys, ordered: bool, placed: bool = False
    ) -> tuple[pa.RecordBatch, Origin | None]:
        """The result of rows, and with `placed` where its rows come from if the operator says so."""
