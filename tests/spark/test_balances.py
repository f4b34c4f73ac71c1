"""Every balance on live workers: order, completeness, and what becomes of the slow worker's share (emulated)."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import evenflow as ef
from tests.support.comparison import assert_same, rows_of

WORKERS = 3
EVEN = 1 / WORKERS
EMULATE = ef.testing.Emulate(cost_us=50, slowdown={0: 10})
SPEEDS = {0: 1, 1: 10, 2: 10}


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


@pytest.mark.parametrize(
    ("balance", "rows", "options", "most"),
    [
        ("credits", 40_000, {}, 0.15),
        ("blocking-rate", 120_000, {}, 0.25),
        ("blocking-rate", 120_000, {"explore": False, "every": 1}, 0.25),
        ("lb-adaptive", 120_000, {"step": 100}, 0.3),
        ("oracle", 40_000, {"capacities": SPEEDS}, 0.06),
        ("static", 40_000, {"weights": [0.05, 0.5, 0.45]}, 0.06),
        ("reroute", 40_000, {}, 0.25),
    ],
    ids=lambda value: value if isinstance(value, str) else "".join(value) if isinstance(value, dict) else "",
)
def test_the_slow_worker_gets_less(spark, eventually, balance, rows, options, most):
    df = spark.range(0, rows, 1, 1)
    with ef.Cluster(spark, WORKERS, period=0.1, emulate=EMULATE) as cluster:
        out = cluster.ordered_map(df, same, df.schema, balance=balance, name="r", **options)
        assert_same(out, df, least=rows)
        eventually(lambda: cluster.region("r").snapshot().feeders == 0, what="the last reports")
        sent = [connection.rows_sent for connection in cluster.region("r").snapshot().connections]
    assert sum(sent) >= rows
    assert sent[0] / sum(sent) < most < EVEN


def test_round_robin_gives_the_slow_worker_as_much_as_the_others(spark, eventually):
    df = spark.range(0, 20_000, 1, 1)
    with ef.Cluster(spark, WORKERS, period=0.1, emulate=EMULATE) as cluster:
        out = cluster.ordered_map(df, same, df.schema, balance="round-robin", name="r")
        assert_same(out, df, least=20_000)
        eventually(lambda: cluster.region("r").snapshot().feeders == 0, what="the last reports")
        sent = [connection.rows_sent for connection in cluster.region("r").snapshot().connections]
    assert sent[0] / sum(sent) == pytest.approx(EVEN, abs=0.05)


def test_several_feeders_share_one_model(spark):
    df = spark.range(0, 120_000, 1, 3)
    with ef.Cluster(spark, WORKERS, period=0.1, emulate=EMULATE) as cluster:
        out = cluster.ordered_map(df, same, df.schema, balance="blocking-rate", name="r")
        assert_same(out, df, least=120_000)
        weights = [connection.weight for connection in cluster.region("r").snapshot().connections]
        events = cluster.events()
    assert sum(weights) == 1000
    assert weights[0] < 200
    assert max(event["feeders"] for event in events if event["event"] == "sample") > 1


def test_the_model_outlives_the_query(spark):
    df = spark.range(0, 60_000, 1, 1)
    with ef.Cluster(spark, WORKERS, period=0.1, emulate=EMULATE) as cluster:
        out = cluster.ordered_map(df, same, df.schema, balance="blocking-rate", name="r")
        assert_same(out, df, least=60_000)
        before = [event["connections"][0]["weight"] for event in cluster.events() if event["event"] == "sample"]
        assert_same(out, df, least=60_000)
        samples = [event["connections"][0]["weight"] for event in cluster.events() if event["event"] == "sample"]
    assert before[0] == pytest.approx(1000 * EVEN, abs=1)
    assert before[-1] < 250
    assert samples[len(before)] < 250


def test_event_log_can_be_drawn(spark, tmp_path):
    from evenflow.cli import plot

    log = tmp_path / "events.jsonl"
    df = spark.range(0, 60_000, 1, 1)
    with ef.Cluster(spark, WORKERS, period=0.1, emulate=EMULATE, event_log=log) as cluster:
        cluster.ordered_map(df, same, df.schema, balance="blocking-rate", name="r").count()
    series = plot.read(log)
    assert series.balance == "blocking-rate"
    assert series.weights[0].sum() == pytest.approx(100)
    assert series.weights[-1, 0] < series.weights[0, 0]
    assert series.rates[:, 0].max() > 0.3
    plot.draw(series).savefig(tmp_path / "r.png")
    assert (tmp_path / "r.png").stat().st_size > 10_000


def test_regions_share_workers_by_weight(spark, eventually):
    """While both have rows, the heavy one gets eight ninths of the workers; were they served as frames come, half."""
    light, heavy = spark.range(0, 20_000, 1, 1), spark.range(0, 8_000, 1, 1)
    about = {"period": 0.1, "emulate": ef.testing.Emulate(cost_us=300), "qos": {"heavy": 8}}
    with ef.Cluster(spark, 2, **about) as cluster, ThreadPoolExecutor(2) as pool:

        def done(region):
            return cluster.region(region).snapshot().rows_out

        one = pool.submit(rows_of, cluster.ordered_map(light, same, light.schema, name="light"))
        eventually(lambda: done("light"), what="rows of the light one")
        other = pool.submit(rows_of, cluster.ordered_map(heavy, same, heavy.schema, name="heavy", ordered=False))
        eventually(lambda: done("heavy"), what="rows of the heavy one")
        before = done("light")
        assert sorted(other.result()["id"].to_pylist()) == list(range(8_000))
        assert done("light") - before < 4_000
        assert_same(one.result(), light, least=20_000)
