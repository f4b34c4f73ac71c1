"""Keyed operators whose workers die or whose queries come again: a clear error, never wrong rows, never a hang."""

import os
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from tests.support.background import Query
from tests.support.moving import Nth, nth_of, region, source, stop_quietly

ROWS = 3_000
LOST = r"(?s)StateLost.*worker \d.*lost.*start the query again from the beginning"


@pytest.fixture(scope="module")
def small(spark):
    """A cluster of its own, that may be hurt."""
    with ef.Cluster(spark, workers=3) as cluster:
        yield cluster


def all_live(cluster):
    return all(worker.state == "live" for worker in cluster.workers())


def kill(cluster, eventually, worker=0):
    """SIGKILL a worker and wait until it has been replaced."""
    victim = cluster.workers()[worker]
    os.kill(victim.pid, signal.SIGKILL)
    eventually(lambda: cluster.workers()[worker].restarts > victim.restarts and all_live(cluster), what="replaced")


def numbers(count=ROWS):
    """Wide rows: Spark hands them on 64 KB at a time, so narrow ones would all come at once, at the end."""
    pad = pa.array(["x" * 2_000] * count)
    return pa.table({"id": pa.array(np.arange(count)), "k": pa.array(np.arange(count) % 50), "pad": pad})


def check(table, count=ROWS):
    got = table.sort_by("id")
    assert got["id"].to_pylist() == list(range(count))
    assert got["nth"].to_pylist() == nth_of(number % 50 for number in range(count))


def check_batch(spark, cluster):
    check(cluster.keyed(source(spark, numbers(), pause_s=0), "k", Nth()).toArrow())


@pytest.fixture
def held(tmp_path):
    """As long as it is there, the last rows do not come."""
    gate = tmp_path / "held"
    gate.touch()
    yield gate
    gate.unlink(missing_ok=True)


@pytest.mark.parametrize("ordered", [False, True])
def test_worker_killed_in_the_middle_of_a_batch(spark, small, conf, eventually, held, ordered):
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    name = region("killed")
    df = source(spark, numbers(), held=held)
    out = small.keyed(df, "k", Nth(), name=name, ordered=ordered)
    query = Query(out.toArrow)
    eventually(lambda: small.region(name).snapshot().unit_rows.sum() > 0, what="rows are in state")
    kill(small, eventually)
    held.unlink()
    with pytest.raises(Exception, match=LOST):
        query.result()
    check(out.toArrow())
    check_batch(spark, small)


def test_worker_killed_while_units_go_there(spark, small, conf, eventually, held):
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    name = region("target")
    out = small.keyed(
        source(spark, numbers(), pause_s=0.02, held=held), "k", Nth(), tuning=ef.Tuning(units=64), name=name
    )
    query = Query(out.toArrow)
    eventually(lambda: small.region(name).snapshot().unit_rows.sum() > 0, what="rows are in state")
    small.region(name).move(list(range(64)), 2)
    kill(small, eventually, 2)
    held.unlink()
    with pytest.raises(Exception, match=LOST):
        query.result()
    check_batch(spark, small)


def test_worker_without_units_killed(spark, small, conf, eventually):
    """No state is lost with it: the query goes on."""
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    name = region("bystander")
    out = small.keyed(
        source(spark, numbers(), pause_s=0.05), "k", Nth(), tuning=ef.Tuning(units=9), balance="hash", name=name
    )
    query = Query(out.toArrow)
    eventually(lambda: small.region(name).snapshot().unit_rows.sum() > 0, what="rows are in state")
    small.region(name).move(list(range(10)), 1)
    eventually(
        lambda: set(small.region(name).snapshot().table.owners.tolist()) == {1}, what="all units are at worker 1"
    )
    kill(small, eventually, 2)
    try:
        check(query.result())
    except AssertionError:
        raise
    except Exception as error:
        assert "StateLost" in str(error)  # noqa: PT017 - more careful than it has to be, and clear
    check_batch(spark, small)


class Stream:
    """A stream of files that a test adds one by one."""

    def __init__(self, spark, folder):
        self._spark, self.folder, self._files = spark, folder, 0
        (folder / "in").mkdir()

    def add(self, table):
        self._files += 1
        hidden = self.folder / f".{self._files}"
        pq.write_table(table, hidden)
        os.utime(hidden, (1_700_000_000 + self._files,) * 2)  # Spark takes the oldest first
        hidden.rename(self.folder / "in" / f"{self._files}.parquet")

    def keyed(self, cluster, **options):
        reader = self._spark.readStream.schema("id long, k long").option("maxFilesPerTrigger", 1)
        return cluster.keyed(reader.parquet(str(self.folder / "in")), "k", Nth(), **options)

    def start(self, out, **trigger):
        options = {"path": str(self.folder / "out"), "checkpointLocation": str(self.folder / "checkpoint")}
        trigger = trigger or {"processingTime": "0 seconds"}
        return out.writeStream.format("parquet").options(**options).trigger(**trigger).start()

    def result(self):
        return self._spark.read.parquet(str(self.folder / "out")).toArrow()


@pytest.fixture
def stream(spark, tmp_path):
    return Stream(spark, tmp_path)


def test_worker_killed_between_micro_batches(spark, small, stream, eventually):
    rows = numbers()
    stream.add(rows.slice(0, 1_000))
    out = stream.keyed(small)
    query = stream.start(out)
    try:
        eventually(lambda: out_rows(query) == 1_000, what="the first micro-batch is done")
        stream.add(rows.slice(1_000, 1_000))
        eventually(lambda: out_rows(query) == 2_000, what="two micro-batches are done")
        kill(small, eventually, 1)
        stream.add(rows.slice(2_000, 1_000))
        with pytest.raises(Exception, match=LOST):
            query.awaitTermination(120)
        assert not query.isActive
    finally:
        stop_quietly(query)
    check(stream.result(), 2_000)
    again = stream.start(out)
    with pytest.raises(Exception, match=LOST):
        again.awaitTermination(120)
    stop_quietly(again)
    check(stream.result(), 2_000)
    check_batch(spark, small)


def out_rows(query):
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def test_query_stopped_and_started_again_goes_on_with_its_state(small, stream):
    """The same DataFrame on the same cluster: its state is still there."""
    out = stream.keyed(small)
    for part in range(3):
        stream.add(numbers().slice(part * 1_000, 1_000))
        query = stream.start(out, availableNow=True)
        assert query.awaitTermination(120)
    check(stream.result(), 3_000)


def test_query_goes_on_elsewhere(spark, small, cluster, stream):
    """A region that has not seen the first batches has no state of them."""
    stream.add(numbers().slice(0, 1_000))
    query = stream.start(stream.keyed(small), availableNow=True)
    assert query.awaitTermination(120)
    stream.add(numbers().slice(1_000, 1_000))
    for other in (cluster, small):
        query = stream.start(stream.keyed(other), availableNow=True)
        with pytest.raises(
            Exception, match=r"(?s)batch 1 of query .* no state of the batches before it: .*Give Cluster checkpoint="
        ):
            query.awaitTermination(120)
    check(stream.result(), 1_000)


def test_foreach_batch_that_evaluates_twice(small, stream):
    stream.add(numbers())
    counts = []

    def twice(batch, _number):
        counts.extend([batch.count(), batch.count()])

    writer = stream.keyed(small).writeStream.foreachBatch(twice)
    query = writer.option("checkpointLocation", str(stream.folder / "c")).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=r"(?s)is here again.*persist\(\) it first"):
        query.awaitTermination(120)
    assert counts == []


def test_foreach_batch_that_persists(small, stream):
    for part in range(2):
        stream.add(numbers().slice(part * 1_000, 1_000))
    seen = []

    def twice(batch, _number):
        batch.persist()
        seen.append(batch.toArrow())
        assert batch.count() == seen[-1].num_rows
        batch.unpersist()

    writer = stream.keyed(small).writeStream.foreachBatch(twice)
    query = writer.option("checkpointLocation", str(stream.folder / "c")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    check(pa.concat_tables(seen), 2_000)


def test_task_that_fails_once_is_not_counted_twice(spark, small, tmp_path):
    """Spark tries the task again; some of its rows are in state already."""
    once = str(tmp_path / "once")

    def fail_once(batches):
        for number, batch in enumerate(batches):
            if number == 15 and not os.path.exists(once):
                with open(once, "w"):
                    raise RuntimeError("only this time")
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        df = source(spark, numbers(), pause_s=0.05).mapInArrow(fail_once, "id long, k long, pad string")
        out = small.keyed(df, "k", Nth())
        with pytest.raises(Exception, match=r"only this time|start again from the beginning"):
            out.toArrow()
        check(out.toArrow())
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_cluster_stopped_during_a_stream(spark, stream):
    with ef.Cluster(spark, workers=1) as cluster:
        stream.add(numbers())
        query = stream.start(stream.keyed(cluster))
        while not query.recentProgress:
            query.awaitTermination(0.1)
    stream.add(numbers())
    with pytest.raises(Exception, match=r"(?s)cluster .* does not serve region .* any more"):
        query.awaitTermination(120)
    assert not query.isActive


def test_restarted_worker_takes_part(spark, small, eventually):
    kill(small, eventually, 1)
    name = region("after")
    out = small.keyed(source(spark, numbers(), pause_s=0), F.col("k"), Nth(), tuning=ef.Tuning(units=30), name=name)
    check(out.toArrow())
    eventually(lambda: small.region(name).snapshot().unit_rows.sum() == ROWS, what="the last reports")
    snapshot = small.region(name).snapshot()
    assert [c.worker for c in snapshot.consumers] == [0, 1, 2]
    assert min(np.bincount(snapshot.table.owners)) > 0
    assert all(c.rows > 0 for c in snapshot.consumers)


def test_rate_source_whose_first_batch_is_empty(spark, small, tmp_path, eventually):
    """Batch 0 of a rate source has no tasks at all: batch 1 is the first that anybody sees."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    out = small.keyed(rows.selectExpr("value id", "value % 3 k"), "k", Nth())
    query = out.writeStream.format("memory").queryName("rated").outputMode("append").start()
    try:
        eventually(lambda: spark.table("rated").count() > 60 or query.exception(), what="rows or an error")
        assert query.exception() is None
    finally:
        query.stop()


def test_batch_operator_inside_a_stream_starts_afresh(spark, small, tmp_path, eventually):
    """The static side of a stream runs in every micro-batch, and each time from the beginning."""
    pq.write_table(pa.table({"id": [1]}), tmp_path / "0.parquet")
    seen = []

    def each(batch, number):
        static = small.keyed(spark.range(0, 30, 1, 1).selectExpr("id", "id % 3 k"), "k", Nth())
        seen.append(static.agg(F.max("nth")).collect()[0][0])
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"{number + 1}.parquet")

    stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path))
    query = stream.writeStream.foreachBatch(each).start()
    try:
        eventually(lambda: len(seen) >= 3 or not query.isActive, what="three micro-batches")
    finally:
        query.stop()
    assert seen[:3] == [10, 10, 10]
