"""Values of keys for the live page and the event log, of the hottest units only, where the user asked for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.model.messages import MOST_KEY_TEXT, MOST_KEYS
from evenflow.operators.hosted import values_of

EVERY_S = 1.0
"""Seconds between two batches that are looked at."""


class KeyValues:
    """Looks at one batch a second; `places` says where the key's columns are; without any it does nothing."""

    def __init__(self, places: Sequence[int]) -> None:
        self._places = places
        self._looked = float("-inf")
        self._found: dict[int, str] = {}

    def look(
        self, now: float, rows: pa.RecordBatch, units_of: Callable[[pa.RecordBatch], npt.NDArray[np.int32]]
    ) -> None:
        """Note the most frequent key of the units with the most rows of a batch; its hash is the last column."""
        if not self._places or now - self._looked < EVERY_S or not rows.num_rows:
            return
        self._looked, self._found = now, {}
        units, hashes = units_of(rows), values_of(rows.column(rows.num_columns - 1))
        counts = np.bincount(units)
        hottest = np.argsort(counts, kind="stable")[::-1][:MOST_KEYS]
        for unit in hottest[counts[hottest] > 0].tolist():
            mine = np.flatnonzero(units == unit)
            _, first, often = np.unique(hashes[mine], return_index=True, return_counts=True)
            self._found[unit] = self._text(rows, int(mine[first[np.argmax(often)]]))

    def _text(self, rows: pa.RecordBatch, place: int) -> str:
        return ", ".join(_shown(rows.column(each)[place]) for each in self._places)[:MOST_KEY_TEXT]

    def take(self) -> dict[int, str]:
        """By unit, what the last look has found, if there was one since the last call."""
        found, self._found = self._found, {}
        return found


def _shown(value: pa.Scalar) -> str:
    try:
        return str(value.as_py())
    except (ArithmeticError, ValueError):  # a time that Python does not know
        return f"a {value.type} out of Python's range"
