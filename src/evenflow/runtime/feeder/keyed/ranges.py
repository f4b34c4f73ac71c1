"""Range partitioning (flux §2.3): keys fall on units by where they lie among bounds, not by their hashes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.hosted import KEY_AND_UNIT


@dataclass(frozen=True, eq=False)
class Ranges:
    """Bounds b_0 < b_1 < ...: unit 0 has the keys below b_0, unit 1 those from b_0 to below b_1, and so on."""

    bounds: pa.Array
    """Rising, without nulls and NaN."""
    place: int
    """The place, among Spark's columns, of the one whose values are compared with the bounds."""
    units: int
    """The number of units, that of null keys last."""

    def with_units(self, hashes: pa.Array, values: pa.Array) -> pa.Array:
        """The hashes of keys together with their units: what goes to workers where the hash alone does not tell."""
        units = self.of(values)
        if hashes.null_count:
            units[hashes.is_null().to_numpy(zero_copy_only=False)] = self.units - 1
        return pa.StructArray.from_arrays([hashes, pa.array(units)], fields=list(KEY_AND_UNIT))

    def of(self, values: pa.Array) -> npt.NDArray[np.int32]:
        """The range of each value, by bisection of all at once; of NaN the last range, of null any."""
        bounds = self.bounds
        values = values if values.type == bounds.type else values.cast(bounds.type)
        low, high = np.zeros(len(values), np.int32), np.full(len(values), len(bounds), np.int32)
        for _ in range(len(bounds).bit_length()):  # bounds before `low` are not above the value, those from `high` are
            middle = (low + high) // 2
            against = bounds.take(pa.array(np.minimum(middle, len(bounds) - 1)))
            below = pc.less(values, against).fill_null(False).to_numpy(zero_copy_only=False)
            searching = low < high
            high = np.where(searching & below, middle, high)
            low = np.where(searching & ~below, middle + 1, low)
        return low
