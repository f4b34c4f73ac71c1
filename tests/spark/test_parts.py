"""A DataFrame that is evaluated in parts, by actions that read some of its partitions: right, or refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow as ef
from tests.support.moving import Nth

ROWS = 2_000
PARTS = 4
EACH = ROWS // PARTS


@pytest.fixture
def out(spark, cluster):
    """One key, whose rows are counted: 2,000 of them, in four partitions."""
    made = cluster.keyed(spark.range(0, ROWS, 1, PARTS).selectExpr("id", "0 as k"), "k", Nth(), name="parts")
    yield made
    made.unpersist()


def counted(rows):
    return sorted(row.nth for row in rows)


EVERYTHING = list(range(1, ROWS + 1))


def test_persisted_and_looked_at_first(out):
    out.persist()
    assert out.take(1)[0].nth == 1
    assert counted(out.collect()) == EVERYTHING
    assert counted(out.collect()) == EVERYTHING


def test_persisted_and_read_from_both_ends(out):
    some = out.select("id", "nth").persist()
    ends = some.take(1) + some.tail(1)
    assert counted(ends) == [1, 2 * EACH]
    assert counted(some.toLocalIterator()) == EVERYTHING
    assert counted(some.rdd.take(ROWS)) == EVERYTHING
    some.unpersist()


def test_more_than_the_first_partition(out):
    assert len(set(counted(out.take(ROWS - 1)))) == ROWS - 1
    assert counted(out.limit(ROWS).collect()) == EVERYTHING
    assert counted(out.tail(ROWS)) == EVERYTHING


def test_one_partition_after_the_other(out):
    assert [row.nth for row in out.toLocalIterator()] == EVERYTHING


def test_each_action_has_fresh_state(out):
    assert [counted(out.orderBy("id").collect()), counted(out.collect())] == [EVERYTHING] * 2


def test_a_second_operator_on_what_is_persisted(spark, cluster, out):
    out.persist()
    twice = cluster.keyed(out.selectExpr("id", "k"), "k", Nth(), name="twice")
    assert counted(twice.take(EACH + 1))[-1] >= EACH + 1
    assert [counted(twice.collect()), counted(out.collect()), counted(twice.collect())] == [EVERYTHING] * 3


def test_actions_of_an_rdd_on_a_part_are_refused(out):
    assert counted(out.rdd.collect()) == EVERYTHING
    with pytest.raises(Exception, match="evaluates only 1 of 4 partitions, for an action of an RDD"):
        out.rdd.take(1)


def kept(cluster):
    return cluster._driver.ask(lambda controller: set().union(*map(controller.kept, controller.regions)))


def test_state_goes_when_what_is_persisted_goes(cluster, out, eventually):
    before = kept(cluster)  # of other tests, if Spark has not told yet that they are gone
    out.persist()
    out.take(1)
    held = kept(cluster) - before
    assert len(held) == 1
    out.unpersist()
    eventually(lambda: not kept(cluster) & held)
    assert counted(out.collect()) == EVERYTHING


BATCHES = 2
LARGE = 60_000
"""Rows of a micro-batch: more of them than Spark's Python workers give out at once, so that a look ends tasks early."""


def ask_if_empty(batch, write):
    if not batch.isEmpty():
        write(batch)


def persist_and_look(batch, write):
    batch.persist()
    assert len(batch.take(1)) == 1
    write(batch)
    batch.unpersist()


@pytest.mark.parametrize("look", [ask_if_empty, persist_and_look])
def test_a_batch_that_is_looked_at_first(spark, tmp_path, look):
    """Tasks that Spark does not want the rest of are no failures; what they did counts if it is persisted."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(BATCHES):
        ids = pa.array(np.arange(number * LARGE, (number + 1) * LARGE))
        pq.write_table(pa.table({"id": ids, "k": pa.array(np.zeros(LARGE, np.int64))}), folder / f"{number}.parquet")

    def each(batch, _number):
        look(batch, lambda rows: rows.write.mode("append").parquet(str(tmp_path / "out")))

    def start():
        files = spark.readStream.schema("id long, k long").option("maxFilesPerTrigger", 1).parquet(str(folder))
        out = cluster.keyed(files.repartition(2), "k", Nth(), name="n")
        writer = out.writeStream.option("checkpointLocation", str(tmp_path / "spark")).trigger(availableNow=True)
        return writer.foreachBatch(each).start()

    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        ef.supervise(start, cluster, restarts=1, backoff=0.1)
    got = spark.read.parquet(str(tmp_path / "out")).select("nth").toArrow()
    assert sorted(got["nth"].to_pylist()) == list(range(1, BATCHES * LARGE + 1))
