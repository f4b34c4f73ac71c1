"""Processes that are forked by our own daemon: they need no further import, and are independent of each other."""

import pyarrow as pa


def report(batches):
    import os
    import sys

    import numpy as np

    for _ in batches:
        drawn, pair = np.random.random(), []
        for _ in range(2):  # what a function seeds itself is its own affair
            np.random.seed(1)
            (read, write) = os.pipe()
            if not os.fork():
                os.write(write, np.random.random(1).tobytes())
                os._exit(0)
            os.wait()
            pair.append(os.read(read, 8))
        needed = {"pandas", "numba", "evenflow.runtime.worker.loop", "evenflow.runtime.feeder.keyed.feeder"}
        there = needed <= set(sys.modules) and "matplotlib" not in sys.modules
        yield pa.RecordBatch.from_pydict({"there": [there], "drawn": [drawn], "same": [pair[0] == pair[1]]})


def test_all_is_there_and_each_draws_numbers_of_its_own(spark):
    found = spark.range(4, numPartitions=4).mapInArrow(report, "there boolean, drawn double, same boolean").collect()
    assert all(row.there and row.same for row in found)
    assert len({row.drawn for row in found}) == 4
