"""Copies of a checkpoint beside Spark's: of another time they are refused; batches without tasks are not missed."""

import re
import shutil

import pytest
from pyspark.sql import functions as F

import evenflow as ef
from tests.support.moving import Nth, nth_of
from tests.support.state_cli import run
from tests.support.stored_stream import EACH, FILES, KEYS, check, some, start, stream, write_files


def finish(spark, tmp_path, files):
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)


def test_an_older_copy_is_refused_and_the_right_one_goes_on(spark, tmp_path, files):
    back = some(files, 1)
    finish(spark, tmp_path, files)
    shutil.copytree(tmp_path / "state", tmp_path / "older")
    back()
    again = some(files, 3)
    finish(spark, tmp_path, files)
    (tmp_path / "state").rename(tmp_path / "right")
    shutil.copytree(tmp_path / "older", tmp_path / "state")
    again()
    said = (
        r"Spark is at batch 3 of query .*, and in this checkpoint the state of operator n is of batch 0: nothing "
        r"here is of batches 1 to 2, so it is an older copy.* Put back the copy that belongs to Spark's"
    )
    with pytest.raises(Exception, match=said):
        finish(spark, tmp_path, files)
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "right").rename(tmp_path / "state")
    finish(spark, tmp_path, files)
    check(spark, tmp_path)


def test_an_altered_claim_is_refused_and_the_right_number_goes_on(spark, tmp_path, files):
    """One number says which notes count: a smaller one hides those of the last batches."""
    back = some(files, 2)
    finish(spark, tmp_path, files)
    with ef.Cluster(spark, 1, checkpoint=tmp_path / "state"):
        pass  # its claim says how many puts of the one before count
    newest = max((tmp_path / "state" / "evenflow.claims").iterdir())
    right = newest.read_text()
    count = max(int(number) for number in re.findall(r'":(\d+)', right))
    newest.write_text(right.replace(f'":{count}', f'":{count - 2}'))
    assert newest.read_text() != right
    back()
    with pytest.raises(ef.EvenflowError, match=f"blob evenflow.claims/{newest.name} is damaged"):
        finish(spark, tmp_path, files)
    newest.write_text(right)
    finish(spark, tmp_path, files)
    check(spark, tmp_path)


@pytest.fixture
def more(tmp_path):
    """A second folder of files."""
    return write_files(tmp_path / "more")


def test_batches_for_which_spark_runs_no_task_are_not_missed(spark, tmp_path, files, more):
    """One source has nothing new for some batches, and the watermark makes one without rows; then a new cluster."""
    back = some(files, 1)
    later = some(more, 3)

    def go_on():
        with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
            counted = cluster.keyed(stream(spark, files), "k", Nth(), name="n")
            plain = stream(spark, more).selectExpr("-1 - id id", "k", "v", "0L nth")
            out = counted.union(plain.select(counted.columns))
            time = F.expr("timestamp_seconds(if(id < 0, 2010 - id div 1000, id + 2))")  # few rows are late
            timed = out.withColumn("t", time).withWatermark("t", "0 seconds")
            writer = timed.dropDuplicates(["id", "t"]).writeStream.format("parquet").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(tmp_path / "spark")).option("path", str(tmp_path / "out"))
            query = writer.start()
            query.awaitTermination(120)
            return [event["epoch"] for event in cluster.events() if event["event"] == "feeder-joined"]

    assert set(go_on()) == {0}
    back()
    later()
    assert min(go_on()) >= 4, "batches went by without a task of the operator"
    got = spark.read.parquet(str(tmp_path / "out")).where("id >= 0").orderBy("id").toArrow()
    assert got["nth"].to_pylist() == [number // KEYS + 1 for number in got["id"].to_pylist()]
    assert len(got) > 2 * EACH


def test_a_query_that_was_run_without_its_operator_on_the_same_cluster_is_refused(spark, tmp_path, files):
    """State is in memory, and lacks the rows in between."""
    back = some(files, 2)
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        start(spark, cluster, files, tmp_path, name="n").awaitTermination(120)
        back()
        back = some(files, 3)
        plain = stream(spark, files).selectExpr("*", "0L nth").writeStream.format("parquet").trigger(availableNow=True)
        plain = plain.option("checkpointLocation", str(tmp_path / "spark")).option("path", str(tmp_path / "out"))
        plain.start().awaitTermination(120)
        back()
        query = start(spark, cluster, files, tmp_path, name="n")
        with pytest.raises(Exception, match="nothing here is of batch 2, so it is an older copy"):
            query.awaitTermination(120)
    assert run("absent", tmp_path / "state", query.id, 2)[0] == 0
    finish(spark, tmp_path, files)
    got = spark.read.parquet(str(tmp_path / "out")).where("nth > 0").orderBy("id").toArrow()
    applied = [*range(2 * EACH), *range(3 * EACH, 4 * EACH)]
    assert got["id"].to_pylist() == applied
    assert got["nth"].to_pylist() == nth_of(number % KEYS for number in applied)


def by_union(spark, cluster, first, second, tmp_path):
    """A query over two operators, each with a source of its own."""
    one = cluster.keyed(stream(spark, first), "k", Nth(), name="a")
    two = cluster.keyed(stream(spark, second), "k", Nth(), name="b")
    writer = one.union(two).writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "spark"))
    return writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start()


def finish_both(spark, tmp_path, first, second):
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        by_union(spark, cluster, first, second, tmp_path).awaitTermination(120)
        return [(event["region"], event["epoch"]) for event in cluster.events() if event["event"] == "feeder-joined"]


def test_an_older_copy_of_one_operator_is_refused(spark, tmp_path, files, more):
    """The notes that the other operator of the query has left do not explain what it lacks."""
    backs = some(files, 1), some(more, 1)
    finish_both(spark, tmp_path, files, more)
    older = without_suffixes(shutil.copytree(tmp_path / "state", tmp_path / "older"))
    for back in backs:
        back()
    backs = some(files, 3), some(more, 3)
    finish_both(spark, tmp_path, files, more)
    (tmp_path / "state" / "a").rename(tmp_path / "right")
    (older / "a").rename(tmp_path / "state" / "a")
    for back in backs:
        back()
    said = r"operator a is of batch 0: nothing of it is of batches 1 to 2, so it is an older copy.* the copy of a/"
    with pytest.raises(Exception, match=said):
        finish_both(spark, tmp_path, files, more)
    code, output = run("verify", tmp_path / "state", "--spark", tmp_path / "spark")
    assert (code, re.search(said, output) is not None) == (1, True)
    shutil.rmtree(tmp_path / "state" / "a")
    without_suffixes(tmp_path / "right").rename(tmp_path / "state" / "a")
    finish_both(spark, tmp_path, files, more)
    got = spark.read.parquet(str(tmp_path / "out")).orderBy("id").toArrow()
    assert got["id"].to_pylist() == [number // 2 for number in range(2 * FILES * EACH)]
    assert got["nth"].to_pylist() == [number // KEYS + 1 for number in got["id"].to_pylist()]


def without_suffixes(folder):
    """Notes have lost the suffixes of claims, as those that one brings back."""
    for path in [path for path in folder.rglob("*~*") if path.is_file()]:
        path.rename(path.with_name(path.name.partition("~")[0]))
    return folder


def test_an_operator_whose_source_has_its_first_rows_late(spark, tmp_path, files, more):
    """Other sources have rows before, also in an earlier cluster; that is no reason to think that its state is lost."""
    all_of_it, later = some(files, 0), some(more, 2)

    def go_on():
        with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
            counted = cluster.keyed(stream(spark, files), "k", Nth(), name="n")
            plain = stream(spark, more).selectExpr("-1 - id id", "k", "v", "0L nth")
            writer = counted.union(plain.select(counted.columns)).writeStream.format("parquet")
            writer = writer.option("checkpointLocation", str(tmp_path / "spark")).trigger(availableNow=True)
            writer.option("path", str(tmp_path / "out")).start().awaitTermination(120)
            return [event["epoch"] for event in cluster.events() if event["event"] == "feeder-joined"]

    assert go_on() == [], "no batch had a task of the operator"
    all_of_it()
    later()
    assert min(go_on()) == 2
    got = spark.read.parquet(str(tmp_path / "out")).where("id >= 0").orderBy("id").toArrow()
    assert got["nth"].to_pylist() == [number // KEYS + 1 for number in got["id"].to_pylist()]


def test_an_operator_whose_source_had_nothing_new_beside_another(spark, tmp_path, files, more):
    """Its own sources show that it lacks nothing, though another operator has left notes."""
    back, later = some(files, 1), some(more, 3)
    finish_both(spark, tmp_path, files, more)
    back()
    later()
    found = finish_both(spark, tmp_path, files, more)
    assert min(epoch for region, epoch in found if region == "a") >= 3
    assert spark.read.parquet(str(tmp_path / "out")).count() == 2 * FILES * EACH
