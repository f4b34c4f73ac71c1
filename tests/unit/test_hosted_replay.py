"""Rows from the log of an earlier run, which had other columns."""

import pyarrow as pa

from evenflow.operators.aggregates.last import LastValue
from evenflow.operators.hosted import Hosted


def test_logged_rows_have_the_columns_of_today():
    today = pa.schema([("v", pa.float64()), ("new", pa.string())])
    hosted = Hosted(LastValue("v"), today, pa.schema([("v_last", pa.float64())]), 4)
    logged = pa.RecordBatch.from_pydict({"gone": [7, 8], "v": [0.5, 1.5], "hash": [3, 5]})
    rows, units, keys = hosted.replayed(logged)
    assert rows.to_pydict() == {"v": [0.5, 1.5], "new": [None, None]}
    assert len(units) == len(keys) == 2
    same = pa.RecordBatch.from_pydict({"v": [0.5], "new": ["a"], "hash": [3]})
    assert hosted.replayed(same)[0].to_pydict() == {"v": [0.5], "new": ["a"]}
