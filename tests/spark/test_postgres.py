"""A PostgreSQL database as the checkpoint: queries go on, whatever is killed; units move by way of it."""

import itertools
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import evenflow as ef
from tests.support.moving import Moving, Nth
from tests.support.postgres_server import Server
from tests.support.stored_stream import check, kill, some, start, stream

FILES = 4


class Slow(Nth):
    """Nth that takes its time, so that units have time to move."""

    def process(self, rows, units, keys):
        time.sleep(rows.num_rows * 2e-4)
        return super().process(rows, units, keys)


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


def test_a_query_goes_on(spark, tmp_path, files, server, eventually):
    """In another cluster, one of whose workers is killed; and the server is restarted while it runs."""
    checkpoint = server.uri("goes_on")
    back = some(files, 2)
    with ef.Cluster(spark, 2, checkpoint=checkpoint) as cluster:
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
        check(spark, tmp_path, 2)
        with pytest.raises(ef.EvenflowError, match="schema goes_on is in use by cluster"):
            ef.Cluster(spark, 1, checkpoint=checkpoint)
    back()
    with ef.Cluster(spark, 3, checkpoint=checkpoint) as cluster:
        kill(cluster, 0)
        eventually(lambda: cluster.workers()[0].restarts == 1, what="replaced")
        with ThreadPoolExecutor(1) as pool:
            restarted = pool.submit(restart, server, cluster, eventually)
            ef.supervise(lambda: start(spark, cluster, files, tmp_path, name="n"), cluster, restarts=5, backoff=0.2)
            restarted.result()
        loaded = [event for event in cluster.events() if event["event"] == "loaded" and not event["error"]]
    check(spark, tmp_path)
    assert sum(event["rows"] + event["bytes"] for event in loaded) > 0
    tables = server.execute("SELECT prefix FROM goes_on.evenflow_tables WHERE prefix <> ''")
    assert [prefix.startswith("n/") for (prefix,) in tables] == [True]


def restart(server, cluster, eventually):
    """Restart the server once rows flow."""
    eventually(lambda: any(event["event"] == "feeder-joined" for event in cluster.events()), 60, "a feeder")
    server.stop()
    server.start()


class KillWhileMoving(threading.Thread):
    """Kills a worker the moment units are under way, now and then."""

    def __init__(self, cluster, region, most=2):
        super().__init__(daemon=True)
        self.cluster, self.region, self.most = cluster, region, most
        self.killed, self.over = 0, threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_error):
        self.over.set()
        self.join(30)

    def run(self):
        while self.killed < self.most and not self.over.wait(0.002):
            events = self.cluster.events()
            moved = sum(event["event"] == "moved" for event in events)
            if self.cluster.region(self.region).snapshot().moving and moved > 3 * self.killed:
                movement = [event for event in events if event["event"] == "move"][-1]
                worker = self.cluster.workers()[movement[("source", "target")[self.killed % 2]]]
                if worker.state == "live":
                    with suppress(ProcessLookupError):
                        os.kill(worker.pid, signal.SIGKILL)
                        self.killed += 1
                        self.over.wait(1.0)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["files", "postgresql"])
def test_workers_are_killed_while_units_move_by_way_of_the_store(spark, tmp_path, files, server, kind):
    checkpoint = tmp_path / "state" if kind == "files" else server.uri("moving")

    def run():
        rows = stream(spark, files).repartition(2)
        out = cluster.keyed(rows, "k", Slow(), name="m", tuning=ef.Tuning(units=32, transfer="store"), balance="hash")
        writer = out.writeStream.format("parquet").option("checkpointLocation", str(folder / "spark"))
        return writer.option("path", str(folder / "out")).trigger(availableNow=True).start()

    def moves():
        return sum(event["event"] == "moved" for event in cluster.events())

    deadline, number = time.monotonic() + 200, itertools.count()
    with ef.Cluster(spark, 3, checkpoint=checkpoint) as cluster:
        cluster.keyed(
            stream(spark, files), "k", Slow(), name="m", tuning=ef.Tuning(units=32, transfer="store"), balance="hash"
        )
        with KillWhileMoving(cluster, "m") as killer, Moving(cluster, "m", least=0):
            while not killer.killed or moves() < 4:
                assert time.monotonic() < deadline, f"killed {killer.killed}, moved {moves()}"
                folder = tmp_path / f"{next(number)}"
                ef.supervise(run, cluster, restarts=8, backoff=0.2)
                check_unordered(spark, folder)


def check_unordered(spark, tmp_path):
    """Every row once, and the rows of each key have all the numbers from 1 on."""
    got = spark.read.parquet(str(tmp_path / "out")).toArrow().to_pandas()
    assert sorted(got["id"]) == list(range(len(got)))
    assert len(got) == FILES * 2_000
    for _, mine in got.groupby("k"):
        assert sorted(mine["nth"]) == list(range(1, len(mine) + 1))


def test_wrong_transfers(spark, shared_cluster, files, tmp_path):
    with pytest.raises(ef.errors.InvalidArgument, match="transfer='carrier pigeon': one of 'direct', 'store'"):
        ef.Tuning(transfer="carrier pigeon")
    tuning = ef.Tuning(transfer="store")
    with pytest.raises(ef.errors.InvalidArgument, match="transfer='store': give 'direct', or 'store' in a"):
        shared_cluster.keyed(stream(spark, files), "k", ef.RollingMean("v", rows=3), tuning=tuning)


def test_a_database_that_is_down(spark):
    with pytest.raises(ef.EvenflowError, match=r"PostgreSQL at 127.0.0.1:1, .*see that the server runs") as said:
        ef.Cluster(spark, 1, checkpoint="postgresql://me:hunter2@127.0.0.1:1/db")
    assert "hunter2" not in str(said.value)
