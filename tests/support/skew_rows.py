"""Rows for a skew buffer."""

import numpy as np
import pyarrow as pa

from evenflow.runtime.feeder.keyed.skew import SkewBuffer

UNITS = 4
"""Key k is in unit k mod 4; there is one more unit, for null keys."""
ROWS = pa.schema([("id", pa.int64()), ("key", pa.int64())])


def buffer(owners=(0, 1, 0, 1, 0), by_content=True):
    return SkewBuffer(np.array(owners, np.int32), by_content)


def batch(keys, start=0):
    ids = range(start, start + len(keys))
    return pa.RecordBatch.from_arrays([pa.array(ids, pa.int64()), pa.array(keys, pa.int64())], schema=ROWS)
