"""Hashes of keys that are numbers, dates or timestamps: the same as Spark's xxhash64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.model.xxhash import P1, P2, P3, P4, P5, SEED
from evenflow.runtime.feeder.keyed.ranges import Ranges

KEY = "__evenflow_key"
"""The column that holds the hash of the key."""

Hashes = npt.NDArray[np.uint64]


def with_hashes(
    batch: pa.RecordBatch,
    names: Sequence[str],
    place: int | None,
    modulo: bool = False,
    ranges: Ranges | None = None,
) -> pa.RecordBatch:
    """The batch with `names`, without the partition, and with the hash of the key (or the key) as last column.

    With `ranges`, its unit is there as well.
    """
    given = batch.columns
    columns = given[: len(names) - (place is not None)]
    if place is not None:
        columns.append(given[place].cast(pa.int64()) if modulo else hashes(given[place]))
    if ranges is not None:
        columns[-1] = ranges.with_units(columns[-1], given[ranges.place])
    return pa.RecordBatch.from_arrays(columns, names=names)


def partition_of(batch: pa.RecordBatch) -> int:
    """The partition that a batch with rows comes from: its last column says so."""
    return int(batch.column(batch.num_columns - 1)[0].as_py())


def hashes(column: pa.Array) -> pa.Array:
    """Spark's xxhash64 of a column of whole numbers, dates or timestamps; null where it is null."""
    short = pa.types.is_date32(column.type) or column.type.bit_width < 64
    plain = column.cast(pa.int32()) if short else column.cast(pa.int64())
    values = (plain.fill_null(0) if plain.null_count else plain).to_numpy()
    found = _hash_ints(values) if short else _hash_longs(values)
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(found.view(np.int64), mask=mask)


def _hash_longs(values: npt.NDArray[np.int64]) -> Hashes:
    mixed = _rotated(values.view(np.uint64) * P2, 31) * P1
    mixed ^= np.uint64(SEED) + P5 + np.uint64(8)
    return _finished(_rotated(mixed, 27) * P1 + P4)


def _hash_ints(values: npt.NDArray[np.int32]) -> Hashes:
    mixed = values.view(np.uint32).astype(np.uint64) * P1
    mixed ^= np.uint64(SEED) + P5 + np.uint64(4)
    return _finished(_rotated(mixed, 23) * P2 + P3)


def _rotated(values: Hashes, bits: int) -> Hashes:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _finished(mixed: Hashes) -> Hashes:
    mixed ^= mixed >> np.uint64(33)
    mixed *= P2
    mixed ^= mixed >> np.uint64(29)
    mixed *= P3
    mixed ^= mixed >> np.uint64(32)
    return mixed
