"""Rows that are dropped on arrival, where `qos` allows it and the controller asks for it: the lowest values first."""

from __future__ import annotations

from math import ceil

import numpy as np
import numpy.typing as npt
import pyarrow as pa

RECENT = 8192
"""Values of the latest rows, among which a row has to be low to be dropped: a batch may be one row."""


class Shedder:
    """Drops a share of the rows of one feeder by the column at `place`; without a place, none.

    With `share` s, a row may be dropped if it is among the lowest s of the latest rows; of those, the lowest
    are, until s of all rows that came have been. Null is below all values, NaN above.
    """

    def __init__(self, place: int | None) -> None:
        self._place = place
        self._share = 0.0
        self._recent = np.zeros(0)
        self._due = 0.0
        """Rows still owed: they were to be dropped, but the rows that came had high values."""
        self._dropped = 0

    def set_share(self, share: float) -> None:
        """Drop this share of the rows from now on."""
        self._share = share if self._place is not None else 0.0
        if not self._share:
            self._recent, self._due = self._recent[:0], 0.0

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are not dropped, in their order."""
        if not self._share or not batch.num_rows:
            return batch
        assert self._place is not None
        values = _values(batch.column(self._place))
        self._recent = np.concatenate([self._recent, values])[-RECENT:]
        rank = max(0, ceil(self._share * len(self._recent)) - 1)
        low = np.flatnonzero(values <= np.partition(self._recent, rank)[rank])
        self._due = min(self._due + self._share * batch.num_rows, float(RECENT + batch.num_rows))
        dropped = low[np.argsort(values[low], kind="stable")[: int(self._due)]]
        if not len(dropped):
            return batch
        self._due -= len(dropped)
        self._dropped += len(dropped)
        keep = np.ones(batch.num_rows, np.bool_)
        keep[dropped] = False
        return batch.filter(pa.array(keep))

    def count(self) -> int:
        """Rows dropped since the last call."""
        count, self._dropped = self._dropped, 0
        return count


def _values(column: pa.Array) -> npt.NDArray[np.float64]:
    """Values in the order in which they are dropped."""
    plain = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
    values = plain.cast(pa.float64(), safe=False)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    found = np.where(missing, -np.inf, values.to_numpy(zero_copy_only=False))
    return np.where(np.isnan(found), np.inf, found)
