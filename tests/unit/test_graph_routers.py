"""What feeders know of a graph routes rows as the graph itself does, and has no code of users in it."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

import evenflow as ef
from evenflow.graph.build.binding import bind
from evenflow.graph.routers import routing_plan
from evenflow.graph.routing import Ways

ROWS = pa.schema([("id", pa.int64()), ("k", pa.string()), ("v", pa.float64())])


class Model:
    """Cannot be shipped at all: it would show."""

    def __call__(self, rows):
        return rows

    def __reduce__(self):
        raise TypeError("a model left the driver")


@pytest.fixture
def plan():
    graph = ef.Graph()
    left, right = graph.source("left"), graph.source("right")
    ordered = left.map(Model(), ROWS, ordered=True)
    pairs = left.join(right.filter(Model()), on=["k", ("id", "other")], rows=5, units=4)
    graph.endpoint("ordered", ordered)
    graph.endpoint("pairs", pairs.map(Model(), ROWS))
    graph.endpoint("sums", left.keyed("k", ef.RunningSum("v"), units=8).filter("v > 1"))
    graph.endpoint("right", right)
    return bind(graph, {"left": ROWS, "right": pa.schema([("other", pa.int64()), ("k", pa.string())])})


def test_no_code_of_users(plan):
    with pytest.raises(Exception, match="a model left the driver"):
        cloudpickle.dumps(plan)
    slim = routing_plan(plan)
    assert len(cloudpickle.dumps(slim)) < 20_000
    with pytest.raises(TypeError, match="applies no rows"):
        slim.nodes[0].operator.process(0, None, None, None)


def test_rows_go_the_same_ways(plan):
    slim = routing_plan(plan)
    assert slim.units == plan.units
    assert slim.dense() == plan.dense()
    owners = np.arange(plan.units + 1, dtype=np.int32) % 3
    count = 200
    rows = {
        0: pa.record_batch({"id": range(count), "k": [str(n % 9) for n in range(count)], "v": [0.5] * count}, ROWS),
        1: pa.record_batch({"other": range(count), "k": [None, "x"] * (count // 2)}, plan.streams[1].schema),
    }
    for source, batch in rows.items():
        for turn in (0, 1, 70):
            wanted = list(Ways(plan, owners).split(source, batch, turn))
            assert len(wanted) > 1 or source
            assert list(Ways(slim, owners).split(source, batch, turn)) == wanted
    for stream, known in zip(slim.streams, plan.streams, strict=True):
        told = stream.endpoints or stream.name in plan.sources
        assert stream.schema == (known.schema if told else pa.schema([]))
