"""`Cluster.detect` on Spark: the issue's rule, several rules and streams, time, late rows, and what is refused."""

import os
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

import evenflow as ef
from evenflow.errors import InvalidArgument
from evenflow.rules.language.errors import RuleError
from tests.support.comparison import run_to_end
from tests.support.moving import Moving, region, source
from tests.support.rules_runs import PAPER
from tests.support.scripts import ROOT

FIRST_STORY = """SELECT * FROM Tweet.std:lastevent() LE, Tweet.std:groupwin(fingerprint).win:length(5) TW
                 WHERE LE.fingerprint = TW.fingerprint
                 HAVING max(similarity(LE.text, TW.text)) <= 0.2"""
PATTERN = """every a=Tick(price > 90) -> b=Tick(symbol = a.symbol and price < a.price - 50)
             where timer:within(10 sec)"""


def overlap(one, other):
    """Of two texts, the share of letters they have in common."""
    pairs = zip(one, other, strict=True)
    return pd.Series([len(set(a) & set(b)) / max(1, len(set(a) | set(b))) for a, b in pairs])


def tweets(count=1_500):
    random = np.random.default_rng(4)
    texts = ["".join(random.choice(list("abcdefghijkl"), random.integers(1, 4))) for _ in range(count)]
    return pa.table({"id": np.arange(count), "fingerprint": random.integers(0, 9, count), "text": texts})


def novel(table, history=5):
    """The reference: ids of texts at most 0.2 alike all of the last ones of their key, of which there are some."""
    past, found = {}, []
    for row in table.to_pylist():
        before = past.setdefault(row["fingerprint"], [])
        near = [overlap([row["text"]], [other])[0] for other in before[-history:]]
        if near and max(near) <= 0.2:
            found.append(row["id"])
        before.append(row["text"])
    return found


def ticks(count=3_000):
    random = np.random.default_rng(6)
    at = np.cumsum(random.integers(0, 3_000_000, count))
    return pa.table(
        {
            "n": np.arange(count),
            "symbol": random.choice(["A", "B", "C", "D"], count),
            "price": random.random(count) * 100,
            "at": pa.array(at, pa.timestamp("us")),
        }
    )


@pytest.mark.parametrize("balance", ["kg", "dlb-h"])
def test_the_rule_of_the_paper(spark, cluster, balance):
    rows, name = tweets(), region("novel")
    out = cluster.detect(
        source(spark, rows),
        PAPER,
        key="fingerprint",
        functions={"similarity": overlap},
        variables={"H": 5, "tau": 0.2},
        balance=balance,
        tuning=ef.Tuning(spread="modulo", units=64),
        name=name,
    )
    assert out.columns == rows.column_names
    with Moving(cluster, name) as moving:
        while moving.wanted():
            assert sorted(out.toArrow()["id"].to_pylist()) == novel(rows)


def test_a_stream_of_texts(spark, cluster, tmp_path):
    rows = tweets()
    for part in range(3):
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(rows.slice(part * 500, 500), tmp_path / "in" / f"{part}.parquet")
        os.utime(tmp_path / "in" / f"{part}.parquet", (part + 1, part + 1))  # Spark takes the oldest first
    stream = (
        spark.readStream.schema("id long, fingerprint long, text string")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in"))
        .coalesce(1)
    )
    alerts = cluster.detect(stream, FIRST_STORY, key="fingerprint", functions={"similarity": overlap})
    query = alerts.writeStream.format("memory").queryName("alerts").trigger(availableNow=True).start()
    run_to_end(query)
    assert sorted(row.id for row in spark.table("alerts").collect()) == novel(rows)


def test_several_rules_and_a_pattern(spark, cluster):
    rows = ticks()
    rules = {
        "high": "SELECT n, symbol, avg(price) AS mean FROM Tick.win:length(3) HAVING avg(price) > 75",
        "fall": "SELECT a.n AS n, a.symbol AS symbol, b.n AS after FROM PATTERN [" + PATTERN + "]",
    }
    out = cluster.detect(source(spark, rows), rules, key="symbol", time="at").toArrow()
    assert out.column_names == ["rule", "n", "symbol", "mean", "after"]
    frame = rows.to_pandas()
    means = frame.groupby("symbol")["price"].transform(lambda prices: prices.rolling(3, min_periods=1).mean())
    high = sorted(row["n"] for row in out.to_pylist() if row["rule"] == "high")
    assert high == frame.n[means > 75].tolist()
    falls = {(row["n"], row["after"]) for row in out.to_pylist() if row["rule"] == "fall"}
    expected = set()
    for _, some in frame.groupby("symbol"):
        for place, a in enumerate(some.itertuples()):
            later = [b for b in some.iloc[place + 1 :].itertuples() if b.price < a.price - 50]
            if a.price > 90 and later and later[0].at - a.at <= pd.Timedelta(seconds=10):
                expected.add((a.n, later[0].n))
    assert falls == expected
    assert len(expected) > 10


def test_several_streams(spark, cluster):
    rows = ticks(400)
    some = source(spark, rows)
    streams = {
        "Tick": some.select("n", "symbol", "price"),
        "News": some.select("n", "symbol", F.lit("x").alias("text")),
    }
    rule = "SELECT count(*) AS news FROM News"
    counted = cluster.detect(streams, rule, key="symbol").toArrow()
    assert sorted(counted["news"].to_pylist()) == sorted(
        nth for _, some in rows.to_pandas().groupby("symbol") for nth in range(1, len(some) + 1)
    )


def test_late_rows_come_out_beside(spark, cluster, eventually):
    at = pa.array(np.array([0, 100, 5, 95, 101]) * 1_000_000, pa.timestamp("us"))
    rows = pa.table({"n": np.arange(5), "k": np.zeros(5, np.int64), "at": at})
    rule = "SELECT n, count(*) AS seen FROM Row.win:time(1000 sec)"
    name = region("late")
    more = {"time": "at", "lateness": "10 seconds", "order": "arrival", "ordered": True}
    out = cluster.detect(source(spark, rows), rule, key="k", name=name, **more)
    assert out.columns == ["n", "seen", "late"]
    found = out.toArrow().to_pylist()
    assert [(row["n"], row["seen"]) for row in found if row["late"] is None] == [(0, 1), (1, 2), (3, 3), (4, 4)]
    assert [row["late"]["n"] for row in found if row["late"] is not None] == [2]
    eventually(lambda: cluster.region(name).snapshot().unit_rows.sum() == 5, what="the last reports")
    assert cluster.region(name).snapshot().counts == {"late": 1}


def test_processing_time_needs_no_column(spark, cluster):
    rows = ticks(200)
    out = cluster.detect(source(spark, rows), "SELECT n, count(*) AS seen FROM Tick.win:time(1 hour)", key="symbol")
    assert out.columns == ["n", "seen"]
    assert sorted(out.toArrow()["seen"].to_pylist()) == sorted(
        nth for _, some in rows.to_pandas().groupby("symbol") for nth in range(1, len(some) + 1)
    )


def test_a_pandas_udf_says_what_it_returns(spark, cluster):
    shout = F.pandas_udf(lambda texts: texts.str.upper(), "string")
    out = cluster.detect(
        source(spark, tweets(20)), "SELECT shout(text) AS loud FROM T", key="fingerprint", functions={"shout": shout}
    )
    assert out.dtypes == [("loud", "string")]
    assert sorted(out.toArrow()["loud"].to_pylist()) == sorted(text.upper() for text in tweets(20)["text"].to_pylist())


def strict(spark, table):
    """The rows of a table with columns that Spark knows to have no nulls."""
    schema = StructType([StructField(f.name, f.dataType, False) for f in source(spark, table).schema])
    return spark.createDataFrame(table.to_pylist(), schema).coalesce(1)


@pytest.mark.parametrize(
    ("rules", "more", "where", "expected"),
    [
        (["SELECT n FROM T", "SELECT price FROM T"], {}, "price is null", 20),
        ("SELECT n, symbol FROM T", {"time": "at", "lateness": 1, "order": "arrival"}, "n is null", 19),
        ("SELECT nullif(n, 7) AS n FROM T", {}, "n is null", 1),
    ],
)
def test_results_may_be_null_where_the_input_is_not(spark, cluster, rules, more, where, expected):
    rows = ticks(20)
    backwards = pa.array(np.arange(20)[::-1] * 1_000_000_000, pa.timestamp("us"))
    rows = rows.set_column(1, "symbol", pa.array(["A"] * 20)).set_column(3, "at", backwards)
    df = strict(spark, rows)
    assert not any(field.nullable for field in df.schema)
    assert cluster.detect(df, rules, key="symbol", **more).where(where).count() == expected


def test_an_operator_that_adds_keeps_the_columns_as_they_are(spark, cluster):
    df = strict(spark, ticks(20))
    out = cluster.keyed(df, "symbol", ef.RunningSum("price", into="total"))
    assert out.schema[:4] == df.schema
    assert out.schema["total"].nullable


@pytest.mark.parametrize(
    ("rule", "more", "message"),
    [
        ("SELECT * FORM Tick", {}, "line 1, column 10"),
        ("SELECT cost FROM Tick", {}, "cost"),
        ("SELECT avg(symbol) FROM Tick.win:length(3)", {}, "symbol"),
        ("SELECT alike(symbol) AS a FROM Tick", {}, "alike"),
        ("SELECT n FROM Tick", {"time": "when"}, "when"),
        ("SELECT n FROM Tick", {"lateness": "soon", "time": "at"}, "soon"),
        ("SELECT n FROM Tick", {"lateness": 3}, "time"),
        ([], {}, "rules"),
        (None, {}, "rules=None: give a text"),
        ("SELECT n FROM Tick", {"key": None}, "key=None: give the name of a column"),
        ("SELECT n FROM Tick", {"key": [5]}, "key=.5.: give the name of a column"),
        ("SELECT n FROM Tick", {"functions": [len]}, "functions=.*give a dict of functions"),
    ],
)
def test_what_is_refused(spark, cluster, rule, more, message):
    with pytest.raises(InvalidArgument, match=message):
        cluster.detect(source(spark, ticks(10)), rule, **{"key": "symbol", **more})


def test_columns_and_udfs_that_are_refused(spark, cluster):
    rows, rule = source(spark, ticks(10)), "SELECT f(n) AS x FROM Tick"
    with pytest.raises(InvalidArgument, match=r"time=Column.*: give the name of a column"):
        cluster.detect(rows, "SELECT n FROM Tick", key="symbol", time=F.col("at"))
    for udf in (F.udf(lambda n: n, "long"), F.udf(lambda n: n, "long", useArrow=True)):
        with pytest.raises(InvalidArgument, match=r"functions has f, a udf .*: make it with F.pandas_udf, or give"):
            cluster.detect(rows, rule, key="symbol", functions={"f": udf})


def test_names_in_another_case(spark, cluster):
    rule = "SELECT symbol, count(*) AS seen FROM Tick.win:time(1000 hours)"
    out = cluster.detect(source(spark, ticks(50)), rule, key="SYMBOL", time="AT")
    assert out.count() == 50


def test_streams_that_do_not_fit(spark, cluster):
    some = source(spark, ticks(10))
    other = some.withColumn("price", F.lit("a"))
    with pytest.raises(InvalidArgument, match="'price' is double in stream 'A' and string in 'B'"):
        cluster.detect({"A": some, "B": other}, "SELECT * FROM A", key="symbol")
    other = some.withColumnRenamed("price", "Price")
    with pytest.raises(InvalidArgument, match="'price' of stream 'A' and 'Price' of 'B' differ in case only"):
        cluster.detect({"A": some, "B": other}, "SELECT * FROM A", key="symbol")
    for key in ("symbol", F.col("symbol"), ["n", "symbol"]):
        with pytest.raises(
            InvalidArgument, match=r"key .*symbol.* is no column of stream 'B'.*there are: n, price, at"
        ):
            cluster.detect({"A": some, "B": some.drop("symbol")}, "SELECT * FROM A", key=key)
    with pytest.raises(InvalidArgument, match="time='at' is no column of stream 'B'"):
        cluster.detect({"A": some, "B": some.drop("at")}, "SELECT * FROM A", key="symbol", time="at")
    with pytest.raises(RuleError, match="unknown stream 'C'"):
        cluster.detect({"A": some, "B": some}, "SELECT * FROM C", key="symbol")


def test_a_function_that_raises(spark, cluster):
    def broken(values):
        raise KeyError("no such thing")

    out = cluster.detect(source(spark, ticks(10)), "SELECT f(price) AS x FROM T", key="symbol", functions={"f": broken})
    with pytest.raises(Exception, match="function 'f' of the rule raised KeyError"):
        out.toArrow()


COUNTED = ("alerts", "stories", "events", "late", "matches")
"""DataFrames of the examples."""


def test_the_examples_of_the_docs(spark, cluster):
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/cep.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    texts = source(spark, tweets(200).select(["id", "text"]))
    names = {"ef": ef, "cluster": cluster, "texts": texts, "sample": texts.limit(50), "ticks": source(spark, ticks(50))}
    names |= {"rule": "SELECT n FROM Tick", "ticks_stream": names["ticks"]}
    names["people"] = spark.range(30).selectExpr("id", "timestamp_seconds(id * 20) as at")
    names["auctions"] = spark.range(30).selectExpr("id", "id * 2 as item", "timestamp_seconds(id * 20 + id) as at")
    counts = {}
    for block in blocks:
        before = dict(names)
        exec(block, names)
        made = [name for name in COUNTED if names.get(name) is not before.get(name)]
        counts |= {name: names[name].count() for name in made}
    assert counts["events"] + counts["late"] == 50
    windows = names["ticks"].groupBy(F.window("at", "10 seconds"), "symbol").count().select("symbol", "count")
    assert sorted(names["counts"].collect()) == sorted(windows.collect())
    assert counts["matches"] == 10  # those less than ten seconds later
    assert 0 < counts["stories"] < 200
    rows = names["functions"]["similarity"](pd.Series(["a b", "a"]), pd.Series(["a b", "c"]))
    assert rows.round(6).tolist() == [1.0, 0.0]
