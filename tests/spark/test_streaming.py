"""`ordered_map` on streaming DataFrames: the same queries with a plain `mapInArrow` say what must come out."""

import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import evenflow as ef
from tests.support.comparison import assert_same, micro_batches, plain_map, rows_of, run_to_end

SCHEMA = "value long, double long"


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = batch.column("value")
    return pa.record_batch({"value": values, "double": pc.multiply(values, 2)})


def assert_same_stream(cluster, source, function, schema, tmp_path, batches):
    got = micro_batches(cluster.ordered_map(source(), function, schema), tmp_path / "evenflow")
    want = micro_batches(plain_map(source(), function, schema), tmp_path / "plain")
    assert list(got) == list(want)
    assert len(got) == batches
    for number in want:
        assert_same(got[number], want[number])
    return got


FILES = 6


@pytest.fixture(scope="module")
def files(spark, tmp_path_factory):
    """A source of three micro-batches, two files each."""
    folder = tmp_path_factory.mktemp("input")
    for number in range(FILES):
        values = pa.array(values_of(number), pa.int64())
        pq.write_table(pa.table({"value": values}), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (number, number))

    def source():
        reader = spark.readStream.schema("value long").option("maxFilesPerTrigger", 2)
        return reader.parquet(str(folder))

    return source


def values_of(number):
    return range(number * 2_000, number * 2_000 + 1_000 + number)


def test_files_in_several_micro_batches(cluster, files, tmp_path):
    assert_same_stream(cluster, files, doubled, SCHEMA, tmp_path, batches=3)


def test_without_an_order_the_same_rows_in_each_micro_batch(cluster, files, tmp_path):
    got = micro_batches(cluster.ordered_map(files(), doubled, SCHEMA, ordered=False), tmp_path)
    assert [sorted(batch["value"].to_pylist()) for batch in got.values()] == [
        [*values_of(first), *values_of(first + 1)] for first in range(0, FILES, 2)
    ]


def test_several_partitions_a_micro_batch(cluster, files, tmp_path, conf):
    conf("spark.sql.files.openCostInBytes", "1")
    conf("spark.sql.files.maxPartitionBytes", "3000")
    got = assert_same_stream(cluster, files, doubled, SCHEMA, tmp_path, batches=3)
    assert len(set(got[0]["_partition"].to_pylist())) > 1


def test_micro_batches_whose_rows_are_all_filtered_out(cluster, files, tmp_path):
    def source():
        return files().where("value >= 4000")

    got = micro_batches(cluster.ordered_map(source(), doubled, SCHEMA), tmp_path)
    assert sum(table.num_rows for table in got.values()) == sum(len(values_of(number)) for number in range(2, FILES))


def test_two_actions_on_one_micro_batch(cluster, files, tmp_path):
    """Two evaluations of the same batch id: a stateless region gives the same rows twice."""
    pairs = []

    def twice(batch, _number):
        pairs.append((rows_of(batch), rows_of(batch)))

    out = cluster.ordered_map(files(), doubled, SCHEMA)
    run_to_end(
        out.writeStream.foreachBatch(twice)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert len(pairs) == 3
    for one, other in pairs:
        assert_same(one, other)


def test_query_goes_on_from_its_checkpoint_on_another_cluster(spark, tmp_path):
    """Stop after the first files, start again on a new cluster: every row once, in order."""
    folder, parts = tmp_path / "again", []

    def source():
        return spark.readStream.schema("value long").option("maxFilesPerTrigger", 2).parquet(str(folder))

    for number in range(2):
        part = spark.range(number * 5_000, (number + 1) * 5_000, 1, 2).withColumnRenamed("id", "value")
        part.write.mode("append").parquet(str(folder))
        with ef.Cluster(spark, workers=2) as fresh:
            parts.append(micro_batches(fresh.ordered_map(source(), doubled, SCHEMA), tmp_path))
    assert [list(part) for part in parts] == [[0], [1]]
    for number, part in enumerate(parts):
        values = sorted(part[number]["value"].to_pylist())
        assert values == list(range(number * 5_000, (number + 1) * 5_000))


def test_stateful_operator_after_the_region(cluster, files, tmp_path):
    """Spark's own aggregation takes the region's rows."""
    counted = {}

    def keep(batch, number):
        counted[number] = batch.collect()[0]

    out = cluster.ordered_map(files(), doubled, SCHEMA).selectExpr("value", "double").groupBy()
    query = (
        out.agg({"double": "sum", "value": "sum"})
        .writeStream.outputMode("complete")
        .foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    run_to_end(query)
    last = counted[max(counted)]
    total = sum(sum(values_of(number)) for number in range(FILES))
    assert (last["sum(value)"], last["sum(double)"]) == (total, 2 * total)


def test_two_regions_in_a_chain(cluster, files, tmp_path):
    def rename(batch):
        return pa.record_batch({"value": batch.column("double"), "double": batch.column("value")})

    out = cluster.ordered_map(cluster.ordered_map(files(), doubled, SCHEMA), rename, SCHEMA)
    got = micro_batches(out, tmp_path / "evenflow")
    want = micro_batches(plain_map(plain_map(files(), doubled, SCHEMA), rename, SCHEMA), tmp_path / "plain")
    assert list(got) == list(want)
    for number in want:
        assert_same(got[number], want[number])


def test_the_event_log_knows_the_query_and_its_epochs(cluster, files, tmp_path):
    out = cluster.ordered_map(files(), doubled, SCHEMA, name="logged")
    micro_batches(out, tmp_path)
    joined = [e for e in cluster.events() if e["event"] == "feeder-joined" and e["region"] == "logged"]
    assert {event["epoch"] for event in joined} == {0, 1, 2}
    assert len({event["query"] for event in joined}) == 1
    assert joined[0]["query"]


def test_a_stopped_cluster_ends_the_query_with_a_clear_error(spark, tmp_path):
    reader = spark.readStream.format("rate-micro-batch").options(rowsPerBatch="1000", numPartitions="1")
    source = reader.load().select("value")
    with ef.Cluster(spark, workers=2) as cluster:
        out = cluster.ordered_map(source, doubled, SCHEMA)
        writer = out.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        query = writer.trigger(processingTime="0 seconds").start()
        while not query.recentProgress:
            query.awaitTermination(0.1)
    with pytest.raises(Exception, match=r"(?s)cluster .* does not serve region .* any more"):
        query.awaitTermination(120)
    assert not query.isActive
