"""Processes that are forked by our own daemon: they need no further import, and are independent of each other."""

import pyarrow as pa


def report(batches):
    import sys

    import numpy as np

    for _ in batches:
        needed = {"pandas", "numba", "evenflow.runtime.worker.loop", "evenflow.runtime.feeder.keyed"}
        yield pa.RecordBatch.from_pydict({"there": [needed <= set(sys.modules)], "drawn": [np.random.random()]})


def test_all_is_there_and_each_draws_numbers_of_its_own(spark):
    found = spark.range(4, numPartitions=4).mapInArrow(report, "there boolean, drawn double").collect()
    assert all(row.there for row in found)
    assert len({row.drawn for row in found}) == 4
