"""`input="pandas"` and Spark's `mapInPandas`, beside each other: dtypes and values of the same rows, there and back."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from pyspark.errors import PythonException
from pyspark.sql import Row

import evenflow as ef
from evenflow.operators.map import MapOperator
from evenflow.runtime.cluster.arguments.verbs import arrow_schema, schema_of
from tests.support.comparison import assert_same

ROWS = 6
PLAIN = {
    "boolean": "id % 2 = 0",
    "tinyint": "cast(id as tinyint)",
    "smallint": "cast(id as smallint)",
    "int": "cast(id as int)",
    "bigint": "id",
    "float": "cast(id / 3 as float)",
    "double": "id / 7",
    "binary": "unhex(lpad(hex(id), 8, '0'))",
    "date": "date_add(date'1899-12-30', cast(id * 17 as int))",
    "timestamp": "timestamp_micros(id * 3600000001 - 4000000000000)",
    "timestamp_ntz": "timestamp_ntz'2024-03-10 01:59:59.999999' + make_dt_interval(0, 0, cast(id as int), 0)",
    "void": "null",
    "variant": "parse_json(concat('{\"n\": ', id, '}'))",
}
"""Types whose columns pyspark converts one by one."""
OTHERS = {
    "string": "concat('zeile ', id, ' ✓')",
    "decimal(38,10)": "cast(id as decimal(38,10)) / 7",
    "interval day to second": "make_dt_interval(cast(id as int), 1, 2, 3.000004)",
    "array<int>": "sequence(0, cast(id % 5 as int))",
    "array<timestamp>": "array(timestamp_seconds(id), null)",
    "array<array<string>>": "array(array('a', null, cast(id as string)), array(), null)",
    "map<string,double>": "map('half', id / 2, 'none', null)",
    "map<int,array<timestamp_ntz>>": "map(cast(id as int), array(timestamp_ntz'2024-01-01 00:00:00'))",
    "struct<a:int,b:struct<c:string,d:array<timestamp>>>": (
        "named_struct('a', cast(id as int), 'b', named_struct('c', 'x', 'd', array(timestamp_seconds(id), null)))"
    ),
}
"""A frame with one of these is converted another way: there, whole numbers with nulls are Int64."""


def frame_of(spark, columns, nulls):
    chosen = {
        "never": "{}",
        "some": "if(id % 3 = 1, null, {})",
        "all": "if(id < 0, {}, null)",
    }[nulls]
    names = [f"c{place}" for place in range(len(columns))]
    made = [
        f"{chosen.format(how)} as {name}" if kind == "void" else f"cast({chosen.format(how)} as {kind}) as {name}"
        for name, (kind, how) in zip(names, columns.items(), strict=True)
    ]
    return spark.range(0, ROWS, 1, 1).selectExpr(*made)


def described(data):
    """One row that says all about a DataFrame: dtypes, types and values."""
    said = {
        name: [str(data[name].dtype), [f"{type(value).__name__} {value!r}" for value in data[name]]] for name in data
    }
    return pd.DataFrame({"said": [json.dumps({"index": str(data.index), **said})]})


def as_ours(df, function, schema):
    """What an operator with `input="pandas"` gives for the batches that `mapInPandas` would get."""
    session = df.sparkSession
    setting = session.conf.get("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype") == "true"
    operator = MapOperator(function, arrow_schema(session, schema_of(schema)), "pandas", setting)
    return df.mapInArrow(lambda batches: map(operator.process, batches), schema)


def as_spark(df, function, schema):
    return df.mapInPandas(lambda frames: map(function, frames), schema)


@pytest.mark.parametrize("nulls", ["never", "some", "all"])
@pytest.mark.parametrize("columns", [PLAIN, PLAIN | OTHERS], ids=["plain", "all types"])
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_functions_see_what_map_in_pandas_shows(spark, conf, columns, nulls, zone):
    conf("spark.sql.session.timeZone", zone)
    df = frame_of(spark, columns, nulls)
    (ours,), (theirs,) = (way(df, described, "said string").collect() for way in (as_ours, as_spark))
    assert json.loads(ours.said) == json.loads(theirs.said)
    place = list(columns).index("timestamp")
    assert json.loads(ours.said)[f"c{place}"][0] == "datetime64[ns]"


@pytest.mark.parametrize("nulls", ["never", "some"])
@pytest.mark.parametrize("columns", [PLAIN, PLAIN | OTHERS], ids=["plain", "all types"])
def test_with_the_setting_whole_numbers_are_always_nullable(spark, conf, columns, nulls):
    """Spark does so for plain types; beside others, its dtype still depends on whether the batch has nulls."""
    conf("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype", "true")
    df = frame_of(spark, columns, nulls)
    ours, theirs = (json.loads(way(df, described, "said string").first().said) for way in (as_ours, as_spark))
    for place, kind in enumerate(["tinyint", "smallint", "int", "bigint"], start=1):
        assert list(columns)[place] == kind
        assert ours.pop(f"c{place}")[0] == f"Int{8 * 2 ** (place - 1)}"
        shown = theirs.pop(f"c{place}")[0]
        assert shown.startswith("Int" if columns == PLAIN or nulls == "some" else "int")
    assert ours == theirs


def seven(spark):
    return spark.range(0, 7, 1, 1)


def clocks(data, **kind):
    return pd.to_datetime(data["id"] * 3_600_000_001_000 + 1_710_050_000_000_000_000, **kind)


def objects(data, value):
    return pd.Series([value if n % 2 else None for n in data["id"]], dtype=object)


RESULTS = {
    "local times": ("timestamp", lambda data: clocks(data)),
    "local times of microseconds": ("timestamp", lambda data: clocks(data).astype("datetime64[us]")),
    "local times of seconds": ("timestamp", lambda data: clocks(data).astype("datetime64[s]")),
    "instants": ("timestamp", lambda data: clocks(data, utc=True).dt.tz_convert("Asia/Tokyo")),
    "clocks": ("timestamp_ntz", lambda data: clocks(data)),
    "instants of Python": ("timestamp", lambda data: objects(data, datetime(2999, 1, 1, tzinfo=UTC))),
    "clocks of Python": ("timestamp_ntz", lambda data: objects(data, datetime.fromisoformat("2999-01-01"))),
    "instants as clocks": ("timestamp_ntz", lambda data: objects(data, datetime(2999, 1, 1, tzinfo=UTC))),
    "nulls as times": ("timestamp", lambda data: objects(data, None)),
    "times with nulls": ("timestamp", lambda data: clocks(data).where(data["id"] % 2 == 0)),
    "durations": ("interval day to second", lambda data: pd.to_timedelta(data["id"] * 1_000, unit="ns")),
    "days": ("date", lambda data: clocks(data).dt.date),
    "floats as whole numbers": ("bigint", lambda data: data["id"].astype(float).where(data["id"] % 2 == 0)),
    "nullable whole numbers": ("int", lambda data: data["id"].astype("Int64").where(data["id"] % 2 == 0)),
    "flags": ("boolean", lambda data: (data["id"] > 2).astype("boolean").where(data["id"] % 2 == 0)),
    "texts": ("string", lambda data: data["id"].astype(str).astype("string")),
    "categories": ("string", lambda data: (data["id"] % 2).astype(str).astype("category")),
    "decimals": ("decimal(12,3)", lambda data: data["id"].map(lambda n: Decimal(n) / 8)),
    "lists of times": (
        "array<timestamp>",
        lambda data: [[pd.Timestamp("2024-07-01").to_pydatetime(), None] for _ in data["id"]],
    ),
    "dicts of times": ("map<int,timestamp>", lambda data: [{n: pd.Timestamp("2024-01-01")} for n in data["id"]]),
    "dicts": (
        "struct<t:timestamp,n:int>",
        lambda data: [{"n": n, "t": pd.Timestamp("2024-01-01")} for n in data["id"]],
    ),
    "tuples": ("struct<t:timestamp,n:int>", lambda data: [(pd.Timestamp("2024-01-01"), n) for n in data["id"]]),
    "rows": ("struct<n:bigint>", lambda data: [Row(n=n) if n else None for n in data["id"]]),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_read_as_map_in_pandas_reads_them(spark, name):
    kind, make = RESULTS[name]

    def function(data):
        return pd.DataFrame({"value": make(data)})

    schema = f"value {kind}"
    assert_same(as_ours(seven(spark), function, schema), as_spark(seven(spark), function, schema), 7)


NO_TIMES = {
    "texts": "2020-01-01",
    "days": date(2020, 1, 1),
    "flags": True,
    "lists": [1],
    "numpy's numbers": np.int64(7),
}


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("name", NO_TIMES)
def test_objects_that_map_in_pandas_takes_for_no_times_are_refused(spark, name, kind):
    def function(data):
        return pd.DataFrame({"value": objects(data, NO_TIMES[name])})

    for way in (as_ours, as_spark):
        with pytest.raises(PythonException):
            way(seven(spark), function, f"value {kind}").collect()


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_numbers_are_no_times_also_as_objects(spark, kind):
    """`mapInPandas` takes them for microseconds; as a column of whole numbers, too, they are refused here."""
    schema = f"value {kind}"
    for made in (objects, lambda data, value: data["id"] + value):

        def function(data, made=made):
            return pd.DataFrame({"value": made(data, 1_500_000_000)})

        with pytest.raises(PythonException, match="the schema declares timestamp"):
            as_ours(seven(spark), function, schema).collect()


def test_every_type_comes_back(spark):
    columns = {kind: how for kind, how in (PLAIN | OTHERS).items() if kind != "void"}
    df = frame_of(spark, columns, "some")
    schema = ", ".join(f"{name} {kind}" for name, kind in zip(df.columns, columns, strict=True))
    same = as_ours(df, lambda data: data, schema)
    assert_same(same.drop("c11"), df.drop("c11"), ROWS)  # a variant has no order to sort by
    assert same.selectExpr("to_json(c11)").collect() == df.selectExpr("to_json(c11)").collect()


def test_the_dtype_does_not_hang_on_how_rows_were_cut(spark, cluster):
    """Seconds since 1970, as a user reckons them: in `mapInPandas`, timestamps are in nanoseconds."""
    df = spark.range(0, 500, 1, 2).selectExpr("id", "timestamp_seconds(id * 1000) as t")

    def seconds(data):
        return pd.DataFrame({"id": data["id"], "s": data["t"].astype("int64") // 10**9})

    schema = "id long, s long"
    assert_same(cluster.ordered_map(df, seconds, schema, input="pandas"), as_spark(df, seconds, schema), 500)


@pytest.mark.parametrize("extension", ["false", "true"])
@pytest.mark.parametrize("text", [False, True], ids=["numbers", "and a text"])
def test_rare_nulls_make_the_dtypes_that_spark_has_whatever_the_frames(spark, cluster, conf, extension, text):
    """Spark's batches of 200 rows are cut into frames; some of them have nulls, of some columns."""
    conf("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype", extension)
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", 200)
    columns = ["if(id = 77, null, id) n", "if(id in (301, 1500), null, cast(id % 100 as tinyint)) m", "id sure"]
    columns += ["if(id = 450, null, id % 3 = 0) b"] + (["concat('t', id) as t"] if text else [])
    df = spark.range(0, 2_000, 1, 2).selectExpr("id", *columns)

    def seen(data):
        kinds = " ".join(str(data[name].dtype) for name in ("n", "m", "b"))
        return pd.DataFrame({"id": data["id"], "text": data["n"].astype(str) + data["b"].astype(str), "kinds": kinds})

    schema = "id long, text string, kinds string"
    ours = cluster.ordered_map(df, seen, schema, input="pandas")
    if extension == "false":
        assert_same(ours, as_spark(df, seen, schema), 2_000)
        assert ours.select("kinds").distinct().count() > 3
    else:  # where Spark has int64, without nulls beside a text, we have Int64
        assert {row.kinds.rsplit(" ", 1)[0] for row in ours.select("kinds").distinct().collect()} == {"Int64 Int8"}


def test_the_setting_reaches_the_workers(spark, cluster, conf):
    conf("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype", "true")
    df = spark.range(0, 500, 1, 2).selectExpr("if(id = 77, null, 9007199254740993 + id) as n")

    def more(data):
        return pd.DataFrame({"n": data["n"] + 1, "kind": str(data["n"].dtype)})

    wanted = df.selectExpr("n + 1 as n", "'Int64' as kind")
    assert_same(cluster.ordered_map(df, more, "n long, kind string", input="pandas"), wanted, 500)
    graph = ef.Graph()
    graph.endpoint("out", graph.source("rows").map(more, "n long, kind string", input="pandas"))
    assert cluster.run(graph, {"rows": df})["out"].exceptAll(wanted).isEmpty()
