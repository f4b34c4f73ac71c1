"""State that is stored: whatever is killed or evaluated twice, the output is that of a run without faults."""

import os
import signal
import threading
import time
from contextlib import suppress

import pytest
from pyspark.sql import functions as F

import evenflow as ef
from tests.support.moving import Nth, nth_of, stop_quietly
from tests.support.stored_stream import EACH, FILES, KEYS, check, kill, some, start, stream


def test_a_frozen_worker_is_replaced_when_its_state_is_needed(spark, tmp_path, files):
    """One worker dies and the other is stopped: the state that this is to load would never be there."""
    back = some(files, 2)
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state", stall_timeout=10, period=0.2) as cluster:
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
        before = [worker.pid for worker in cluster.workers()]
        os.kill(before[1], signal.SIGSTOP)
        kill(cluster, 0)
        back()
        try:
            ef.supervise(lambda: start(spark, cluster, files, tmp_path, name="n"), cluster, backoff=0.2)
        finally:
            with suppress(ProcessLookupError):
                os.kill(before[1], signal.SIGCONT)
        lost = [event for event in cluster.events() if event["event"] == "worker-lost" and event["worker"] == 1]
        assert "it answered nothing for" in lost[0]["reason"]
        assert not {worker.pid for worker in cluster.workers()} & set(before)
        assert [worker.restarts for worker in cluster.workers()] == [1, 1]
    check(spark, tmp_path)


def test_goes_on_in_another_cluster(spark, tmp_path, files):
    back = some(files, 2)
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
        check(spark, tmp_path, 2)
    back()
    with ef.Cluster(spark, 1, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
        loaded = [event for event in cluster.events() if event["event"] == "loaded"]
    check(spark, tmp_path)
    assert len(loaded) == 1
    assert sum(event["rows"] for event in loaded) + sum(event["bytes"] for event in loaded) > 0


def test_goes_on_in_the_same_cluster(spark, tmp_path, files):
    back = some(files, 2)
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path).awaitTermination(120)
        back()
        start(spark, cluster, files, tmp_path).awaitTermination(120)
        assert not [event for event in cluster.events() if event["event"] == "loading"]
    check(spark, tmp_path)


def test_supervised_through_the_loss_of_workers(spark, tmp_path, files):
    """Every third batch a worker dies; the query is started again until it is through."""
    with ef.Cluster(spark, 3, checkpoint=tmp_path / "state") as cluster:
        with Killer(cluster) as killer:
            ef.supervise(lambda: start(spark, cluster, files, tmp_path), cluster, restarts=5, backoff=0.2)
        assert killer.killed
    check(spark, tmp_path)


class Killer(threading.Thread):
    """Kills workers while rows flow."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.killed, self.over = cluster, 0, threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_error):
        self.over.set()
        self.join(30)

    def run(self):
        seen = 0
        while not self.over.wait(0.05):
            begun = sum(event["event"] == "feeder-joined" for event in self.cluster.events())
            if begun > seen + 1 and self.killed < 3:
                seen = begun
                live = [worker for worker in self.cluster.workers() if worker.state == "live"]
                with suppress(ProcessLookupError, ZeroDivisionError):  # none is there just now
                    os.kill(live[self.killed % len(live)].pid, signal.SIGKILL)
                    self.killed += 1


def test_two_actions_in_foreach_batch(spark, tmp_path, files):
    """Each evaluates the batch anew, from the same state; the first sees all partitions, the last only one."""
    seen = []

    def act(batch, epoch):
        seen.append((epoch, batch.toArrow().sort_by("id")["nth"].to_pylist(), batch.count(), batch.take(5)))

    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        out = cluster.keyed(stream(spark, files), "k", Nth(), name="n")
        writer = out.writeStream.foreachBatch(act).option("checkpointLocation", str(tmp_path / "spark"))
        writer.trigger(availableNow=True).start().awaitTermination(120)
    wanted = nth_of(number % KEYS for number in range(FILES * EACH))
    assert [nth for _, part, _, _ in seen for nth in part] == wanted
    assert [count for _, _, count, _ in seen] == [EACH] * FILES


def test_another_operator_is_refused(spark, tmp_path, files):
    back = some(files, 1)
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path, tuning=ef.Tuning(units=64)).awaitTermination(120)
    back()
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        with pytest.raises(Exception, match=r"has 64 units, and this has 32: give units=64"):
            start(spark, cluster, files, tmp_path, tuning=ef.Tuning(units=32)).awaitTermination(120)
        with pytest.raises(ef.errors.InvalidArgument, match="name 'n' is that of Nth"):
            cluster.keyed(stream(spark, files), "k", ef.RollingMean("v", rows=3), name="n", tuning=ef.Tuning(units=32))


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
        short = stream(spark, files).withColumn("k", F.col("k").cast("int"))  # its hashes are others
        with pytest.raises(ef.errors.InvalidArgument, match=r"Nth\(\) by k \(bigint\) .* Nth\(\) by k \(int\)"):
            cluster.keyed(short, "k", Nth(), name="n")
        with pytest.raises(ef.errors.InvalidArgument, match="name=5: give a string"):
            cluster.keyed(stream(spark, files), "k", Nth(), name=5)


@pytest.mark.parametrize(
    "wrong", [{"qos": {"a": "x"}}, {"qos": ["a"]}, {"qos": {"a": 0}}, {"period": "x"}, {"checkpoint": 5}]
)
def test_wrong_arguments(spark, wrong):
    with pytest.raises(ef.errors.InvalidArgument, match=next(iter(wrong))):
        ef.Cluster(spark, 1, **wrong)


def held_up(df, gate):
    """The rows; after half of those of a partition the rest does not come as long as there is a file `gate`.

    They are wide, since Spark hands on 64 KB at a time.
    """

    def pass_on(batches):
        for number, batch in enumerate(batches):
            while number == 5 and os.path.exists(gate):
                time.sleep(0.02)
            yield batch

    wide = df.repartition(4).selectExpr("*", "repeat('x', 2000) pad")
    return wide.mapInArrow(pass_on, wide.schema)


@pytest.fixture
def gate(tmp_path):
    """A file that holds rows up."""
    file = tmp_path / "gate"
    file.touch()
    yield file
    file.unlink(missing_ok=True)


@pytest.fixture
def slow(spark, tmp_path, files, gate, conf, eventually):
    """A cluster, and a query that is in the middle of a batch."""
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        out = cluster.keyed(held_up(stream(spark, files), str(gate)), "k", Nth(), name="n")
        query = out.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "spark")).start()
        eventually(lambda: cluster.region("n").snapshot().unit_rows.any(), what="rows in state")
        yield cluster, query
        gate.unlink(missing_ok=True)
        stop_quietly(query)


def happened(cluster, name):
    return [event for event in cluster.events() if event["event"] == name]


def test_a_batch_that_cannot_count_is_given_up_at_once(slow, gate, eventually):
    """Spark tries each task four times; all but the first would be refused."""
    cluster, query = slow
    kill(cluster, 0)
    eventually(lambda: happened(cluster, "attempt-poisoned"), what="the loss is noticed")
    gate.unlink()
    with pytest.raises(
        Exception, match=r"cancelled because region n: worker 0 was lost.* the batch is to be run again"
    ):
        query.awaitTermination(120)


def test_a_query_that_is_stopped_is_no_loss(slow, eventually):
    cluster, query = slow
    query.stop()
    (stopped,) = eventually(lambda: happened(cluster, "attempt-stopped"), what="the end of the attempt")
    assert stopped["why"].startswith("the query was stopped in the middle of batch 0, which is run again when")
    assert not happened(cluster, "attempt-poisoned")


def test_names_in_qos_that_no_operator_has(spark):
    df = spark.range(3)
    cluster = ef.Cluster(spark, 1, qos={"means": 5.0})
    try:
        with pytest.warns(UserWarning, match="operator 'meens' has weight 1"):
            cluster.keyed(df, "id", Nth(), name="meens")
    finally:
        with pytest.warns(UserWarning, match="qos has weights for 'means', and no operator had such a name"):
            cluster.stop()
