"""Stores that are elsewhere: a bucket as the checkpoint, and a database that goes away in the middle of a query."""

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import evenflow as ef
from evenflow.state.checkpoint.survey import verify
from evenflow.state.store.claims.fence import FencedView
from evenflow.state.store.files import FileStore, resolve
from evenflow.state.store.opening import open_store
from evenflow.state.store.sealed import Place
from evenflow.testing import check_store
from evenflow_lab.torture import processes
from tests.support import postgres_server, s3_server
from tests.support.stored_stream import check, kill, some, start


@pytest.fixture(scope="module")
def bucket():
    with s3_server.Server() as running:
        yield running


def test_the_laws(bucket):
    number = itertools.count()
    check_store(lambda: open_store(bucket.uri(f"law{next(number)}")), large=32 * 1024 * 1024 + 17)


def test_a_query_goes_on(spark, tmp_path, files, bucket, eventually):
    """In another cluster, one of whose workers is killed, with a key."""
    checkpoint = bucket.uri("goes_on")
    key = "only the cluster knows"
    back = some(files, 2)
    with ef.Cluster(spark, 2, checkpoint=checkpoint, checkpoint_key=key) as cluster:
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
        check(spark, tmp_path, 2)
        with pytest.raises(ef.EvenflowError, match="this checkpoint is in use by cluster") as said:
            ef.Cluster(spark, 1, checkpoint=checkpoint, checkpoint_key=key)
        with pytest.raises(ef.EvenflowError, match="s3://bucket/goes_on was written with a checkpoint_key") as asked:
            ef.Cluster(spark, 1, checkpoint=checkpoint)
        assert "hunter22" not in str(said.value) + str(asked.value)
        assert key not in repr(cluster._settings) + repr(cluster)
    back()
    with ef.Cluster(spark, 3, checkpoint=checkpoint, checkpoint_key=key.encode()) as cluster:
        kill(cluster, 0)
        eventually(lambda: cluster.workers()[0].restarts == 1, what="replaced")
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
        loaded = [event for event in cluster.events() if event["event"] == "loaded" and not event["error"]]
    check(spark, tmp_path)
    assert sum(event["rows"] + event["bytes"] for event in loaded) > 0


def test_a_driver_that_is_frozen_and_wakes(spark, tmp_path, files, bucket, eventually):
    """In the middle of a batch; another takes the checkpoint and goes on. The first one must end, and hurt nobody."""

    class Impatient(FileStore):
        claim_s = 1.0  # instead of a minute

    checkpoint, mark = bucket.uri("frozen"), f"frozen-{os.getpid()}"
    command = [sys.executable, "-m", "tests.support.frozen_driver", checkpoint, str(tmp_path)]
    first = subprocess.Popen(command, env={**os.environ, processes.MARK: mark}, stdout=subprocess.PIPE, text=True)
    try:
        eventually((tmp_path / "waiting").exists, 120, "the second batch of the first driver")
        processes.send(processes.marked(mark), signal.SIGSTOP)
        (tmp_path / "go").touch()
        time.sleep(Impatient.claim_s)  # just before it may have said that it lives
        impatient = Place(checkpoint, opener=lambda where: Impatient(*resolve(where)))
        with ef.Cluster(spark, 2, checkpoint=impatient) as cluster:
            start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
            check(spark, tmp_path)
            before = contents(checkpoint)
            processes.send(processes.marked(mark), signal.SIGCONT)
            said = first.communicate(timeout=120)[0]
            assert re.search(r"it failed: .*the checkpoint was taken over by cluster \w+ \(host", said, re.DOTALL), said
            assert "and then: the checkpoint was taken over by cluster" in said
            assert contents(checkpoint) == before
        assert not processes.marked(mark)
    finally:
        processes.sweep(mark, 0.0)
        first.wait(60)
    with FencedView(open_store(checkpoint)) as store:
        assert verify(store) == []
    check(spark, tmp_path)


def contents(checkpoint):
    """Notes and manifests, as whoever goes on from them sees them."""
    with FencedView(open_store(checkpoint)) as store:
        return {name: bytes(store.get(name)) for name, _ in store.names("n/") if "/task/" in name or "/epoch/" in name}


def test_a_database_that_goes_away(spark, tmp_path, files, eventually):
    """The query fails and says which; when it is back, so is all that was committed."""

    def stop():
        eventually(lambda: any(event["event"] == "task-durable" for event in cluster.events()), 90, "a task's end")
        server.stop()

    with (
        postgres_server.Server() as server,
        ef.Cluster(spark, 2, checkpoint=server.uri("goes")) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        query = start(spark, cluster, files, tmp_path, name="n")
        pool.submit(stop).result()
        with pytest.raises(
            Exception, match=rf"PostgreSQL at 127.0.0.1:{server.port}, database postgres did not answer"
        ):
            query.awaitTermination(120)
        server.start()
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
        check(spark, tmp_path)
