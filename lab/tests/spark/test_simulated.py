"""One scenario in both worlds: live workers of emulated speed, and simulated ones of the same speeds and key shares."""

import numpy as np
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.policy import keyed_balance_named
from evenflow.policy.keyed.loads import engine_loads, imbalance
from evenflow.sim.keyed.plane import KeyedPlane
from evenflow.sim.keyed.setup import KeyedSetup
from evenflow.sim.simulation import Simulation

WORKERS, UNITS, ROWS, COST_US = 3, 60, 60_000, 60.0
DLB = {"theta": 10.0, "window_rows": 5_000}
"""It goes by the rows that came, not by how long they took: so what it does hardly depends on the machine's load."""
TOLERANCE = 0.05
"""By which a worker's share of the rows may differ in the end: windows end with reports, which are never the same."""


def live(spark):
    """Owners at the end, and the rows of each unit: four keys have half of the rows."""
    key = F.expr("case when id % 2 = 0 then id % 8 else id % 5000 end").alias("k")
    df = spark.range(0, ROWS, 1, 1).select(key, F.col("id").alias("x"))
    with ef.Cluster(spark, WORKERS, emulate=ef.testing.Emulate(cost_us=COST_US)) as cluster:
        operator = ef.RunningCount("x")
        out = cluster.keyed(
            df, "k", operator, tuning=ef.Tuning(units=UNITS, skew_bytes="64k"), balance="dlb-h", name="both", **DLB
        )
        assert out.count() == ROWS
        snapshot = cluster.region("both").snapshot()
    return snapshot.table.owners, snapshot.unit_arrived


def simulated(unit_rows):
    """The same in the simulator; rows come in a random order, as many of each unit as there were live."""
    trace = np.random.RandomState(1).permutation(np.repeat(np.arange(len(unit_rows)), unit_rows))
    setup = KeyedSetup(
        workers=WORKERS,
        feeders=1,
        units=len(unit_rows),  # with that of rows without a key
        rows=ROWS,
        trace=tuple(trace.tolist()),
        row_us=COST_US,
        feeder_us=0.0,
        packet_rows=160,
        skew_rows=3_000,
        unit_bytes=5_000,
    )
    plane = KeyedPlane(setup, keyed_balance_named("dlb-h", **DLB))
    world = Simulation(plane, WORKERS)
    world.run(30.0)
    assert plane.rows["served"] == ROWS
    return world.controller.region("keyed").movements.table.owners


def test_dlb_ends_with_the_same_loads_live_and_simulated(spark):
    owners, unit_rows = live(spark)
    twins = simulated(unit_rows)
    first = engine_loads(np.arange(len(unit_rows)) % WORKERS, unit_rows, WORKERS)
    loads, twin_loads = (engine_loads(each, unit_rows, WORKERS) for each in (owners, twins))
    assert loads.sum() == twin_loads.sum() == ROWS
    assert imbalance(first) > DLB["theta"]
    assert max(imbalance(loads), imbalance(twin_loads)) < imbalance(first)
    assert loads / ROWS == pytest.approx(twin_loads / ROWS, abs=TOLERANCE)
