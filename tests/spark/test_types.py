"""Every kind of value goes through the workers unharmed, as Arrow and as pandas."""

import datetime as dt
import decimal

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import evenflow as ef
from evenflow.errors import InvalidArgument
from tests.support.comparison import assert_same, plain_map

ROWS = 3_000

COLUMNS = {
    "string": "case when id % 7 = 0 then null else concat('zeile ', id, ' ✓ 漢字') end",
    "boolean": "case when id % 5 = 0 then null else id % 2 = 0 end",
    "tinyint": "cast(id % 100 as tinyint)",
    "smallint": "cast(id as smallint)",
    "int": "case when id % 3 = 0 then null else cast(id as int) end",
    "float": "cast(id / 3 as float)",
    "double": "case id % 4 when 0 then null when 1 then double('NaN') when 2 then double('-Infinity') else id / 7 end",
    "decimal(38,10)": "case when id % 6 = 0 then null else cast(id as decimal(38,10)) / 7 end",
    "decimal(9,2)": "cast(id / 8 as decimal(9,2))",
    "date": "case when id % 6 = 0 then null else date_add(date'1899-12-30', cast(id * 17 as int)) end",
    "timestamp": "case when id % 6 = 0 then null else timestamp_micros(id * 3600000001 - 4000000000000) end",
    "timestamp_ntz": "timestamp_ntz'2024-03-10 01:59:59.999999' + make_dt_interval(0, 0, cast(id as int), 0)",
    "interval day to second": "make_dt_interval(cast(id as int), 1, 2, 3.000004)",
    "binary": "case when id % 6 = 0 then null else unhex(lpad(hex(id), 8, '0')) end",
    "array<int>": "case when id % 6 = 0 then null else sequence(0, cast(id % 5 as int)) end",
    "array<array<string>>": "array(array('a', null, cast(id as string)), array(), null)",
    "map<string,double>": "case when id % 6 = 0 then null else map('half', id / 2, 'none', null) end",
    "map<int,array<string>>": "map(cast(id as int), array('x', cast(id as string)))",
    "struct<a:int,b:struct<c:string,d:array<timestamp>>>": (
        "case when id % 6 = 0 then null else named_struct('a', cast(id as int), 'b', "
        "named_struct('c', cast(id as string), 'd', array(timestamp_seconds(id), null))) end"
    ),
    "array<struct<t:timestamp,x:decimal(12,3)>>": (
        "array(named_struct('t', timestamp_seconds(id), 'x', cast(id / 3 as decimal(12,3))), null)"
    ),
}


def frame_of(spark, columns, partitions=2):
    df = spark.range(0, ROWS, 1, partitions)
    chosen = [f"cast({expression} as {kind}) as c{place}" for place, (kind, expression) in enumerate(columns.items())]
    schema = ", ".join(["id long", *(f"c{place} {kind}" for place, kind in enumerate(columns))])
    return df.selectExpr("id", *chosen), schema


def rebuilt(batch):
    """The same rows in new arrays: every value is looked at."""
    return batch.take(pa.array(range(batch.num_rows)))


def test_every_type_as_arrow(spark, cluster):
    df, schema = frame_of(spark, COLUMNS)
    assert_same(cluster.ordered_map(df, rebuilt, schema), plain_map(df, rebuilt, schema), ROWS)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_timestamps_in_the_zone_of_the_session(spark, cluster, conf, zone):
    conf("spark.sql.session.timeZone", zone)

    def clock(batch):
        times = batch.column("t")
        return pa.record_batch({"t": times, "zone": [times.type.tz] * len(times), "text": times.cast(pa.string())})

    df = spark.range(0, ROWS, 1, 2).selectExpr("timestamp_seconds(1710054000 + id * 613) as t")
    schema = "t timestamp, zone string, text string"
    got = assert_same(cluster.ordered_map(df, clock, schema), plain_map(df, clock, schema), ROWS)
    assert set(got["zone"].to_pylist()) == {zone}


def test_every_type_as_pandas(spark, cluster):
    df, schema = frame_of(spark, COLUMNS | {"double": "if(id % 4 = 0, null, id / 7)"})  # NaN is null to pandas

    def look(data):
        return data.iloc[::-1].iloc[::-1].reset_index(drop=True)

    assert_same(cluster.ordered_map(df, look, schema, input="pandas"), df, ROWS)


def _each(function):
    return lambda frames: map(function, frames)


def test_pandas_sees_what_map_in_pandas_shows(spark, cluster):
    """Dtypes and clock readings, said by the function itself; `n` has one dtype with nulls and another without."""
    df = spark.range(0, 500, 1, 1).selectExpr(
        "id",
        "timestamp_seconds(1710054000 + id * 613) as t",
        "date_add(date'2024-01-01', cast(id as int)) as d",
        "cast(id as decimal(10,2)) as x",
        "if(id % 2 = 0, null, cast(id as int)) as n",
        "cast(id as string) as s",
        "array(id) as a",
        "map('k', id) as m",
        "named_struct('p', id, 'q', array(map('k', id))) as r",
    )

    def say(data):
        kinds = " ".join(f"{name}:{data[name].dtype.name}" for name in data.columns if name != "n")
        values = [
            " | ".join(f"{type(row[c]).__name__} {row[c]}" for c in ("t", "d", "x", "n", "s", "a", "m", "r"))
            for _, row in data.iterrows()
        ]
        return pd.DataFrame({"id": data["id"], "kinds": kinds, "values": values})

    schema = "id long, kinds string, values string"
    assert_same(cluster.ordered_map(df, say, schema, input="pandas"), df.mapInPandas(_each(say), schema), 500)


def test_nothing_but_nulls(spark, cluster):
    df = spark.range(0, ROWS, 1, 2).selectExpr("cast(null as string) as s", "cast(null as array<int>) as a")
    schema = "s string, a array<int>"
    assert_same(cluster.ordered_map(df, rebuilt, schema), plain_map(df, rebuilt, schema), ROWS)


def test_column_of_type_null_becomes_the_declared_type(spark, cluster):
    df = spark.range(0, ROWS, 1, 2)

    def nothing(batch):
        return pa.record_batch({"id": batch.column("id"), "s": pa.nulls(batch.num_rows)})

    wanted = df.selectExpr("id", "cast(null as string) as s")
    assert_same(cluster.ordered_map(df, nothing, "id long, s string"), wanted, ROWS)


def test_dictionary_encoded_results(spark, cluster):
    df = spark.range(0, ROWS, 1, 2).selectExpr("id", "case when id % 5 = 0 then null else concat('k', id % 4) end as k")

    def encode(batch):
        codes = batch.column("k").dictionary_encode()
        numbers = batch.column("id").dictionary_encode()
        lists = pa.ListArray.from_arrays(list(range(batch.num_rows + 1)), codes)
        return pa.record_batch({"id": numbers, "k": codes, "l": lists})

    wanted = df.selectExpr("id", "k", "array(k) as l")
    assert_same(cluster.ordered_map(df, encode, "id long, k string, l array<string>"), wanted, ROWS)


def test_pandas_categoricals(spark, cluster):
    df = spark.range(0, ROWS, 1, 2).selectExpr("id", "case when id % 5 = 0 then null else concat('k', id % 4) end as k")

    def encode(data):
        codes = pd.Categorical(data["id"] % 3, categories=[2, 1, 0])
        return pd.DataFrame({"id": data["id"], "k": data["k"].astype("category"), "n": codes})

    wanted = df.selectExpr("id", "k", "id % 3 as n")
    assert_same(cluster.ordered_map(df, encode, "id long, k string, n long", input="pandas"), wanted, ROWS)


def test_narrower_numbers_widen_and_large_strings_shrink(spark, cluster):
    df = spark.range(0, ROWS, 1, 2)

    def narrow(batch):
        ids = batch.column("id")
        return pa.record_batch(
            {
                "id": ids.cast(pa.int16()),
                "x": ids.cast(pa.float32()),
                "y": ids.cast(pa.int32()),
                "s": ids.cast(pa.string()).cast(pa.large_string()),
                "v": ids.cast(pa.string()).cast(pa.string_view()),
                "t": ids.cast(pa.timestamp("s", "UTC")),
                "d": ids.cast(pa.decimal128(20, 0)),
            }
        )

    wanted = df.selectExpr(
        "id",
        "cast(id as double) as x",
        "cast(id as double) as y",
        "cast(id as string) as s",
        "cast(id as string) as v",
        "timestamp_seconds(id) as t",
        "cast(id as decimal(22,1)) as d",
    )
    schema = "id long, x double, y double, s string, v string, t timestamp, d decimal(22,1)"
    assert_same(cluster.ordered_map(df, narrow, schema), wanted, ROWS)


def test_large_var_types(spark, cluster, conf):
    conf("spark.sql.execution.arrow.useLargeVarTypes", "true")
    df = spark.range(0, ROWS, 1, 2).selectExpr(
        "id", "cast(id as string) as s", "array(cast(cast(id as string) as binary)) as b"
    )
    schema = "id long, s string, b array<binary>"
    assert_same(cluster.ordered_map(df, rebuilt, schema), plain_map(df, rebuilt, schema), ROWS)


def test_values_python_makes(spark, cluster):
    """Not a round trip: the values are made on the worker."""
    df = spark.range(0, 100, 1, 1)
    zone = dt.timezone(dt.timedelta(hours=2))

    def make(batch):
        ids = batch.column("id").to_pylist()
        return pa.record_batch(
            {
                "t": pa.array([dt.datetime(2024, 7, 1, 12, tzinfo=zone) + dt.timedelta(hours=i) for i in ids]),
                "d": pa.array([decimal.Decimal(i) / 4 for i in ids], pa.decimal128(10, 2)),
                "m": pa.array([[("a", i)] for i in ids], pa.map_(pa.string(), pa.int64())),
                "s": pa.array([{"p": i, "q": [str(i)]} for i in ids]),
            }
        )

    wanted = df.selectExpr(
        "timestamp_seconds(1719828000 + id * 3600) as t",
        "cast(id / 4 as decimal(10,2)) as d",
        "map('a', id) as m",
        "named_struct('p', id, 'q', array(cast(id as string))) as s",
    )
    schema = "t timestamp, d decimal(10,2), m map<string,long>, s struct<p:long,q:array<string>>"
    assert_same(cluster.ordered_map(df, make, schema), wanted, 100)


def test_columns_that_spark_cannot_give_to_python(spark, cluster):
    df = spark.range(5).selectExpr("id", "make_ym_interval(1, cast(id as int)) as m")
    calls = (
        lambda: cluster.ordered_map(df, lambda batch: batch, "id long"),
        lambda: cluster.keyed(df, "id", ef.RunningCount("m")),
        lambda: cluster.keyed(df, "id", ef.RunningCount("id"), order_by="m"),
        lambda: cluster.join(df, df.select("id"), "id", rows=1),
    )
    for call in calls:
        with pytest.raises(InvalidArgument, match=r"column '.*m' is interval year to month, .*: leave it out, or cast"):
            call()


ODD = ["a.b", "id", "`t`.x", "*", "n"]
"""Names that `mapInArrow` itself does not find, and some that it does."""


@pytest.mark.parametrize("input", ["arrow", "pandas"])
def test_names_that_spark_would_take_for_paths(spark, cluster, input):
    chosen = ["id * 2", "id", "id * 3", "id * 5", "named_struct('x.y', id)"]
    df = spark.range(0, ROWS, 1, 2).selectExpr(*chosen).toDF(*ODD)
    seen = ODD[:4]  # pandas has no structs

    def function(rows):
        if input == "pandas":
            assert list(rows.columns) == seen
            return rows.rename(columns={"a.b": "c.d"})
        assert rows.schema.names == ODD
        return rows.rename_columns(["c.d", *ODD[1:]])

    rows = df if input == "arrow" else df.drop("n")
    schema = rows.withColumnRenamed("a.b", "c.d").schema
    found = cluster.ordered_map(rows, function, schema, input=input)
    assert found.columns == ["c.d", *rows.columns[1:]]
    plain = rows.toDF(*(f"c{place}" for place in range(len(rows.columns))))
    same = plain_map(plain, lambda batch: batch, plain.schema)
    assert found.collect() == [tuple(row) for row in same.collect()]


def test_a_call_that_spark_refuses_leaves_no_region(spark, cluster):
    twice = spark.range(3).selectExpr("id", "id as ID")
    before = len(cluster.events())
    with pytest.raises(AnalysisException, match="AMBIGUOUS_REFERENCE"):
        cluster.ordered_map(twice, rebuilt, "id long")
    assert "region-opened" not in [event["event"] for event in cluster.events()[before:]]
