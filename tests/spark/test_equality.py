"""Keys, distinct values and groups are told apart as Spark's own GROUP BY tells them apart."""

import math

import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.errors import InvalidArgument
from tests.support.moving import Nth

WORDS = ["a", "A", "a ", "A  ", "ä", "Ä", "", " ", "b", None]
NUMBERS = [0.0, -0.0, math.nan, -math.nan, 1.5, None]
VALUES = {
    "string collate UTF8_LCASE": WORDS,
    "string collate UNICODE_CI_RTRIM": WORDS,
    "array<string collate UTF8_LCASE>": [[word, "x"] for word in WORDS] + [["x"], ["x", None], [], None],
    "struct<a:string collate UNICODE_CI, b:double>": [(word, number) for word in WORDS[:4] for number in NUMBERS],
    "array<double>": [[number] for number in NUMBERS] + [[0.0, -0.0], [-0.0, 0.0], None],
    "struct<a:array<struct<b:float>>>": [([(number,)],) for number in NUMBERS] + [([],), (None,), None],
}


def rows_of(spark, kind):
    numbered = list(enumerate(VALUES[kind] * 3))
    return spark.createDataFrame(numbered, f"id long, k {kind}").coalesce(1)


def by_id(df, name):
    return [row[1] for row in sorted(df.select("id", name).collect())]


@pytest.mark.parametrize("kind", VALUES)
def test_keys_and_distinct_values(spark, cluster, kind):
    df = rows_of(spark, kind)
    expected = df.selectExpr("id", "row_number() over (partition by k order by id) as nth")
    out = cluster.keyed(df, "k", Nth(), tuning=ef.Tuning(units=7))
    assert out.schema["k"].dataType == df.schema["k"].dataType
    assert by_id(out, "nth") == by_id(expected, "nth")
    assert [str(value) for value in by_id(out, "k")] == [str(value) for value in by_id(df, "k")]
    pair = cluster.keyed(df.withColumn("j", F.lit(None).cast("string collate UTF8_LCASE")), ["k", "j"], Nth())
    assert by_id(pair, "nth") == by_id(expected, "nth")
    distinct = cluster.keyed(df, F.lit(1), ef.DistinctCount("k", into="n"))
    assert max(by_id(distinct, "n")) == df.where("k is not null").select("k").distinct().count()


def test_bytes_that_are_no_text(spark, cluster):
    df = spark.sql("select id, array(cast(unhex(if(id % 2 = 0, 'ff', 'fe')) as string)) as k from range(0, 6, 1, 1)")
    assert by_id(cluster.keyed(df, "k", Nth()).drop("k"), "nth") == [1, 1, 2, 2, 3, 3]


def test_what_cannot_be_a_key(spark, cluster):
    df = spark.sql("select parse_json('1') as v, struct(map(1, 2)) as m")
    with pytest.raises(InvalidArgument, match="Spark does not compare variants"):
        cluster.keyed(df.drop("m"), F.struct("v"), Nth())
    with pytest.raises(InvalidArgument, match="maps have no order"):
        cluster.keyed(df.drop("v"), "m", Nth())


def test_results_know_collations(spark, cluster):
    df = rows_of(spark, "string collate UTF8_LCASE").withColumn("side", F.when(F.col("id") < 15, "L").otherwise("R"))
    kind = df.schema["k"].dataType
    last = cluster.keyed(df, "k", ef.LastValue("k"))
    assert last.schema["k_last"].dataType == kind
    joined = cluster.keyed(df, "k", ef.WindowJoin("side", "L", "R", rows=2))
    assert [joined.schema[name].dataType for name in ("left_k", "right_k")] == [kind, kind]
    found = cluster.detect(df, "select k as name, lower(side) as side, side || 'x' as k from T", key="k")
    assert found.schema["name"].dataType == kind
    assert found.schema["k"].dataType == df.schema["side"].dataType
    late = cluster.detect(df, "select k from T", key="k", time="id", lateness=5)
    assert late.schema["late"].dataType["k"].dataType == kind


def test_rules_group_and_join_by_a_key_with_a_collation(spark, cluster):
    df = rows_of(spark, "string collate UTF8_LCASE").where("k is not null")
    expected = df.selectExpr("id", "count(*) over (partition by k order by id) as n")
    found = cluster.detect(df, "select id, count(*) as n from T group by k", key="k")
    assert by_id(found, "n") == by_id(expected, "n")
    batches = cluster.detect(df, "select k, count(*) as n from T.win:length_batch(3) group by k", key="k")
    assert {row.n for row in batches.collect()} == {3}
    pairs = "select A.id as id, count(*) as n from T.std:lastevent() A, T.win:length(100) B where A.k = B.k"
    met = {row.id: row.n for row in cluster.detect(df, pairs, key="k").collect()}
    assert met == {row.id: row.n - 1 for row in expected.collect()}


@pytest.mark.parametrize(
    "rule",
    [
        "select id from T where k = 'a'",
        "select id from T where lower(k) in ('a', 'b')",
        "select id from T where k like 'a%'",
        "select count(*) as n from T group by k",
        "select id, nullif(k, 'a') as k from T",
        "every a=T(id > 3) -> b=T(k = a.k)",
    ],
)
def test_rules_that_would_compare_bytes_are_refused(spark, cluster, rule):
    with pytest.raises(InvalidArgument, match="of collation UTF8_LCASE, and rules compare bytes"):
        cluster.detect(rows_of(spark, "string collate UTF8_LCASE"), rule, key="id")


def test_a_key_that_is_not_a_number_meets_itself(spark, cluster):
    df = spark.createDataFrame([(0, math.nan), (1, math.nan), (2, 0.0), (3, -0.0)], "id long, k double").coalesce(1)
    rule = "select A.id as a, B.id as b from T.std:lastevent() A, T.win:length(9) B where A.k = B.k"
    assert sorted(map(tuple, cluster.detect(df, rule, key="k").collect())) == [(1, 0), (3, 2)]
