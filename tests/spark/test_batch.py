"""`ordered_map` on batch DataFrames: every shape of input, compared with a plain `mapInArrow`."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.functions import col, lit

import evenflow as ef
from evenflow.runtime.cluster.arguments.amounts import MOST_PERIOD_S
from evenflow.testing import Emulate
from tests.support.comparison import PARTITION, assert_same, committed, plain_map, rows_of

SQUARES = "id long, square double"


def squares(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = batch.column("id").cast(pa.float64())
    return pa.record_batch({"id": batch.column("id"), "square": pc.multiply(values, values)})


def assert_same_map(cluster, df, function, schema, least=1, **options):
    """Run the function through the workers and through `mapInArrow`, and compare."""
    return assert_same(cluster.ordered_map(df, function, schema, **options), plain_map(df, function, schema), least)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_order_and_rows_with_any_number_of_partitions(spark, cluster, partitions):
    got = assert_same_map(cluster, spark.range(0, 20_000, 1, partitions), squares, SQUARES, least=20_000)
    assert len(set(got[PARTITION].to_pylist())) == partitions


def test_without_an_order_the_same_rows(spark, cluster):
    df = spark.range(0, 200_000, 1, 3)
    got = rows_of(cluster.ordered_map(df, squares, SQUARES, ordered=False))
    assert_same(got.sort_by("id"), plain_map(df, squares, SQUARES), least=200_000)


def test_every_worker_gets_its_share(spark, cluster, eventually):
    out = cluster.ordered_map(spark.range(0, 200_000, 1, 2), squares, SQUARES, name="shares")
    runs = 0

    def shared():
        nonlocal runs
        runs += 1
        assert out.count() == 200_000
        eventually(lambda: cluster.region("shares").snapshot().feeders == 0, what="the last reports")
        return min(connection.frames_done for connection in cluster.region("shares").snapshot().connections) > 0

    eventually(shared, what="frames for all workers: one that got the processor late may have none of the first run")
    snapshot = cluster.region("shares").snapshot()
    assert snapshot.rows_out == runs * 200_000
    assert sum(connection.rows_done for connection in snapshot.connections) >= runs * 200_000


def test_rows_of_workers_are_complete_when_an_action_has_ended(spark):
    """Workers report once a period, which is longer than all of this: so they are asked."""
    with ef.Cluster(spark, workers=2, period=MOST_PERIOD_S, start_timeout=150) as slow:
        counted = slow.keyed(spark.range(0, 50_000, 1, 2), "id", ef.RunningCount("id"))
        for done in (1, 2):
            assert counted.count() == 50_000
            assert sum(worker.rows for worker in slow.workers()) == done * 50_000


def test_empty_input(spark, cluster):
    assert assert_same_map(cluster, spark.range(0), squares, SQUARES, least=0).num_rows == 0
    assert assert_same_map(cluster, spark.createDataFrame([], "id long"), squares, SQUARES, least=0).num_rows == 0


def test_some_partitions_empty(spark, cluster):
    df = spark.range(0, 60_000, 1, 6).where((col("id") < 10_000) | (col("id") >= 50_000))
    got = assert_same_map(cluster, df, squares, SQUARES, least=20_000)
    assert set(got[PARTITION].to_pylist()) == {0, 5}


def test_one_row(spark, cluster):
    assert assert_same_map(cluster, spark.range(7, 8, 1, 1), squares, SQUARES).num_rows == 1
    assert assert_same_map(cluster, spark.range(7, 8, 1, 4), squares, SQUARES).num_rows == 1


def test_one_row_a_batch(spark, cluster, conf):
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    assert_same_map(cluster, spark.range(0, 600, 1, 2), squares, SQUARES, least=600)


def test_large_batches(spark, cluster, conf):
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "200000")
    assert_same_map(cluster, spark.range(0, 400_000, 1, 2), squares, SQUARES, least=400_000)


def test_results_much_larger_than_their_rows(spark, cluster):
    def blow_up(batch):
        ids = batch.column("id").to_pylist()
        return pa.record_batch({"id": ids, "text": [str(i) * 1_000_000 for i in ids]})

    assert_same_map(cluster, spark.range(0, 40, 1, 2), blow_up, "id long, text string", least=40)


def test_function_that_drops_rows(spark, cluster):
    def odd(batch):
        return batch.filter(pc.equal(pc.bit_wise_and(batch.column("id"), 1), 1))

    assert assert_same_map(cluster, spark.range(0, 50_000, 1, 3), odd, "id long").num_rows == 25_000


def test_function_that_drops_all_rows(spark, cluster):
    assert (
        assert_same_map(cluster, spark.range(0, 50_000, 1, 3), lambda b: b.slice(0, 0), "id long", least=0).num_rows
        == 0
    )


def test_function_that_adds_rows(spark, cluster):
    def copies(batch):
        ids = [i for i in batch.column("id").to_pylist() for _ in range(i % 4)]
        return pa.record_batch({"id": pa.array(ids, pa.int64())})

    assert assert_same_map(cluster, spark.range(0, 30_000, 1, 3), copies, "id long").num_rows == 45_000


def test_function_may_return_a_table(spark, cluster):
    out = cluster.ordered_map(spark.range(0, 5_000, 1, 2), lambda b: pa.Table.from_batches([squares(b)] * 2), SQUARES)
    assert out.count() == 10_000


def test_columns_in_another_order(spark, cluster):
    out = cluster.ordered_map(spark.range(0, 5_000, 1, 2), lambda b: squares(b).select(["square", "id"]), SQUARES)
    assert_same(out, plain_map(spark.range(0, 5_000, 1, 2), squares, SQUARES), 5_000)


def test_schema_as_struct_type(spark, cluster):
    df = spark.range(0, 1_000, 1, 2)
    declared = plain_map(df, squares, SQUARES).schema
    assert_same(cluster.ordered_map(df, squares, declared), plain_map(df, squares, SQUARES), 1_000)


def test_union_of_two_regions_and_of_one_with_itself(spark, cluster):
    df = spark.range(0, 20_000, 1, 2)

    def negative(batch):
        return pa.record_batch({"id": batch.column("id"), "square": pc.negate(squares(batch).column("square"))})

    one, other = cluster.ordered_map(df, squares, SQUARES), cluster.ordered_map(df, negative, SQUARES)
    plain_one, plain_other = plain_map(df, squares, SQUARES), plain_map(df, negative, SQUARES)
    assert_same(one.unionAll(other), plain_one.unionAll(plain_other), 40_000)
    assert_same(one.unionAll(one), plain_one.unionAll(plain_one), 40_000)


def test_self_join(spark, cluster):
    df = spark.range(0, 5_000, 1, 2)
    out, plain = cluster.ordered_map(df, squares, SQUARES), plain_map(df, squares, SQUARES)
    joined = out.alias("a").join(out.alias("b"), col("a.id") == col("b.id")).selectExpr("a.id as id", "b.square as s")
    wanted = (
        plain.alias("a").join(plain.alias("b"), col("a.id") == col("b.id")).selectExpr("a.id as id", "b.square as s")
    )
    assert_same(joined.orderBy("id"), wanted.orderBy("id"), 5_000)


def test_many_threads_open_regions_at_once(spark, cluster):
    """Each gets its own function and its own name."""

    def run(number):
        out = cluster.ordered_map(
            spark.range(0, 300, 1, 1),
            lambda batch: pa.record_batch({"id": pc.add(batch.column("id"), number)}),
            "id long",
            name="crowd",
        )
        return out.toArrow()["id"].to_pylist()

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(run, range(24)))
    assert results == [list(range(number, number + 300)) for number in range(24)]
    opened = [event["region"] for event in cluster.events() if event["event"] == "region-opened"]
    crowd = [name for name in opened if name.startswith("crowd")]
    assert len(crowd) == len(set(crowd)) == 24


def test_limit_leaves_early_and_the_workers_go_on(spark, cluster, eventually):
    df = spark.range(0, 2_000_000, 1, 4)
    out = cluster.ordered_map(df, squares, SQUARES, name="limited")
    assert_same(out.limit(10), plain_map(df, squares, SQUARES).limit(10), 10)
    assert [row.id for row in out.take(3)] == [0, 1, 2]
    assert out.first().square == 0
    eventually(lambda: cluster.region("limited").snapshot().feeders == 0, what="feeders that left early are gone")
    assert_same_map(cluster, spark.range(0, 10_000, 1, 2), squares, SQUARES, least=10_000)


def test_written_and_read_back(spark, cluster, tmp_path):
    df = spark.range(0, 30_000, 1, 3)
    cluster.ordered_map(df, squares, SQUARES).write.parquet(str(tmp_path / "scored"))
    assert_same(committed(tmp_path / "scored"), plain_map(df, squares, SQUARES), 30_000)


def test_cached_and_shuffled_input(spark, cluster):
    df = spark.range(0, 20_000, 1, 3).repartition(4).sortWithinPartitions("id").withColumn("x", lit(1.5)).cache()
    try:
        assert_same_map(cluster, df, lambda b: b, "id long, x double", least=20_000)
    finally:
        df.unpersist()


@pytest.mark.parametrize("balance", ["round-robin", "reroute", "credits", "blocking-rate"])
def test_a_slow_worker_does_not_break_the_order(spark, balance):
    df = spark.range(0, 12_000, 1, 2)
    emulate = Emulate(cost_us=20, slowdown={0: 20, 1: [(0, 10), (0.2, 1)]})
    with ef.Cluster(spark, workers=3, period=0.2, emulate=emulate) as cluster:
        assert_same_map(cluster, df, squares, SQUARES, least=12_000, balance=balance)
        assert sum(worker.restarts for worker in cluster.workers()) == 0


def test_balance_given_as_an_object(spark, cluster):
    assert_same_map(cluster, spark.range(0, 5_000, 1, 2), squares, SQUARES, least=5_000, balance=ef.policy.RoundRobin())


def test_reference_is_what_python_says(spark, cluster):
    """The comparison itself is checked once against rows computed here."""
    got = rows_of(cluster.ordered_map(spark.range(0, 1_000, 1, 2), squares, SQUARES))
    assert got["square"].to_pylist() == [float(i) * i for i in range(1_000)]
    assert got[PARTITION].to_pylist() == [0] * 500 + [1] * 500
