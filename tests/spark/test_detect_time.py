"""`Cluster.detect` by event time on Spark: rows in order across partitions and streams, windows that end with time."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.errors import InvalidArgument
from tests.support.comparison import run_to_end
from tests.support.moving import Moving, region, source

SCHEMA = "k long, x long, at timestamp"
FOLLOWED = "SELECT p.x AS p, a.x AS a FROM PATTERN [every p=P -> a=A where timer:within(10 sec)]"
ALONE = """SELECT p.x AS p FROM PATTERN
           [every p=P -> (timer:interval(6 sec) and not A(x = p.x and x % 3 != 0))]"""
WINDOWS = "SELECT k, count(*) AS n, sum(x) AS s, window_end() AS over FROM T.win:time_batch(10 sec) GROUP BY k"


def rows_of(keys, seconds, numbers=None):
    at = pa.array((np.asarray(seconds, float) * 1e6).astype(np.int64), pa.timestamp("us", "UTC"))
    numbers = np.arange(len(keys)) if numbers is None else numbers
    return pa.table({"k": pa.array(keys, pa.int64()), "x": pa.array(numbers, pa.int64()), "at": at})


def sparse(count=4_000):
    """Many keys with few rows each, some without a key, not quite in order."""
    random = np.random.default_rng(5)
    at = np.sort(random.random(count) * 400) - random.random(count) * 15
    keys = [None if key == 700 else key for key in random.integers(0, 701, count).tolist()]
    return rows_of(keys, at + 1_000_000)


def stream(spark, path, parts):
    """A stream with a micro-batch for each table, of several partitions."""
    path.mkdir()
    for number, part in enumerate(parts):
        pq.write_table(part, path / f"{number}.parquet")
        os.utime(path / f"{number}.parquet", (number + 1, number + 1))  # Spark takes the oldest first
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(path))
    return files.repartition(3)


def finished(spark, out):
    """What a stream gives until there is no more input."""
    name = region("found").replace("-", "_")
    run_to_end(out.writeStream.format("memory").queryName(name).trigger(availableNow=True).start())
    return spark.table(name)


def pairs(count=400):
    """People, and what each puts up five seconds later."""
    keys, at = np.arange(count) % 40, np.arange(count) * 1.5
    return rows_of(keys, at), rows_of(keys, at + 5)


def matched(found):
    return sorted((row.p, row.a) for row in found.collect())


def expected_pairs(people, auctions):
    """Each person, with the first of the key's auctions after it and less than ten seconds later."""
    auctions, found = auctions.to_pylist(), []
    for p in people.to_pylist():
        after = [a for a in auctions if a["k"] == p["k"] and 0 <= (a["at"] - p["at"]).total_seconds() < 10]
        found += [(p["x"], after[0]["x"])] if after else []
    return found


@pytest.mark.parametrize(("left", "right"), [(1, 1), (4, 3)])
def test_two_streams_meet_in_the_order_of_their_times(spark, cluster, left, right):
    people, auctions = pairs()
    streams = {"A": source(spark, auctions, left, 0.0), "P": source(spark, people, right, 0.3)}  # auctions come first
    out = cluster.detect(streams, FOLLOWED, key="k", time="at")
    assert matched(out) == expected_pairs(people, auctions)
    assert len(expected_pairs(people, auctions)) == 400


def test_two_streams_in_any_micro_batches(spark, cluster, tmp_path):
    """Of 800 rows, all auctions before all people in arrival."""
    people, auctions = pairs()
    late = rows_of([1], [5_000])  # so that all others are due
    parts = {
        "A": [auctions, auctions.slice(0, 0), auctions.slice(0, 0), late],
        "P": [people.slice(0, 0), people.slice(200), people.slice(0, 200), late],
    }
    streams = {name: stream(spark, tmp_path / name, tables) for name, tables in parts.items()}
    rules = {"pair": FOLLOWED, "alone": ALONE}
    found = finished(spark, cluster.detect(streams, rules, key="k", time="at", lateness="15 minutes"))
    assert matched(found.where("rule = 'pair'")) == expected_pairs(people, auctions)
    alone = found.where("rule = 'alone' and late is null").select("p").toPandas()["p"]
    assert sorted(alone) == [x for x in range(400) if x % 3 == 0]


def in_windows(df):
    """The same by Spark: (key, end, count, sum)."""
    counted = df.groupBy("k", F.window("at", "10 seconds").end.alias("end")).agg(
        F.count("*").alias("n"), F.sum("x").alias("s")
    )
    return [(row.end, (row.k, row.n, row.s, row.end)) for row in counted.collect()]


def shown(rows):
    return sorted(((row.k, row.n, int(row.s), row.over) for row in rows), key=str)


@pytest.mark.parametrize("partitions", [1, 5])
def test_all_windows_of_all_keys_come_out(spark, cluster, partitions):
    rows, name = sparse(), region("windows")
    df = source(spark, rows, partitions)
    out = cluster.detect(df, WINDOWS, key="k", time="at", name=name, balance="kg", tuning=ef.Tuning(units=64))
    expected = sorted((values for _, values in in_windows(source(spark, rows))), key=str)
    assert len(expected) > 3_000
    with Moving(cluster, name) as moving:
        while moving.wanted():
            assert shown(out.select("*").collect()) == expected  # a query of its own each time


def test_a_stream_gives_the_windows_that_are_over(spark, cluster, tmp_path):
    """As Spark does: what ended by the latest time less the lateness; the rest stays in the state."""
    rows = sparse()
    parts = [rows.slice(start, 1_000) for start in range(0, 4_000, 1_000)]
    out = cluster.detect(stream(spark, tmp_path / "in", parts), WINDOWS, key="k", time="at", lateness=20)
    found = finished(spark, out)
    now = rows.to_pandas()["at"].max().timestamp() - 20
    ended = sorted((values for end, values in in_windows(source(spark, rows)) if end.timestamp() <= now), key=str)
    assert found.where("late is not null").count() == 0
    assert shown(found.collect()) == ended
    assert len(ended) > 3_000


def test_late_is_what_comes_behind_the_rows_of_all_keys(spark, cluster, tmp_path, eventually):
    parts = [rows_of([1, 2, 1], [0, 100, 5]), rows_of([3, 1], [89, 91]), rows_of([2], [130]), rows_of([2], [200])]
    name = region("late")
    rule = "SELECT k, x, count(*) AS seen FROM T.win:time(1000 sec)"
    out = cluster.detect(stream(spark, tmp_path / "in", parts), rule, key="k", time="at", lateness="10 sec", name=name)
    found = finished(spark, out).collect()
    assert [(row.late.k, row.late.x) for row in found if row.late is not None] == [(3, 0)]  # 89 < 100 - 10
    seen = sorted((row.k, row.x, row.seen) for row in found if row.late is None)
    assert seen == [(1, 0, 1), (1, 1, 3), (1, 2, 2), (2, 0, 2), (2, 1, 1)]  # not the last row, which is not due
    eventually(lambda: cluster.region(name).snapshot().counts == {"late": 1}, what="the last reports")


def test_rows_as_they_arrive(spark, cluster):
    """Each key has its own time, and windows end with its own rows."""
    rows = rows_of([1, 2, 1, 1, 2], [3, 1, 25, 4, 2])
    df = source(spark, rows)
    out = cluster.detect(df, WINDOWS, key="k", time="at", order="arrival", ordered=True)
    assert [(row.k, row.n) for row in out.collect()] == [(1, 1)]
    people, auctions = pairs(20)
    one = cluster.detect(
        {"A": source(spark, auctions, 1), "P": source(spark, people, 1, 0.5)},
        FOLLOWED,
        key="k",
        time="at",
        order="arrival",
    )
    assert one.count() == 0


def test_rows_of_one_time_are_in_the_order_asked_for(spark, cluster):
    rows = rows_of([1] * 8, [0] * 8, [5, 3, 7, 1, 6, 2, 0, 4])
    rule = "SELECT x, count(*) AS nth FROM T"
    for more in ({"time": "at", "order_by": "x"}, {"order_by": ["x"]}):
        out = cluster.detect(source(spark, rows, 4), rule, key="k", **more)
        assert sorted((row.x, row.nth) for row in out.collect()) == [(n, n + 1) for n in range(8)]


def test_streams_are_in_the_order_given_where_times_are_the_same(spark, cluster):
    rows = rows_of([1, 2, 3], [0, 0, 0])
    for names, count in ((("P", "A"), 3), (("A", "P"), 0)):
        out = cluster.detect({name: source(spark, rows) for name in names}, FOLLOWED, key="k", time="at")
        assert out.count() == count


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"order": "sideways", "time": "at"}, "order='sideways': give 'time'"),
        ({"order": "time"}, "order='time' and time is None"),
        ({"order": "arrival", "time": "at", "order_by": "x"}, "order='arrival' and order_by='x'"),
        ({"time": "at", "ordered": True}, r"time= and ordered=True: .*order='arrival'"),
        ({"order_by": "x", "ordered": True}, "order_by= and ordered=True"),
        ({"time": "at", "order_by": 5}, "order_by=5: give the name of a column"),
        ({"time": "at", "order_by": "y"}, "'y'"),
    ],
)
def test_orders_that_are_refused(spark, cluster, more, message):
    with pytest.raises(InvalidArgument, match=message):
        cluster.detect(source(spark, rows_of([1], [0])), "SELECT x FROM T", key="k", **more)


def test_windows_of_a_stream_need_to_know_how_late_rows_may_be(spark, cluster, tmp_path):
    df = stream(spark, tmp_path / "in", [rows_of([1], [0])])
    with pytest.raises(InvalidArgument, match=r"win:time_batch over a stream .*lateness="):
        cluster.detect(df, WINDOWS, key="k", time="at")
    assert cluster.detect(df, WINDOWS, key="k", time="at", order="arrival").isStreaming
