"""State that is stored: whatever is killed or evaluated twice, the output is that of a run without faults."""

import os
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow as ef
from tests.spark.moving import Nth, nth_of, stop_quietly

FILES = 4
EACH = 2_000
KEYS = 97


@pytest.fixture
def files(tmp_path):
    """Each file is one micro-batch."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        ids = np.arange(number * EACH, (number + 1) * EACH)
        table = pa.table({"id": ids, "k": ids % KEYS, "v": ids * 0.5})
        path = folder / f"{number:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def stream(spark, files):
    return spark.readStream.schema("id long, k long, v double").option("maxFilesPerTrigger", 1).parquet(str(files))


def start(spark, cluster, files, tmp_path, **options):
    """A query from the files to more files, with state in between."""
    out = cluster.keyed(stream(spark, files), "k", Nth(), **options)
    writer = out.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "spark"))
    return writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start()


def check(spark, tmp_path, files=FILES):
    got = spark.read.parquet(str(tmp_path / "out")).orderBy("id").toArrow()
    assert got["id"].to_pylist() == list(range(files * EACH))
    assert got["nth"].to_pylist() == nth_of(number % KEYS for number in range(files * EACH))


def kill(cluster, worker):
    os.kill(cluster.workers()[worker].pid, signal.SIGKILL)


def some(files, count):
    """Hide all but the first few files; gives a function that brings the rest back."""
    rest = sorted(files.iterdir())[count:]
    for path in rest:
        path.rename(path.with_name(f"_{path.name}"))

    def back():
        for path in rest:
            path.with_name(f"_{path.name}").rename(path)

    return back


@pytest.mark.parametrize("workers", [3, 1])
def test_goes_on_in_another_cluster(spark, tmp_path, files, workers):
    back = some(files, 2)
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
        check(spark, tmp_path, 2)
    back()
    with ef.Cluster(spark, workers, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
        loaded = [event for event in cluster.events() if event["event"] == "loaded"]
    check(spark, tmp_path)
    assert len(loaded) == workers
    assert sum(event["rows"] for event in loaded) + sum(event["bytes"] for event in loaded) > 0


def test_goes_on_in_the_same_cluster(spark, tmp_path, files):
    back = some(files, 2)
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path).awaitTermination(120)
        back()
        start(spark, cluster, files, tmp_path).awaitTermination(120)
        assert not [event for event in cluster.events() if event["event"] == "loading"]
    check(spark, tmp_path)


def test_a_worker_is_killed_between_batches(spark, tmp_path, files, eventually):
    back = some(files, 2)
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path).awaitTermination(120)
        kill(cluster, 0)
        eventually(lambda: cluster.workers()[0].restarts == 1, what="replaced")
        back()
        start(spark, cluster, files, tmp_path).awaitTermination(120)
    check(spark, tmp_path)


def test_supervised_through_the_loss_of_workers(spark, tmp_path, files):
    """Every third batch a worker dies; the query is started again until it is through."""
    with ef.Cluster(spark, 3, checkpoint=tmp_path / "state") as cluster:
        killer = Killer(cluster)
        ef.supervise(lambda: start(spark, cluster, files, tmp_path), cluster, restarts=5, backoff=0.2)
        killer.stop()
        assert killer.killed
    check(spark, tmp_path)


class Killer(threading.Thread):
    """Kills workers while rows flow."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.killed, self.over = cluster, 0, threading.Event()
        self.start()

    def run(self):
        seen = 0
        while not self.over.wait(0.05):
            begun = sum(event["event"] == "feeder-joined" for event in self.cluster.events())
            if begun > seen + 1 and self.killed < 3:
                seen = begun
                live = [worker for worker in self.cluster.workers() if worker.state == "live"]
                os.kill(live[self.killed % len(live)].pid, signal.SIGKILL)
                self.killed += 1

    def stop(self):
        self.over.set()
        self.join(10)


def test_two_actions_in_foreach_batch(spark, tmp_path, files):
    """Each evaluates the batch anew, from the same state; the first sees all partitions, the last only one."""
    seen = []

    def act(batch, epoch):
        seen.append((epoch, batch.toArrow().sort_by("id")["nth"].to_pylist(), batch.count(), batch.take(5)))

    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        out = cluster.keyed(stream(spark, files), "k", Nth())
        writer = out.writeStream.foreachBatch(act).option("checkpointLocation", str(tmp_path / "spark"))
        writer.trigger(availableNow=True).start().awaitTermination(120)
    wanted = nth_of(number % KEYS for number in range(FILES * EACH))
    assert [nth for _, part, _, _ in seen for nth in part] == wanted
    assert [count for _, _, count, _ in seen] == [EACH] * FILES


def test_another_operator_is_refused(spark, tmp_path, files):
    back = some(files, 1)
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path, name="n", units=64).awaitTermination(120)
    back()
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        with pytest.raises(Exception, match=r"has 64 units, and this has 32: give keyed units=64"):
            start(spark, cluster, files, tmp_path, name="n", units=32).awaitTermination(120)
        with pytest.raises(ef.errors.InvalidArgument, match="name 'n' is that of Nth"):
            cluster.keyed(stream(spark, files), "k", ef.RollingMean("v", rows=3), name="n", units=32)


def test_one_cluster_at_a_time(spark, tmp_path):
    first = ef.Cluster(spark, 1, checkpoint=tmp_path / "state")
    with first, pytest.raises(ef.EvenflowError, match="is in use by cluster"):
        ef.Cluster(spark, 1, checkpoint=tmp_path / "state")
    ef.Cluster(spark, 1, checkpoint=tmp_path / "state").stop()


def test_another_key_is_refused(spark, tmp_path, files):
    with ef.Cluster(spark, 1, checkpoint=tmp_path / "state") as cluster:
        cluster.keyed(stream(spark, files), "k", Nth(), name="n")
        with pytest.raises(
            ef.errors.InvalidArgument, match=r"name 'n' is that of Nth\(\) by k .* this is Nth\(\) by id"
        ):
            cluster.keyed(stream(spark, files), "id", Nth(), name="n")
        with pytest.raises(ef.errors.InvalidArgument, match="name=5: give a string"):
            cluster.keyed(stream(spark, files), "k", Nth(), name=5)


@pytest.mark.parametrize(
    "wrong", [{"qos": {"a": "x"}}, {"qos": ["a"]}, {"qos": {"a": 0}}, {"period": "x"}, {"checkpoint": 5}]
)
def test_wrong_arguments(spark, wrong):
    with pytest.raises(ef.errors.InvalidArgument, match=next(iter(wrong))):
        ef.Cluster(spark, 1, **wrong)


def slowly(df):
    """The rows, each Arrow batch of them a while in coming."""

    def pass_on(batches):
        for batch in batches:
            time.sleep(0.2)
            yield batch

    return df.repartition(4).mapInArrow(pass_on, df.schema)


@pytest.fixture
def slow(spark, tmp_path, files, conf, eventually):
    """A cluster, and a query that is in the middle of a batch that takes a while."""
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        out = cluster.keyed(slowly(stream(spark, files)), "k", Nth(), name="n")
        query = out.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "spark")).start()
        eventually(lambda: cluster.keyed_snapshot("n").unit_rows.any(), 90, "rows in state")
        yield cluster, query
        stop_quietly(query)


def happened(cluster, name):
    return [event for event in cluster.events() if event["event"] == name]


def test_a_batch_that_cannot_count_is_given_up_at_once(slow):
    """Spark tries each task four times; all but the first would be refused."""
    cluster, query = slow
    kill(cluster, 0)
    with pytest.raises(
        Exception, match=r"cancelled because region n: worker 0 was lost.* the batch is to be run again"
    ):
        query.awaitTermination(60)
    assert happened(cluster, "attempt-poisoned")
    assert len(happened(cluster, "feeder-refused")) < 8


def test_names_in_qos_that_no_operator_has(spark):
    df = spark.range(3)
    cluster = ef.Cluster(spark, 1, qos={"means": 5.0})
    try:
        with pytest.warns(UserWarning, match="operator 'meens' has weight 1"):
            cluster.keyed(df, "id", Nth(), name="meens")
    finally:
        with pytest.warns(UserWarning, match="qos has weights for 'means', and no keyed operator had such a name"):
            cluster.stop()
