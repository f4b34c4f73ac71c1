"""Marks that tell, beside each row of a batch of Spark's, which columns of the batch have nulls.

The dtype that pandas has for whole numbers and booleans depends on whether a batch has nulls of them. A batch of
Spark's is cut into frames, by how fast workers are; so that results do not depend on that, each frame knows which of
these columns have nulls anywhere in the batch: a bit for each, in one further column of a few bytes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

NULLS = "__evenflow_nulls"


def marked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the column NULLS, if it has columns whose dtype in pandas depends on nulls."""
    places = _places(batch.schema)
    if not places:
        return batch
    bits = np.packbits([batch.column(place).null_count > 0 for place in places])
    told = pa.py_buffer(np.tile(bits, batch.num_rows).tobytes())
    column = pa.Array.from_buffers(pa.binary(len(bits)), batch.num_rows, [None, told])
    return batch.append_column(NULLS, column)


def parted(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
    """A frame without the column NULLS, and the places of the columns that have nulls in its batch."""
    width = batch.num_columns - 1
    if width < 0 or batch.schema.names[width] != NULLS or not batch.num_rows:
        return batch, []
    bits = np.unpackbits(np.frombuffer(batch.column(width)[0].as_py(), np.uint8))
    rows = batch.select(list(range(width)))
    return rows, [place for place, has in zip(_places(rows.schema), bits, strict=False) if has]


def _places(schema: pa.Schema) -> list[int]:
    """The places of whole numbers and booleans."""
    return [place for place, kind in enumerate(schema.types) if pa.types.is_integer(kind) or pa.types.is_boolean(kind)]
