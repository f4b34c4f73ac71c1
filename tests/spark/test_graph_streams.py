"""Graphs over streams: results of a micro-batch belong to it, exactly once with a checkpoint, whatever is killed."""

import shutil
from contextlib import suppress

import pyarrow as pa
import pytest

import evenflow as ef
from tests.support.moving import Moving, Nth, nth_of, region, stop_quietly
from tests.support.stored_stream import EACH, FILES, KEYS, kill, some, stream

ALL = range(FILES * EACH)
EVEN = [number for number in ALL if number % 2 == 0]


@pytest.fixture(scope="module")
def stored(spark, tmp_path_factory):
    """A cluster with a checkpoint, that may be hurt."""
    with ef.Cluster(spark, 3, checkpoint=tmp_path_factory.mktemp("state")) as cluster:
        yield cluster


def counting(operator=Nth):
    """Two endpoints: the even rows, counted by key, and all rows."""
    graph = ef.Graph()
    rows = graph.source("rows")
    graph.endpoint("counted", rows.filter("id % 2 = 0").keyed("k", operator(), units=16))
    graph.endpoint("all", rows)
    return graph


def run(cluster, inputs, **options):
    graph = options.pop("graph", None) or counting()
    return cluster.run(graph, inputs=inputs, placement="round-robin", **options)


def write(writer, folder):
    return writer.option("checkpointLocation", str(folder / "spark")).trigger(availableNow=True).start()


def start(spark, cluster, files, folder, name):
    """Count the rows of the files, into more files."""
    out = run(cluster, {"rows": stream(spark, files)}, name=name)["counted"]
    return write(out.writeStream.format("parquet").option("path", str(folder / "out")), folder)


def check(table, files=FILES):
    found = table.sort_by("id")
    wanted = [number for number in EVEN if number < files * EACH]
    assert found["id"].to_pylist() == wanted
    assert found["nth"].to_pylist() == nth_of(number % KEYS for number in wanted)


def check_files(spark, folder, files=FILES):
    check(spark.read.parquet(str(folder / "out")).toArrow(), files)


def test_all_endpoints_in_one_query(spark, stored, files, tmp_path):
    """One evaluation a micro-batch; its results are that micro-batch's, and state goes on in the next run."""
    seen = {}

    def keep(batch, endpoint):
        table = batch.toArrow()
        assert batch.count() == table.num_rows
        assert table.schema.names == (["id", "k", "v", "nth"] if endpoint == "counted" else ["id", "k", "v"])
        batches = {number // EACH for number in table["id"].to_pylist()}
        assert len(batches) == 1
        assert (endpoint, *batches) not in seen
        seen[endpoint, *batches] = table

    back, name = some(files, 2), region("together")
    for then in (back, lambda: None):
        out = run(stored, {"rows": stream(spark, files)}, name=name)
        write(out.writeStream(keep), tmp_path).awaitTermination(120)
        then()
    check(pa.concat_tables(seen["counted", number] for number in range(FILES)))
    found = pa.concat_tables(seen["all", number] for number in range(FILES)).sort_by("id")
    assert found["id"].to_pylist() == list(ALL)


def test_without_a_checkpoint(spark, cluster, files, tmp_path):
    out = run(cluster, {"rows": stream(spark, files)})["counted"]
    writer = out.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    write(writer, tmp_path).awaitTermination(120)
    check_files(spark, tmp_path)


def test_units_and_operators_move_all_the_time(spark, stored, files, tmp_path):
    """The unit of the filter, which is a whole operator, as well as those of the keyed operator."""
    name = region("moved")
    out = run(stored, {"rows": stream(spark, files)}, name=name)["counted"]
    with Moving(stored, f"{name}.counted", least=3, between=True) as moving:
        while moving.wanted():
            folder = tmp_path / str(moving.runs)
            writer = out.writeStream.format("parquet").option("path", str(folder / "out"))
            write(writer, folder).awaitTermination(120)
            check_files(spark, folder)


def test_supervised_through_the_loss_of_workers(spark, stored, files, tmp_path, eventually):
    name = region("killed")
    victims = iter((0, 1, 2))

    def begin():
        query = start(spark, stored, files, tmp_path, name)
        victim = next(victims, None)
        if victim is not None:
            seen = sum(event["event"] == "feeder-joined" for event in stored.events())
            eventually(lambda: sum(e["event"] == "feeder-joined" for e in stored.events()) > seen, what="rows")
            with suppress(ProcessLookupError):
                kill(stored, victim)
        return query

    ef.supervise(begin, stored, restarts=6, backoff=0.2)
    check_files(spark, tmp_path)


def test_killed_between_batches(spark, stored, files, tmp_path, eventually):
    name = region("between")
    back = some(files, 2)
    start(spark, stored, files, tmp_path, name).awaitTermination(120)
    before = stored.workers()[1].restarts
    kill(stored, 1)
    eventually(lambda: stored.workers()[1].restarts > before and stored.workers()[1].state == "live", what="replaced")
    back()
    start(spark, stored, files, tmp_path, name).awaitTermination(120)
    check_files(spark, tmp_path)


def test_other_operators_do_not_take_the_state(spark, stored, files, tmp_path):
    name = region("other")
    run(stored, {"rows": stream(spark, files)}, name=name)["counted"]
    graph = ef.Graph()
    graph.endpoint("counted", graph.source("rows").filter("id % 2 = 0").keyed("k", ef.RunningSum("v"), units=16))
    with pytest.raises(
        ef.errors.InvalidArgument, match=f"name '{name}.counted' is that of graph of rows.*Nth.*already"
    ):
        run(stored, {"rows": stream(spark, files)}, name=name, graph=graph)["counted"]


def test_without_a_checkpoint_a_lost_worker_fails_the_query(spark, files, tmp_path, eventually):
    with ef.Cluster(spark, 2) as cluster:
        reader = spark.readStream.schema("id long, k long, v double").option("maxFilesPerTrigger", 1)
        out = run(cluster, {"rows": reader.parquet(str(files))})["counted"]
        writer = out.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "spark"))
        query = writer.trigger(processingTime="0 seconds").start()
        eventually(lambda: query.lastProgress and query.lastProgress["batchId"] >= FILES - 1, what="through")
        kill(cluster, 0)
        eventually(lambda: cluster.workers()[0].restarts == 1, what="replaced")
        shutil.copy(files / "000.parquet", files / "more.parquet")
        with pytest.raises(Exception, match=r"(?s)StateLost.*worker 0.*lost.*start the query again from the beginning"):
            query.awaitTermination(60)
        stop_quietly(query)


def test_two_streams(spark, cluster, tmp_path, files):
    """A join of two streams; batch and streaming do not mix."""
    graph = ef.Graph()
    left, right = graph.source("left"), graph.source("right")
    graph.endpoint("pairs", left.join(right.map(lambda rows: rows.select(["id"]), "id long"), on="id", rows=2, units=5))
    out = run(cluster, {"left": stream(spark, files), "right": stream(spark, files)}, graph=graph)["pairs"]
    writer = out.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    write(writer, tmp_path).awaitTermination(120)
    assert spark.read.parquet(str(tmp_path / "out")).orderBy("id").toArrow()["id"].to_pylist() == list(ALL)
    with pytest.raises(ef.errors.InvalidArgument, match="input 'right' is a batch DataFrame and others are streaming"):
        run(cluster, {"left": stream(spark, files), "right": spark.range(3)}, graph=graph)
