"""Targets of latency on Spark: rows that may be dropped are, those of the lowest value first, and never in silence."""

import time
from collections import Counter

import pyarrow as pa
import pytest

import evenflow as ef

ROWS = 2000
"""Rows of a micro-batch; `worth` goes from 0 to 99 in turn."""
PATIENCE_S = 60


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


@pytest.fixture(scope="module")
def hurried(spark):
    """A cluster in which nothing is fast enough."""
    qos = {name: ef.Qos(latency_ms=0.001, shed="Worth") for name in ("mapped", "counted")}
    with ef.Cluster(spark, 1, period=0.2, qos=qos) as cluster:
        yield cluster


def stream(spark):
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 1)
    return source.load().selectExpr("value", "value % 100 as worth", "string(value) as text")


@pytest.mark.parametrize("kind", ["mapped", "counted"])
def test_rows_of_low_value_are_dropped_and_counted(spark, hurried, kind):
    rows = stream(spark).drop("text")
    if kind == "mapped":
        out = hurried.ordered_map(rows, same, rows.schema, name=kind)
    else:
        out = hurried.keyed(rows, "value", ef.RunningCount("value", into="n"), name=kind)
    batches = []

    def sink(df, number):
        batches.append(Counter({row.worth: row["count"] for row in df.groupBy("worth").count().collect()}))

    query = out.writeStream.foreachBatch(sink).start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while sum(batches[-1].values() if batches else [ROWS]) == ROWS:
            assert time.monotonic() < deadline, query.exception()
            time.sleep(0.05)
    finally:
        query.stop()
    for kept in batches:
        assert kept[99] == ROWS / 100
        assert sum(kept.values()) == ROWS or kept[0] == 0
    told = hurried.region(kind).snapshot().performance
    assert told.shed >= sum(ROWS - sum(kept.values()) for kept in batches) > 0
    assert told.rows_in >= ROWS * len(batches)
    told_of = [event for event in hurried.events() if event["event"] == "qos" and event["region"] == kind]
    assert next(event["shed"] for event in told_of if event["shed"]) == 0.1


def test_what_dropped_rows_would_break_is_refused(spark, hurried, tmp_path):
    count, batch = ef.RunningCount("value", into="n"), spark.range(5).selectExpr("id as value", "id as worth")
    with pytest.raises(ef.errors.InvalidArgument, match="batch DataFrame: each action would drop other rows"):
        hurried.keyed(batch, "value", count, name="counted")
    with pytest.raises(ef.errors.InvalidArgument, match="order_by or time promises the same results every time"):
        hurried.keyed(stream(spark), "value", count, name="counted", order_by="value")
    with pytest.raises(ef.errors.InvalidArgument, match="shed='Worth', which is not one column of its rows: there are"):
        hurried.ordered_map(stream(spark).drop("worth"), same, "value long", name="mapped")
    textual = stream(spark).selectExpr("value", "text as worth")
    with pytest.raises(ef.errors.InvalidArgument, match="which is string: give a column with numbers or booleans"):
        hurried.ordered_map(textual, same, textual.schema, name="mapped")
    qos = {"n": ef.Qos(latency_ms=5, shed="worth")}
    with (
        ef.Cluster(spark, 1, qos=qos, checkpoint=tmp_path / "state") as stored,
        pytest.raises(ef.errors.InvalidArgument, match="exactly-once results: a batch that is run again would drop"),
    ):
        stored.keyed(stream(spark), "value", count, name="n")
    with pytest.raises(ef.errors.InvalidArgument, match="qos of 'a' is 'fast'"):
        ef.Cluster(spark, 1, qos={"a": "fast"})
