"""Keys of groups: the 64-bit hash of a key, combined with those of further values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.keyed import Keys

ODD = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xBF58476D1CE4E5B9)
NOTHING = np.uint64(0x94D049BB133111EB)
HALF = np.uint64(29)


def mixed(keys: Keys, values: Sequence[pa.Array]) -> Keys:
    """A 64-bit hash of key and values, equal for equal ones; null equals null."""
    result = keys.view(np.uint64)
    for array in values:
        result = (result * ODD) ^ hashes(array)
        result = (result ^ (result >> HALF)) * MIX
    return result.view(np.int64)


def hashes(array: pa.Array) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each value."""
    if pa.types.is_date(array.type):
        array = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    elif pa.types.is_duration(array.type):
        array = array.view(pa.int64())
    kind = array.type
    if pa.types.is_struct(kind):
        bits = mixed(np.zeros(len(array), np.int64), array.flatten()).view(np.uint64)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        bits = _lists(array)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind):
        bits = pc.fill_null(pc.cast(array, pa.int64(), safe=False), 0).to_numpy().view(np.uint64)
    elif pa.types.is_floating(kind):
        numbers = pc.fill_null(pc.cast(array, pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        bits = np.where(np.isnan(numbers), np.nan, numbers + 0.0).view(np.uint64)  # one NaN, one zero
    else:
        bits = _objects(array)
    found = _spread(bits)
    if array.null_count:
        found[array.is_null().to_numpy(zero_copy_only=False)] = NOTHING
    return found


def _objects(array: pa.Array) -> npt.NDArray[np.uint64]:
    """Hashes of text, decimals and bytes, by their text; computed once for each distinct value."""
    encoded = array.dictionary_encode()
    words = np.array([str(value) for value in encoded.dictionary.to_pylist()], object)
    found = pd.util.hash_array(words, categorize=False) if len(words) else np.zeros(1, np.uint64)
    codes = pc.fill_null(encoded.indices, 0).to_numpy()
    hashed: npt.NDArray[np.uint64] = np.asarray(found, np.uint64)[codes]
    return hashed


def _lists(array: pa.Array) -> npt.NDArray[np.uint64]:
    """Hashes of lists: of their length, and of each value with its position."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
    ends = np.cumsum(lengths)
    places = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
    members = _spread(hashes(array.flatten()) + (places.view(np.uint64) + np.uint64(1)) * ODD)
    total = np.zeros(len(members) + 1, np.uint64)
    np.cumsum(members, out=total[1:])
    found: npt.NDArray[np.uint64] = total[ends] - total[ends - lengths] + lengths.view(np.uint64) * NOTHING
    return found


def _spread(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    mix = (bits ^ (bits >> np.uint64(31))) * MIX
    return np.asarray(mix ^ (mix >> np.uint64(27)), np.uint64)
