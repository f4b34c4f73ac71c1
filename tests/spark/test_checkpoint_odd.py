"""What users do to stored state without meaning to: threads, swallowed failures, empty beginnings, mended code."""

import os
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark import inheritable_thread_target

import evenflow as ef
from evenflow.errors import InvalidArgument
from tests.support.moving import Nth, nth_of
from tests.support.stored_stream import EACH, FILES, KEYS, check, some, stream


def run(out, tmp_path, each=None):
    writer = out.writeStream.option("checkpointLocation", str(tmp_path / "spark")).trigger(availableNow=True)
    if each is not None:
        query = writer.foreachBatch(each).start()
    else:
        query = writer.format("parquet").option("path", str(tmp_path / "out")).start()
    query.awaitTermination(120)


def test_a_thread_that_does_not_know_its_query(spark, tmp_path, files):
    """Its rows would go into fresh state, and nowhere else."""

    def plain(batch, number):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: batch.write.mode("append").parquet(str(tmp_path / "out"))).result()

    def inheriting(batch, number):
        write = inheritable_thread_target(spark)(lambda: batch.write.mode("append").parquet(str(tmp_path / "out")))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(write).result()

    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        out = cluster.keyed(stream(spark, files), "k", Nth(), name="n")
        with pytest.raises(Exception, match=r"does not know its query, .* use pyspark\.InheritableThread"):
            run(out, tmp_path, plain)
        run(out, tmp_path, inheriting)
    check(spark, tmp_path)


class Fails(Nth):
    """Fails on one row, as long as there is a file."""

    def __init__(self, file):
        super().__init__()
        self._file = file

    def process(self, rows, units, keys):
        if EACH - 1 in rows["id"].to_pylist() and os.path.exists(self._file):
            raise ConnectionError("the lookup service is away")
        return super().process(rows, units, keys)


def test_a_failure_that_is_swallowed_is_not_forgotten(spark, tmp_path, files):
    """Spark takes the batch for done; neither this cluster nor another may go on as if it were."""
    file = tmp_path / "away"
    file.touch()
    back = some(files, 1)

    def each(batch, number):
        try:
            batch.write.mode("append").parquet(str(tmp_path / "out"))
        except Exception:
            if number:
                raise

    def go_on(cluster):
        run(cluster.keyed(stream(spark, files).repartition(2), "k", Fails(str(file)), name="n"), tmp_path, each)

    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        go_on(cluster)
        file.unlink()
        back()
        with pytest.raises(Exception, match="batch 0 was evaluated in parts"):
            go_on(cluster)
    with (
        ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster,
        pytest.raises(Exception, match=r"Spark is at batch 1, .*n/[^/]*/whole/0\.1 is missing"),
    ):
        go_on(cluster)


def test_a_query_whose_first_batch_had_no_rows_for_the_operator(spark, tmp_path, files):
    back = some(files, 1)
    for _ in range(2):
        with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
            out = cluster.keyed(stream(spark, files).where(f"abs(id) >= {EACH}"), "k", Nth(), name="n")
            run(out, tmp_path)
        back()
        back = list
    got = spark.read.parquet(str(tmp_path / "out")).orderBy("id").toArrow()
    assert got["nth"].to_pylist() == nth_of(number % KEYS for number in got["id"].to_pylist())
    assert got["id"].to_pylist()[0] == EACH


def labelled(version):
    """An operator as it is written anew in a notebook."""

    class Labelled(Nth):
        def schema(self, rows):
            return super().schema(rows).append(pa.field("version", pa.int64()))

        def process(self, rows, units, keys):
            out = super().process(rows, units, keys)
            return out.append_column("version", pa.array([version] * len(out), pa.int64()))

    return Labelled()


def test_code_that_was_mended(spark, tmp_path, files):
    """State is that of the name; the code is that of the query, also in a cluster that knows an older one."""
    back = some(files, 2)
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        run(cluster.keyed(stream(spark, files), "k", labelled(1), name="n"), tmp_path)
        back()
        run(cluster.keyed(stream(spark, files), "k", labelled(2), name="n", ordered=True), tmp_path)
    check(spark, tmp_path)
    got = spark.read.parquet(str(tmp_path / "out")).toArrow()
    versions = zip(got["id"].to_pylist(), got["version"].to_pylist(), strict=True)
    assert {(number >= 2 * EACH, version) for number, version in versions} == {(False, 1), (True, 2)}


def peeks(tmp_path, persisted):
    """A function that looks at a batch before it writes it."""

    def each(batch, number):
        if persisted:
            batch.persist()
        if batch.isEmpty():
            return
        batch.take(1)
        batch.write.mode("append").parquet(str(tmp_path / "out"))
        if persisted:
            batch.unpersist()

    return each


@pytest.mark.parametrize("persisted", [True, False])
def test_a_batch_that_is_looked_at_before_it_is_written(spark, tmp_path, files, persisted):
    """Parts of what is persisted are one evaluation; without that, each look is one of its own, and none counts."""
    with ef.Cluster(spark, 2, checkpoint=tmp_path / "state") as cluster:
        rows = stream(spark, files).repartition(3, "k")
        run(cluster.keyed(rows, "k", Nth(), name="n"), tmp_path, peeks(tmp_path, persisted))
        loads = sum(event["event"] == "loading" for event in cluster.events())
    got = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert sorted(got["id"].to_pylist()) == list(range(FILES * EACH))
    pairs = zip(got["k"].to_pylist(), got["nth"].to_pylist(), strict=True)
    assert sorted(pairs) == sorted(zip(*[keys := [n % KEYS for n in range(FILES * EACH)], nth_of(keys)], strict=True))
    assert (loads == 0) == persisted


def test_an_operator_that_is_added_and_one_that_is_taken_out(spark, tmp_path, files):
    """The new one begins with nothing; what it is added to goes on; without it the query goes on if that is said."""
    back = some(files, 2)

    def go_on(added, absent=(), **options):
        with ef.Cluster(spark, 2, checkpoint=tmp_path / "state", absent=absent) as cluster:
            rows = cluster.keyed(stream(spark, files), "k", Nth(), name="n")
            if added:
                rows = cluster.keyed(rows.withColumnRenamed("nth", "first"), "k", Nth(), **options).drop("nth")
                rows = rows.withColumnRenamed("first", "nth")
            run(rows.select("id", "k", "nth"), tmp_path)

    go_on(added=False)
    back()
    back = some(files, 3)
    with pytest.raises(InvalidArgument, match=r"the cluster has a checkpoint.* give name=.* give was='' as well"):
        go_on(added=True)
    go_on(added=True, name="new")
    back()
    with pytest.raises(Exception, match=r"without operator 'new', which has state.* Cluster absent=\['new'\]"):
        go_on(added=False)
    with pytest.raises(InvalidArgument, match="name='new' is in absent= of this cluster"):
        go_on(added=True, name="new", absent=["new"])
    go_on(added=False, absent=["new"])
    check(spark, tmp_path)
