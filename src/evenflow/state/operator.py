"""What paging needs of an operator, and of what hosts it: `operators.keyed` and `operators.hosted` have it."""

from __future__ import annotations

from typing import Any, Protocol

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
