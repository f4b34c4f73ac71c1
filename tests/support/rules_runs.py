"""Rules run on a few rows."""

import numpy as np
import pyarrow as pa

from evenflow.rules.operator import RuleOperator


def push(operator, columns, keys=None, frame=None):
    rows = pa.record_batch(columns)
    keys = np.zeros(rows.num_rows, np.int64) if keys is None else np.asarray(keys, np.int64)
    parts, origins = [], []
    for start in range(0, rows.num_rows, frame or max(1, rows.num_rows)):
        stop = start + (frame or rows.num_rows)
        batch, origin = operator.process(
            rows.slice(start, stop - start), (keys[start:stop] % 4).astype(np.int32), keys[start:stop]
        )
        parts.append(batch)
        origins += (origin + start).tolist()
    return pa.Table.from_batches(parts).to_pylist(), origins


def values(expression, columns, **more):
    found, _ = push(RuleOperator(f"select {expression} as it from T", **more), columns)
    return [row["it"] for row in found]


PAPER = """SELECT *
FROM Tweet.std:lastevent () LE,
      Tweet.std:groupwin(fingerprint).win:length(H) as TW
WHERE LE.fingerprint = TW.fingerprint
HAVING MAX(TWEET.SIMILARITY(LE.TEXT,TW.TEXT))<=τ
"""
