"""One scenario in both worlds: live workers of emulated speed, and the simulator, come to the same weights."""

import numpy as np
import pyarrow as pa
import pytest
from tests.support.comparison import assert_same

import evenflow as ef
from evenflow.policy import balance_named
from evenflow.sim.ordered.plane import OrderedPlane
from evenflow.sim.ordered.scene import OrderedScene, WorkerLoad
from evenflow.sim.simulation import Simulation

ROWS = 45_000
"""Four seconds of work."""
COST_US = 200
FACTOR = 4.0
SHARES = np.array([1 / FACTOR, 1, 1]) / (2 + 1 / FACTOR) * 1000
PERIOD_S = 0.2
TOLERANCE = 120
"""Of 1000: live workers also pay for frames and share two cores with everything else, and a run has twenty samples of
0.2 s. An even split is 221 off for the slow worker."""


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def late_weights(events):
    """The mean of each weight over the second half of the samples."""
    weights = [[c["weight"] for c in event["connections"]] for event in events if event["event"] == "sample"]
    return np.mean(weights[len(weights) // 2 :], axis=0)


def live(spark, balance):
    df = spark.range(0, ROWS, 1, 1)
    emulate = ef.testing.Emulate(cost_us=COST_US, slowdown={0: FACTOR})
    with ef.Cluster(spark, 3, period=PERIOD_S, emulate=emulate) as cluster:
        assert_same(cluster.ordered_map(df, same, df.schema, balance=balance, name="r"), df, least=ROWS)
        return late_weights(cluster.events())


def simulated(balance):
    scene = OrderedScene(3, row_s=COST_US * 1e-6, loads=(WorkerLoad(0, FACTOR),), rows=ROWS)
    plane = OrderedPlane(scene, balance_named(balance))
    world = Simulation(plane, 3, period_s=PERIOD_S)
    world.run(60.0)
    assert plane.rows_out == ROWS
    return late_weights(world.log.entries)


@pytest.mark.parametrize("balance", ["blocking-rate", "credits"])
def test_both_worlds_come_to_the_same_weights(spark, balance):
    there, here = live(spark, balance), simulated(balance)
    assert there == pytest.approx(here, abs=TOLERANCE)
    assert here == pytest.approx(SHARES, abs=TOLERANCE / 4)
