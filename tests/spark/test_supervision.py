"""Workers that die, clusters that stop: rows stay right, nothing stays behind."""

import os
import signal
import socket
import threading
from contextlib import suppress

import psutil
import pyarrow as pa
import pytest

import evenflow as ef
from tests.support.background import Holding, Query
from tests.support.comparison import assert_same, committed, plain_map, rows_of

ROWS = 20_000


def identity(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def reference(spark, partitions=2):
    return plain_map(spark.range(0, ROWS, 1, partitions), identity, "id long")


@pytest.fixture
def holding(tmp_path):
    held = Holding(tmp_path)
    yield held
    held.let_go()


def kill_worker(cluster, eventually, pid):
    """SIGKILL a worker; wait until another has taken its place."""

    def live():
        return {worker.pid for worker in cluster.workers() if worker.state == "live"}

    os.kill(pid, signal.SIGKILL)
    eventually(lambda: pid not in live(), 30, "noticed")
    eventually(lambda: len(live()) == len(cluster.workers()), 30, "replaced")


def listening(pid, port):
    try:
        return port in {c.laddr.port for c in psutil.Process(pid).net_connections() if c.status == psutil.CONN_LISTEN}
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("balance", ["round-robin", "reroute", "credits"])  # one for each way of splitting
def test_worker_killed_in_the_middle_of_a_batch(spark, tmp_path, holding, eventually, balance):
    """The rows it held are not lost, doubled or out of order in what is committed."""
    with ef.Cluster(spark, workers=3) as cluster:
        df = spark.range(0, ROWS, 1, 2)
        out = cluster.ordered_map(df, holding.function(), "id long", balance=balance)
        query = Query(lambda: out.write.parquet(str(tmp_path / "out")))
        eventually(holding.inside, what="a worker is at work")
        pid = holding.inside()[0]
        worker = next(worker for worker in cluster.workers() if worker.pid == pid)
        kill_worker(cluster, eventually, pid)
        holding.let_go()
        query.result()
        assert_same(committed(tmp_path / "out"), reference(spark), ROWS)
        assert {w.id: w.restarts for w in cluster.workers()} == {w: int(w == worker.id) for w in range(3)}
        lost = [event for event in cluster.events() if event["event"] == "worker-lost"]
        assert [(event["worker"], event["pid"]) for event in lost] == [(worker.id, pid)]
        assert_same(cluster.ordered_map(df, identity, "id long", balance=balance), reference(spark), ROWS)


def test_worker_killed_during_a_stream(spark, tmp_path, holding, eventually):
    with ef.Cluster(spark, workers=2) as cluster:
        spark.range(0, ROWS, 1, 3).write.parquet(str(tmp_path / "in"))
        df = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        writer = cluster.ordered_map(df, holding.function(), "id long").writeStream.format("parquet")
        options = {"path": str(tmp_path / "out"), "checkpointLocation": str(tmp_path / "checkpoint")}
        query = writer.options(**options).trigger(availableNow=True).start()
        eventually(holding.inside, what="a worker is at work")
        kill_worker(cluster, eventually, holding.inside()[0])
        holding.let_go()
        assert query.awaitTermination(120)
        assert query.exception() is None
        got = spark.read.parquet(str(tmp_path / "out")).orderBy("id").toArrow()
        assert_same(got, spark.range(0, ROWS, 1, 1).toArrow(), ROWS)
        assert sum(worker.restarts for worker in cluster.workers()) == 1


def test_all_workers_killed_in_the_middle_of_a_batch(spark, holding, eventually):
    with ef.Cluster(spark, workers=2) as cluster:
        out = cluster.ordered_map(spark.range(0, ROWS, 1, 2), holding.function(), "id long")
        query = Query(lambda: rows_of(out))
        eventually(lambda: len(holding.inside()) == 2, what="both workers are at work")
        for pid in holding.inside():
            os.kill(pid, signal.SIGKILL)
        holding.let_go()
        assert_same(query.result(), reference(spark), ROWS)
        eventually(lambda: [worker.restarts for worker in cluster.workers()] == [1, 1], what="both are replaced")


def test_feeder_killed_in_the_middle_of_a_batch(spark, holding, eventually):
    """The query's own Python process dies: Spark runs the task again, the workers go on."""
    with ef.Cluster(spark, workers=2) as cluster:
        out = cluster.ordered_map(spark.range(0, ROWS, 1, 2), holding.function(), "id long", name="orphans")
        query = Query(lambda: rows_of(out))
        eventually(lambda: cluster.region("orphans").snapshot().feeders == 2, what="feeders are there")
        eventually(holding.inside, what="a worker is at work")
        os.kill(next(iter(feeder_pids(cluster))), signal.SIGKILL)
        eventually(lambda: "feeder-left" in {event["event"] for event in cluster.events()}, what="it is missed")
        holding.let_go()
        assert_same(query.result(), reference(spark), ROWS)
        assert [worker.restarts for worker in cluster.workers()] == [0, 0]
        attempts = [event["attempt"] for event in cluster.events() if event["event"] == "feeder-joined"]
        assert sorted(attempts) == [0, 0, 1]


def feeder_pids(cluster):
    """Processes connected to a worker that are neither workers nor this one."""
    workers = {worker.pid: worker.port for worker in cluster.workers()}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # Spark's processes come and go
            peers = {connection.raddr.port for connection in process.net_connections() if connection.raddr}
            python = process.pid not in workers and process.name().startswith("python")
            if python and peers & set(workers.values()):
                yield process.pid


def test_worker_that_dies_again_and_again(spark, eventually):
    """More often than Spark retries a task: its job is submitted anew."""
    with ef.Cluster(spark, workers=1) as cluster:
        for deaths in range(1, 6):
            kill_worker(cluster, eventually, cluster.workers()[0].pid)
            assert cluster.workers()[0].restarts == deaths
        out = cluster.ordered_map(spark.range(0, ROWS, 1, 2), identity, "id long")
        assert_same(out, reference(spark), ROWS)


def test_row_that_kills_whoever_takes_it(spark, eventually):
    """The user is told which rows; the cluster comes back."""

    def poison(batch):
        import os
        import signal

        if 7_777 in batch.column("id").to_pylist():
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    with ef.Cluster(spark, workers=2) as cluster:
        out = cluster.ordered_map(spark.range(0, 10_000, 1, 1), poison, "id long")
        with pytest.raises(Exception, match=r"rows \d+ to \d+ of partition 0 were lost with 2 workers") as caught:
            out.collect()
        first, last = str(caught.value).split("rows ")[1].split(" of partition")[0].split(" to ")
        assert int(first) <= 7_777 <= int(last)
        eventually(lambda: all(worker.state == "live" for worker in cluster.workers()), what="all are back")
        out = cluster.ordered_map(spark.range(0, ROWS, 1, 2), identity, "id long")
        assert_same(out, reference(spark), ROWS)


def test_two_clusters_on_one_session(spark, cluster):
    df = spark.range(0, ROWS, 1, 2)
    with ef.Cluster(spark, workers=2) as other:
        here, there = cluster.ordered_map(df, identity, "id long"), other.ordered_map(df, identity, "id long")
        both = [Query(lambda out=out: rows_of(out)) for out in (here, there)]
        for query in both:
            assert_same(query.result(), reference(spark), ROWS)
        assert not {worker.pid for worker in cluster.workers()} & {worker.pid for worker in other.workers()}
        chained = other.ordered_map(here, identity, "id long")
        assert_same(chained, reference(spark), ROWS)
    assert_same(here, reference(spark), ROWS)


def test_stop_leaves_nothing(spark, eventually):
    threads = set(threading.enumerate())
    cluster = ef.Cluster(spark, workers=2)
    cluster.ordered_map(spark.range(0, ROWS, 1, 2), identity, "id long").count()
    workers = cluster.workers()
    assert all(listening(worker.pid, worker.port) for worker in workers)
    driver_port = cluster._settings.port
    assert listening(os.getpid(), driver_port)
    cluster.stop()
    cluster.stop()
    assert [worker.state for worker in cluster.workers()] == ["stopped", "stopped"]
    eventually(lambda: not [w for w in workers if listening(w.pid, w.port)], what="the workers' ports are closed")
    assert not listening(os.getpid(), driver_port)
    assert not {thread for thread in threading.enumerate() if thread.name.startswith("evenflow")} - threads
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", driver_port), timeout=5):
        pass
    eventually(lambda: not active_worker_jobs(spark, cluster), what="Spark's jobs have ended")


def active_worker_jobs(spark, cluster):
    tracker = spark.sparkContext.statusTracker()
    jobs = tracker.getJobIdsForGroup(f"evenflow-{cluster._settings.cluster}")
    return [job for job in jobs if (info := tracker.getJobInfo(job)) and info.status == "RUNNING"]


def test_exception_in_the_with_block(spark, eventually):
    workers = []

    def fail():
        with ef.Cluster(spark, workers=2) as cluster:
            workers.extend(cluster.workers())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    eventually(lambda: not [w for w in workers if listening(w.pid, w.port)], what="the workers' ports are closed")
    assert len(workers) == 2


def test_stop_while_a_query_runs(spark, holding, eventually, monkeypatch):
    """The query fails with the reason; a worker that does not come out of its function is ended by Spark."""
    monkeypatch.setattr("evenflow.runtime.cluster.lifecycle.STOP_S", 8.0)
    with ef.Cluster(spark, workers=1) as cluster:
        out = cluster.ordered_map(spark.range(0, 100, 1, 1), holding.function(), "id long")
        query = Query(lambda: rows_of(out))
        eventually(holding.inside, what="the worker is at work")
        pid = holding.inside()[0]
    with pytest.raises(Exception, match="does not serve region"):
        query.result()
    eventually(lambda: not active_worker_jobs(spark, cluster), what="Spark's job has ended")
    eventually(lambda: not psutil.pid_exists(pid), what="Spark has ended the process that would not listen")


def test_slots_come_back(spark):
    """As many clusters as one likes, one after the other: each gives its slots back."""
    for _ in range(3):
        with ef.Cluster(spark, workers=5) as cluster:
            assert len(cluster.workers()) == 5


def test_what_workers_tells(spark, cluster):
    workers = cluster.workers()
    assert [worker.id for worker in workers] == [0, 1, 2, 3]
    assert {worker.executor for worker in workers} == {"driver"}
    assert {worker.host for worker in workers} == {"127.0.0.1"}
    assert len({worker.pid for worker in workers}) == 4
    assert all(psutil.pid_exists(worker.pid) for worker in workers)
    assert "4 live" in repr(cluster)
