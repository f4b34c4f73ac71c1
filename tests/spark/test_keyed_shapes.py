"""`keyed` on every kind of key and in every kind of plan."""

import datetime as dt
import decimal
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from tests.support.moving import Moving, Nth, nth_of, region, source

DAY = dt.date(2024, 2, 29)
INSTANT = dt.datetime(2024, 11, 3, 5, 30, tzinfo=dt.UTC)
CLOCK = dt.datetime(2024, 11, 3, 1, 30)  # noqa: DTZ001 - a timestamp without a zone

KEYS = {
    "string": ["", " ", "a", "A", "ä", "a\u0000", "漢字" * 100, None],
    "int": [0, -1, 1, 2**31 - 1, -(2**31), None],
    "long": [0, -1, 1, 2**63 - 1, -(2**63), None],
    "short": [0, -1, 2**15 - 1, -(2**15), None],
    "byte": [0, -1, 127, -128, None],
    "boolean": [True, False, None],
    "date": [DAY, DAY + dt.timedelta(1), dt.date(1899, 12, 30), dt.date(9999, 12, 31), None],
    "timestamp": [INSTANT, INSTANT + dt.timedelta(hours=1), INSTANT + dt.timedelta(microseconds=1), None],
    "timestamp_ntz": [CLOCK, CLOCK + dt.timedelta(hours=1), CLOCK + dt.timedelta(microseconds=1), None],
    "decimal(10,2)": [decimal.Decimal("0.00"), decimal.Decimal("-1.10"), decimal.Decimal("1.10"), None],
    "decimal(38,10)": [decimal.Decimal(0), decimal.Decimal("1e27"), decimal.Decimal("-1e27"), None],
    "double": [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324, -1.5, None],
    "float": [0.0, -0.0, float("nan"), 1.5, None],
    "binary": [b"", b"\x00", b"\x00\x00", b"a", None],
    "interval day to second": [dt.timedelta(0), dt.timedelta(microseconds=1), dt.timedelta(-3), None],
    "struct<a:int,b:string>": [(1, "x"), (2, "x"), (1, "y"), None],
    "array<int>": [[], [1], [2, 1], [1, 2], [1, 1], None],
    "struct<a:string,b:string> with nulls": [("x", None), (None, "x"), (None, None), ("x", "x"), None],
    "array<string> with nulls": [["x"], ["x", None], [None, "x"], [None], [], [None, None], None],
    "array<array<int>>": [[[1], [2]], [[1, 2]], [[1, 2], []], [[], [1, 2]], [], [[]], None],
    "array<struct<a:int,b:int>>": [[(1, None)], [(None, 1)], [(1, 1)], [None], None],
}


def same(value):
    """Equal for keys that Spark's GROUP BY takes for one."""
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    if isinstance(value, list):
        return tuple(same(member) for member in value)
    return value


def keyed_rows(spark, kind, values, copies=5):
    """Each of the values several times, in one partition, in order."""
    rows = [(place, value) for place, value in enumerate(values * copies)]
    return spark.createDataFrame(rows, f"id long, k {kind.removesuffix(' with nulls')}").coalesce(1)


def nth_by_id(out):
    return [row.nth for row in sorted(out.select("id", "nth").collect(), key=lambda row: row.id)]


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type(spark, cluster, kind):
    values = KEYS[kind]
    out = cluster.keyed(keyed_rows(spark, kind, values), "k", Nth(), tuning=ef.Tuning(units=7))
    assert nth_by_id(out) == nth_of([same(value) for value in values * 5])


PAIRS = [
    ("a", None),
    (None, "a"),
    ("a", "a"),
    (None, None),
    ("", "a"),
    ("a", ""),
    ("aa", None),
    ("ab", "c"),
    ("a", "bc"),
]


def test_compound_keys_with_nulls(spark, cluster):
    rows = [(place, *pair) for place, pair in enumerate(PAIRS * 4)]
    df = spark.createDataFrame(rows, "id long, p string, q string").coalesce(1)
    assert nth_by_id(cluster.keyed(df, ["p", "q"], Nth())) == nth_of(PAIRS * 4)
    assert nth_by_id(cluster.keyed(df, ("p", F.col("q")), Nth())) == nth_of(PAIRS * 4)


def test_compound_key_of_arrays(spark, cluster):
    pairs = [([1], [2]), ([1, 2], []), ([], [1, 2]), ([1], None), (None, [1])]
    rows = [(place, *pair) for place, pair in enumerate(pairs * 3)]
    df = spark.createDataFrame(rows, "id long, p array<int>, q array<int>").coalesce(1)
    assert nth_by_id(cluster.keyed(df, ["p", "q"], Nth())) == nth_of(map(repr, pairs * 3))


def test_null_keys_have_a_unit_of_their_own(spark, cluster, eventually):
    df = spark.range(0, 3_000, 1, 1).selectExpr("id", "if(id % 3 = 0, null, id) as k")
    name = region("nulls")
    out = cluster.keyed(df, "k", Nth(), tuning=ef.Tuning(units=16), name=name)
    nth = nth_by_id(out)
    assert nth[::3] == list(range(1, 1_001))
    assert set(nth) - set(nth[::3]) == set()
    eventually(lambda: cluster.region(name).snapshot().unit_rows.sum() == 3_000, what="the last reports")
    rows = cluster.region(name).snapshot().unit_rows
    assert len(rows) == 17
    assert rows[16] == 1_000


@pytest.mark.parametrize(
    "make",
    [
        lambda: F.col("id") % 7,
        lambda: F.expr("id % 7"),
        lambda: [F.col("id") % 7, F.lit("x")],
        lambda: F.when(F.col("id") >= 0, F.col("id") % 7),
    ],
    ids=["arithmetic", "expression", "list", "when"],
)
def test_key_as_an_expression(spark, cluster, make):
    out = cluster.keyed(spark.range(0, 500, 1, 1), make(), Nth())
    assert out.columns == ["id", "nth"]
    assert nth_by_id(out) == nth_of(number % 7 for number in range(500))


@pytest.mark.parametrize("name", ["a.b", "a b", "ключ", "k`k", "__evenflow_key", "xxhash64(id)", "select"])
def test_strange_column_names(spark, cluster, name):
    df = spark.range(0, 100, 1, 1).withColumn(name, F.col("id") % 7)
    out = cluster.keyed(df, name, Nth())
    assert out.columns == ["id", name, "nth"]
    assert nth_by_id(out) == nth_of(number % 7 for number in range(100))


def test_field_of_a_struct(spark, cluster):
    df = spark.range(0, 100, 1, 1).withColumn("s", F.struct((F.col("id") % 7).alias("k")))
    assert nth_by_id(cluster.keyed(df, "s.k", Nth())) == nth_of(number % 7 for number in range(100))


@pytest.mark.parametrize("name", ["a.b", "a b"])
def test_operators_on_strange_column_names(spark, cluster, name):
    df = spark.range(0, 60, 1, 1).withColumn(name, F.col("id") % 5)
    out = cluster.keyed(df, name, ef.DistinctCount(name))
    assert out.columns == ["id", name, f"{name}_distinct"]
    assert {row[2] for row in out.collect()} == {1}


@pytest.mark.parametrize("kind", ["array<string> with nulls", "struct<a:string,b:string> with nulls", "double"])
def test_distinct_count_of_every_type(spark, cluster, kind):
    values = KEYS[kind]
    df = keyed_rows(spark, kind, values, copies=2)
    out = cluster.keyed(df, F.lit(1), ef.DistinctCount("k", into="n"))
    found = [row.n for row in sorted(out.select("id", "n").collect(), key=lambda row: row.id)]
    assert found[-1] == len({same(value) for value in values if value is not None})


def test_a_hundred_thousand_units(spark, cluster):
    df = spark.range(0, 100_000, 1, 2).selectExpr("id", "id % 50000 as k")
    name = region("many")
    out = cluster.keyed(df, "k", ef.RunningCount("id"), tuning=ef.Tuning(units=100_000), name=name)
    with Moving(cluster, name, least=0):
        counts = out.groupBy("id_count").count().collect()
    assert {row["id_count"]: row["count"] for row in counts} == {1: 50_000, 2: 50_000}
    assert len(cluster.region(name).snapshot().table.owners) == 100_001


# -- plans


def test_two_operators_in_one_plan_with_different_keys(spark, cluster):
    df = spark.range(0, 4_000, 1, 1)
    first = cluster.keyed(df, F.col("id") % 7, ef.RunningCount("id", into="a"), ordered=True)
    out = cluster.keyed(first, F.col("id") % 5, ef.RunningCount("id", into="b"), ordered=True)
    got = out.toArrow()
    assert got["id"].to_pylist() == list(range(4_000))
    assert got["a"].to_pylist() == [number // 7 + 1 for number in range(4_000)]
    assert got["b"].to_pylist() == [number // 5 + 1 for number in range(4_000)]


def test_after_ordered_map_and_before(spark, cluster):
    def negative(batch):
        return pa.record_batch({"id": batch.column("id"), "n": pa.array(-batch.column("id").to_numpy())})

    mapped = cluster.ordered_map(spark.range(0, 4_000, 1, 1), negative, "id long, n long")
    out = cluster.keyed(mapped, F.col("n") % 7, Nth(), ordered=True)
    again = cluster.ordered_map(out, lambda batch: batch, "id long, n long, nth long").toArrow()
    assert again["nth"].to_pylist() == [number // 7 + 1 for number in range(4_000)]
    assert again["n"].to_pylist() == [-number for number in range(4_000)]


def test_evaluated_again_starts_from_nothing(spark, cluster):
    out = cluster.keyed(spark.range(0, 1_000, 1, 1), F.col("id") % 7, Nth())
    for _ in range(3):
        assert nth_by_id(out) == nth_of(number % 7 for number in range(1_000))


def test_operator_given_twice_is_two(spark, cluster):
    """One object in two regions: each has its own state, and the object itself has none."""
    operator = Nth()
    outs = [cluster.keyed(spark.range(0, 100, 1, 1), F.col("id") % 7, operator) for _ in range(2)]
    for out in outs:
        assert nth_by_id(out) == nth_of(number % 7 for number in range(100))
    assert operator.counts == {}


def test_limit_take_and_show(spark, cluster, conf, eventually):
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    name = region("limited")
    out = cluster.keyed(spark.range(0, 500_000, 1, 1), F.col("id") % 7, Nth(), ordered=True, name=name)
    assert [row.id for row in out.limit(5).collect()] == [0, 1, 2, 3, 4]
    assert [row.nth for row in out.take(8)] == [1] * 7 + [2]
    assert out.first().id == 0
    assert not out.isEmpty()
    with redirect_stdout(StringIO()) as shown:
        out.show(3)
    assert "|  2|  1|" in shown.getvalue()
    eventually(lambda: cluster.region(name).snapshot().feeders == 0, what="feeders that left early are gone")
    assert nth_by_id(out.where("id < 1000")) == nth_of(number % 7 for number in range(1_000))


def test_cached(spark, cluster, eventually):
    name = region("cached")
    out = cluster.keyed(spark.range(0, 2_000, 1, 2), F.col("id") % 7, Nth(), name=name).cache()
    try:
        first = sorted(out.collect())
        assert sorted(out.collect()) == first
        assert out.where("nth = 1").count() == 7
        eventually(lambda: cluster.region(name).snapshot().unit_rows.sum() >= 2_000, what="the last reports")
        assert (
            cluster.region(name).snapshot().unit_rows.sum()
            == cluster.region(name).snapshot().unit_arrived.sum()
            == 2_000
        )
    finally:
        out.unpersist()


def test_empty_input_and_empty_partitions(spark, cluster):
    assert cluster.keyed(spark.range(0), "id", Nth()).collect() == []
    df = spark.range(0, 1_000, 1, 5).where("id between 450 and 460")
    assert nth_by_id(cluster.keyed(df, F.col("id") % 2, Nth())) == nth_of(number % 2 for number in range(450, 461))


def test_more_partitions_than_slots(spark, cluster):
    df = spark.range(0, 4_000, 1, 25).selectExpr("id", "spark_partition_id() as p")
    got = cluster.keyed(df, "p", Nth()).groupBy("p").agg(F.max("nth").alias("most"), F.count("*").alias("n")).collect()
    assert {(row.most, row.n) for row in got} == {(160, 160)}
    assert len(got) == 25


def test_coalesced_result(spark, cluster):
    """One Spark task then runs several partitions of the operator, one after the other."""
    df = spark.range(0, 4_000, 1, 4).selectExpr("id", "spark_partition_id() as p")
    got = cluster.keyed(df, "p", Nth()).coalesce(1).toArrow().sort_by("id")
    assert got["nth"].to_pylist() == [number % 1_000 + 1 for number in range(4_000)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_union_with_itself(spark, cluster, partitions):
    """Both halves are in one stage. Each has its own state, or it is refused: rows are never counted twice."""
    df = spark.range(0, 90, 1, partitions).selectExpr("id", "spark_partition_id() as p")
    out = cluster.keyed(df, "p", Nth())
    try:
        got = out.unionAll(out).toArrow()
    except Exception as error:
        assert "StateLost" in str(error)  # noqa: PT017
    else:
        size = 90 // partitions
        assert sorted(got["nth"].to_pylist()) == sorted([*range(1, size + 1)] * 2 * partitions)


def test_self_join(spark, cluster):
    out = cluster.keyed(spark.range(0, 700, 1, 1), F.col("id") % 7, Nth())
    joined = out.alias("a").join(out.alias("b"), F.col("a.id") == F.col("b.id"))
    got = joined.selectExpr("a.id as id", "a.nth as one", "b.nth as other").toArrow().sort_by("id")
    assert got["one"].to_pylist() == got["other"].to_pylist() == nth_of(number % 7 for number in range(700))


def test_source_that_takes_its_time(spark, cluster, monkeypatch):
    """The first row comes later than a stranger may take to shake hands."""
    monkeypatch.setattr("evenflow.runtime.wire.poller.HANDSHAKE_S", 3.0)
    rows = pa.table({"id": pa.array(np.arange(50))})
    out = cluster.keyed(source(spark, rows, pause_s=4.0), F.col("id") % 7, Nth())
    assert nth_by_id(out) == nth_of(number % 7 for number in range(50))


def test_columns_keep_their_types(spark, cluster):
    df = spark.range(0, 10, 1, 1).selectExpr(
        "id",
        "cast(id as decimal(38,10)) as d",
        "map('a', id) as m",
        "array(named_struct('x', id)) as s",
        "date'2024-01-01' as t",
    )
    out = cluster.keyed(df, "id", ef.LastValue("s"))
    assert [(f.name, f.dataType) for f in out.schema][:5] == [(f.name, f.dataType) for f in df.schema]
    assert out.schema["s_last"].dataType == df.schema["s"].dataType
    got = out.toArrow().sort_by("id")
    assert got.select(df.columns).to_pylist() == df.toArrow().to_pylist()
    assert got["s_last"].to_pylist() == got["s"].to_pylist()


def test_rows_that_spark_was_given_as_they_are(spark, cluster):
    """From pandas, Spark works out columns on the driver if it can, where all partitions have the number 0."""
    df = spark.createDataFrame(pd.DataFrame({"id": np.arange(600), "k": np.arange(600) % 7}))
    assert df.rdd.getNumPartitions() > 1
    name = region("given")
    out = cluster.keyed(df.where("id < 500"), "k", Nth(), name=name)
    assert sorted(row.id for row in out.collect()) == list(range(500))
    joined = [event for event in cluster.events() if event["event"] == "feeder-joined" and event["region"] == name]
    assert len(joined) == df.rdd.getNumPartitions()
