"""Stores that are elsewhere: a bucket as the checkpoint, and a database that goes away in the middle of a query."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

import evenflow as ef
from evenflow.state.store import open_store
from evenflow.testing import check_store
from tests import postgres_server, s3_server
from tests.spark.conftest import spark  # noqa: F401 - a fixture
from tests.spark.test_checkpoint import check, files, kill, some, start  # noqa: F401 - a fixture among them


@pytest.fixture(scope="module")
def bucket():
    with s3_server.Server() as running:
        yield running


def test_the_laws(bucket):
    number = itertools.count()
    check_store(lambda: open_store(bucket.uri(f"law{next(number)}")), large=32 * 1024 * 1024 + 17)


def test_a_query_goes_on(spark, tmp_path, files, bucket, eventually):  # noqa: F811 - fixtures
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


def test_a_database_that_goes_away(spark, tmp_path, files, eventually):  # noqa: F811
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
