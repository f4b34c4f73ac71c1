"""Figures of each micro-batch, by a listener of Spark's."""

import json

import pytest

import evenflow as ef
from evenflow.errors import InvalidArgument
from evenflow.runtime.cluster.spark import query_metrics
from tests.support.stored_stream import EACH, FILES, stream


@pytest.fixture
def told(monkeypatch):
    """Lines for Spark's log."""
    lines = []
    plain = query_metrics.log_progress

    def keep(spark, line):
        plain(spark, line)
        lines.append(line)

    monkeypatch.setattr(query_metrics, "log_progress", keep)
    return lines


def run(spark, listener, out, tmp_path):
    """Run a query to its end, and wait until the listener has heard of it."""
    spark.streams.addListener(listener)
    try:
        writer = out.writeStream.format("noop").queryName("measured")
        query = writer.option("checkpointLocation", str(tmp_path / "spark")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        bus = spark._jsparkSession.sparkContext().listenerBus()
        bus.waitUntilEmpty(60_000)
        return query
    finally:
        spark.streams.removeListener(listener)


def test_each_batch_of_a_keyed_query(spark, cluster, files, tmp_path, told):
    listener = ef.QueryMetrics(cluster)
    operator = ef.RunningCount("v", into="n")
    query = run(spark, listener, cluster.keyed(stream(spark, files), "k", operator, name="counted"), tmp_path)
    with_rows = [progress["batchId"] for progress in query.recentProgress if progress["numInputRows"]]
    assert len(with_rows) == FILES
    batches = listener.batches
    assert [batch.batch for batch in batches] == [progress["batchId"] for progress in query.recentProgress]
    assert sum(batch.rows for batch in batches) == FILES * EACH
    assert {batch.name for batch in batches} == {"measured"}
    assert {batch.query for batch in batches} == {str(query.id)}
    assert all(len(batch.regions) == 1 and batch.regions[0].startswith("counted") for batch in batches)
    some = [batch for batch in batches if batch.rows]
    assert all(0 < batch.latency_p50_ms <= batch.latency_p99_ms for batch in some)
    assert all(batch.imbalance is None or batch.imbalance >= 1 for batch in some)
    assert all(batch.batch_ms > 0 and batch.durable_ms == 0 for batch in some)
    assert [json.loads(line)["batch"] for line in told] == [batch.batch for batch in batches]


def test_as_a_dataframe(spark, cluster, files, tmp_path):
    listener = ef.QueryMetrics(cluster, keep=2)
    assert listener.to_df().count() == 0
    run(spark, listener, cluster.ordered_map(stream(spark, files), lambda b: b, "id long, k long, v double"), tmp_path)
    rows = listener.to_df().orderBy("batch").collect()
    assert [row.batch for row in rows] == [FILES - 2, FILES - 1]
    assert set(listener.to_df().columns) == {field for field in query_metrics.BatchFigures.__dataclass_fields__}
    assert [row.latency_p99_ms for row in rows] == [batch.latency_p99_ms for batch in listener.batches]


def test_queries_that_do_not_use_the_cluster_are_left_out(spark, cluster, files, tmp_path, told):
    listener = ef.QueryMetrics(cluster)
    run(spark, listener, stream(spark, files), tmp_path)
    assert not listener.batches
    assert not told


@pytest.mark.parametrize("given", [{"cluster": 5}, {"keep": 0}, {"keep": "x"}])
def test_wrong_arguments(cluster, given):
    with pytest.raises(InvalidArgument, match="give a"):
        ef.QueryMetrics(**{"cluster": cluster, **given})


def test_batches_that_are_durable(spark, files, tmp_path):
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        listener = ef.QueryMetrics(cluster)
        out = cluster.keyed(stream(spark, files), "k", ef.RunningCount("v", into="n"), name="durable", balance="hash")
        run(spark, listener, out, tmp_path)
    assert all(batch.durable_ms > 0 for batch in listener.batches if batch.rows)
    assert sum(batch.rows for batch in listener.batches) == FILES * EACH
