"""Bad input: one clear error on the side that can act, everyone else unharmed."""

import re
import threading

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.errors import ClusterStartError, ClusterStopped, InvalidArgument
from evenflow.testing import Emulate
from tests.support.comparison import assert_same, plain_map


def identity(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def error_of(df) -> str:
    """The message that reaches whoever evaluates the DataFrame."""
    with pytest.raises(Exception, match="evenflow") as caught:
        df.collect()
    return str(caught.value)


@pytest.fixture(scope="module", autouse=True)
def _unharmed(shared_cluster, spark):
    """After all of this the shared cluster goes on as if nothing had happened."""
    yield
    df = spark.range(0, 1_000, 1, 2)
    assert_same(shared_cluster.ordered_map(df, identity, "id long"), plain_map(df, identity, "id long"), 1_000)


@pytest.mark.parametrize(
    "schema", ["id lung", "id", "", "id long,", "id long id", 3, None, "array<int>"], ids=lambda schema: repr(schema)
)
def test_wrong_schema(spark, cluster, schema):
    with pytest.raises(InvalidArgument, match="schema"):
        cluster.ordered_map(spark.range(3), identity, schema)


@pytest.mark.parametrize("function", [None, 3, "score"])
def test_function_that_is_none(spark, cluster, function):
    with pytest.raises(InvalidArgument, match="called"):
        cluster.ordered_map(spark.range(3), function, "id long")


def test_function_that_cannot_be_shipped(spark, cluster):
    lock = threading.Lock()

    def locked(batch):
        with lock:
            return batch

    with pytest.raises(InvalidArgument, match=r"cannot be shipped to the workers.*lock"):
        cluster.ordered_map(spark.range(3), locked, "id long")


def test_function_that_holds_the_session(spark, cluster):
    def nested(batch):
        return spark.range(batch.num_rows)

    with pytest.raises(InvalidArgument, match="cannot be shipped to the workers"):
        cluster.ordered_map(spark.range(3), nested, "id long")


def test_function_of_a_module_the_workers_do_not_have(spark, cluster, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def f(batch):\n    return batch\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    message = error_of(cluster.ordered_map(spark.range(3), only_here.f, "id long"))
    assert "No module named 'only_here'" in message


def test_unknown_balance(spark, cluster):
    with pytest.raises(InvalidArgument, match=r"no balance 'fair'.*round-robin"):
        cluster.ordered_map(spark.range(3), identity, "id long", balance="fair")


def test_unknown_input(spark, cluster):
    with pytest.raises(InvalidArgument, match=r"input='polars'.*'arrow'.*'pandas'"):
        cluster.ordered_map(spark.range(3), identity, "id long", input="polars")


def test_function_that_raises(spark, cluster):
    """Traceback, worker and row range reach the user."""

    def divide(batch):
        def deeper(value):
            return 1 // (value - 7_777)

        return pa.record_batch({"id": [deeper(value) for value in batch.column("id").to_pylist()]})

    message = error_of(cluster.ordered_map(spark.range(0, 10_000, 1, 1), divide, "id long", name="divide"))
    assert "the function of region divide failed on worker" in message
    assert "ZeroDivisionError: integer division or modulo by zero" in message
    assert "in deeper" in message
    first, last = message.split("on rows ")[1].split(" of partition 0")[0].split(" to ")
    assert int(first) <= 7_777 <= int(last)
    worker = int(message.split("failed on worker ")[1].split(",")[0])
    assert worker in {status.id for status in cluster.workers()}


def test_function_that_exits(spark, cluster):
    def leave(batch):
        raise SystemExit(3)

    assert "SystemExit: 3" in error_of(cluster.ordered_map(spark.range(3), leave, "id long"))


def test_only_the_region_that_fails_is_hurt(spark, cluster):
    """A failing query and a good one at the same time, on the same workers."""
    failures = []

    def fail(batch):
        raise ValueError("no")

    def run():
        for _ in range(2):
            failures.append(error_of(cluster.ordered_map(spark.range(0, 100, 1, 2), fail, "id long")))

    thread = threading.Thread(target=run)
    thread.start()
    df = spark.range(0, 100_000, 1, 2)
    for _ in range(3):
        assert_same(cluster.ordered_map(df, identity, "id long"), plain_map(df, identity, "id long"), 100_000)
    thread.join()
    assert ["ValueError: no" in failure for failure in failures] == [True, True]


def test_wrong_result(spark, cluster):
    """One for all that tests/unit/test_conform.py has: Spark tries each four times, in new processes."""
    message = error_of(cluster.ordered_map(spark.range(0, 10, 1, 1), lambda b: b.rename_columns(["ID"]), "id long"))
    assert "columns ['ID'], the schema declares ['id']; missing: ['id']; not declared: ['ID']" in message


def test_value_too_large_for_the_declared_type(spark, cluster):
    message = error_of(cluster.ordered_map(spark.range(2**40, 2**40 + 5, 1, 1), identity, "id int"))
    assert "column 'id' does not fit int32" in message


def test_null_where_the_schema_says_not_null(spark, cluster):
    df = spark.range(3).selectExpr("nullif(id, 1) as id")
    message = error_of(cluster.ordered_map(df, identity, "id long not null"))
    assert "column 'id' has 1 nulls, the schema declares it not null" in message


def test_pandas_function_that_returns_something_else(spark, cluster):
    message = error_of(cluster.ordered_map(spark.range(3), lambda data: data["id"], "id long", input="pandas"))
    assert "returned Series, not a pandas.DataFrame" in message


@pytest.mark.parametrize("workers", [0, -1, 2.5, "4", True, None])
def test_wrong_number_of_workers(spark, workers):
    with pytest.raises(InvalidArgument, match="workers="):
        ef.Cluster(spark, workers=workers)


@pytest.mark.parametrize("option", ["start_timeout", "period", "stall_timeout"])
def test_wrong_seconds(spark, option):
    with pytest.raises(InvalidArgument, match=f"{option}="):
        ef.Cluster(spark, workers=1, **{option: 0})


def test_wrong_slots_and_an_active_session_too_small(spark):
    with pytest.raises(InvalidArgument, match="at least 1"):
        ef.local_session(workers=0)
    with pytest.raises(InvalidArgument, match=r"100 workers and 2 query tasks need 102"):
        ef.local_session(workers=100)
    assert ef.local_session(workers=1) is spark


def test_too_few_slots(spark, cluster):
    """Slots are those of all clusters of the session: one more must be left, or every query waits for ever."""
    message = r"6 workers, 4 of cluster \w+, and at least one task of the query need 11 task slots, .* has 10"
    with pytest.raises(ClusterStartError, match=message) as caught:
        ef.Cluster(spark, workers=6)
    assert "Stop a cluster that is done" in str(caught.value)
    assert "local[11,4]" in str(caught.value)
    assert cluster.ordered_map(spark.range(10), identity, "id long").count() == 10


def test_slots_that_others_hold(spark, cluster, monkeypatch):
    # for half of this time those that never started are awaited
    monkeypatch.setattr("evenflow.runtime.cluster.lifecycle.STOP_S", 10.0)
    # as where executors come one by one
    monkeypatch.setattr("evenflow.runtime.cluster.spark.slots._fixed", lambda _: False)
    with pytest.raises(ClusterStartError) as caught:
        ef.Cluster(spark, workers=30, start_timeout=4)
    message = str(caught.value)
    assert re.search(r"\b[0-6] of 30 workers started within 4 s", message)  # six slots, if the machine is fast
    assert "10 task slots, in which 6 tasks of its workers and 4 others run. No slot is free. Use master" in message
    assert "local[35,4]" in message


def test_stopped_cluster(spark):
    df = spark.range(0, 100, 1, 2)
    with ef.Cluster(spark, workers=1) as cluster:
        out = cluster.ordered_map(df, identity, "id long")
        assert out.count() == 100
    with pytest.raises(ClusterStopped, match="start a new Cluster"):
        cluster.ordered_map(df, identity, "id long")
    message = error_of(out)
    assert "does not serve region" in message
    assert "Start the query again on a running Cluster" in message
    assert {worker.state for worker in cluster.workers()} == {"stopped"}
    assert "stopped" in repr(cluster)
    cluster.stop()


def test_a_function_that_never_ends_is_reported(spark, monkeypatch):
    """The stall timeout names the worker; Spark ends it when the cluster stops."""
    monkeypatch.setattr("evenflow.runtime.cluster.lifecycle.STOP_S", 20.0)  # Spark ends a cancelled one after 4 s

    def forever(batch):
        import time

        while True:
            time.sleep(0.1)

    with ef.Cluster(spark, workers=1, stall_timeout=1.5) as cluster:
        message = error_of(cluster.ordered_map(spark.range(0, 10, 1, 1), forever, "id long", name="stuck"))
        assert "region stuck: nothing heard for" in message
        assert "worker 0 (pid " in message
        assert "stall_timeout above" in message


def test_emulation_of_wrong_numbers():
    with pytest.raises(InvalidArgument, match="cost_us"):
        Emulate(cost_us=0)
    with pytest.raises(InvalidArgument, match="slowdown of worker 1"):
        Emulate(cost_us=1, slowdown={1: -2})
