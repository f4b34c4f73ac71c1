"""Aggregates of longs and decimals against Spark's own, to the last digit and by type."""

import pytest
from pyspark.sql import functions as F

import evenflow as ef

MADE = {
    "bigint": "(id % 7 - 3) * 1000000000000000001 + id",
    "decimal(12,2)": "cast((id * 37 % 1000 - 300) / 100 as decimal(12,2))",
    "decimal(38,34)": "cast((id * 37 % 1000 - 300) / 700 as decimal(38,34))",
    "timestamp": "timestamp_micros(id * 7919 % 1000 * 1234567 - 500000)",
}
NAMES = {"sum": "Sum", "avg": "Mean", "min": "Min", "max": "Max"}


@pytest.mark.parametrize("kind", MADE)
def test_as_spark_has_them(spark, cluster, kind):
    rows = spark.range(0, 300, 1, 1).selectExpr("id", "id % 3 as k", f"if(id % 11 = 0, null, {MADE[kind]}) as v")
    names = ["min", "max"] if kind == "timestamp" else list(NAMES)
    window = "over (partition by k order by id rows between 6 preceding and current row)"
    own = {name: f"{name}(v) {window}" for name in names}
    if kind == "bigint":  # Spark's mean is of doubles, rounded with every addition: ours is of the sum
        own["avg"] = f"double(sum(v) {window}) / count(v) {window}"
    expected = rows.selectExpr("id", *(f"{text} as {name}" for name, text in own.items()))
    found = rows
    for name in names:
        found = cluster.keyed(found, "k", getattr(ef, f"Rolling{NAMES[name]}")("v", rows=7, into=name), ordered=True)
    ruled = cluster.detect(
        rows, f"select id, {', '.join(f'{name}(v) as {name}' for name in names)} from T.win:length(7)", key="k"
    )
    right = {row.id: row for row in expected.collect()}
    for out in (found.select("id", *names), ruled):
        assert [field.dataType for field in out.schema] == [field.dataType for field in expected.schema]
        assert {row.id: row for row in out.collect()} == right


def test_sums_that_do_not_fit(spark, cluster, conf):
    rows = spark.range(0, 4, 1, 1).selectExpr("id", "1 as k", "9223372036854775807 - id as v")
    strict = cluster.keyed(rows, "k", ef.RollingSum("v", rows=2))
    conf("spark.sql.ansi.enabled", "false")
    loose = cluster.keyed(rows, "k", ef.RollingSum("v", rows=2))
    rule = cluster.detect(rows, "select id, sum(v) as v_sum from T.win:length(2)", key="k")
    for out in (loose, rule):
        assert [row.v_sum for row in sorted(out.collect())] == [2**63 - 1, None, None, None]
    with pytest.raises(Exception, match=r"RollingSum\('v'\) is too large for bigint"):
        strict.collect()


DECIMALS = {
    "q": "cast((id * 37 % 1000 - 300) / 7 as decimal(16,6))",
    "a": "cast(concat(id % 9 + 1, '2345678901234567.', id % 90 + 10) as decimal(20,2))",
    "p": "cast(concat(id * 7919, '9876543210123.', id * 104729, '56789012345') as decimal(38,18))",
    "h": "cast(concat('0.', id * 104729, '9999999999999999994', id * 7919, '5') as decimal(38,38))",
    "b": "cast(id % 100 as byte)",
    "s": "cast(id as short)",
    "i": "cast(id - 100 as int)",
    "n": "id * 1000003 - 7",
}
EXPRESSIONS = [
    *("a * 2", "2 * a", "a * -2", "a + 100", "q - 1", "q * 3", "q * n", "q + i", "q - s", "b * q", "-(a * 2)"),
    *("a * 0.1", "a + 0.10", "q * .05", "a * (1 - 0.05)", "a - 24691357802469135780.0", "a * -0.5", "q + b * 0.5"),
    *(
        "a * a",
        "a * a * q",
        "p + 1",
        "p - q",
        "p * 0.3",
        "p * q",
        "h * h",
        "h + p",
        "h * a",
        "h * 3",
        "p + n",
        "a * a * 7",
    ),
    *("case when id % 2 = 0 then a else 0 end", "case when id % 2 = 0 then q else 9999999999 end", "coalesce(q, 0.0)"),
    *("q * case when id % 3 = 0 then 0.9 else 0.85 end", "greatest(q, 1.5, n)", "case when id > 9 then h else p end"),
    *(
        "a * 2 = 24691357802469135.66",
        "a in (12345678901234567.12, 3)",
        "q > 0.1",
        "q between -1.5 and 7",
        "p > n",
        "h < 0.5",
    ),
    *("coalesce(h, p, a)", "- 0.5 * q", "q + 1e0", "a * 1.5e0"),
]


def test_arithmetic_of_decimals(spark, cluster, conf):
    conf("spark.sql.ansi.enabled", "false")  # what is too large is null
    rows = spark.range(0, 200, 1, 1).selectExpr(
        "id", "1 as k", *(f"if(id % 11 = 0, null, {made}) as {name}" for name, made in DECIMALS.items())
    )
    expected = rows.selectExpr("id", *(f"{text} as c{place}" for place, text in enumerate(EXPRESSIONS)))
    items = ", ".join(f"{text} as c{place}" for place, text in enumerate(EXPRESSIONS))
    found = cluster.detect(rows, f"select id, {items} from T", key="k")
    texts = ["id", *EXPRESSIONS]
    right = [field.dataType.simpleString() for field in expected.schema]
    assert dict(zip(texts, (field.dataType.simpleString() for field in found.schema), strict=True)) == dict(
        zip(texts, right, strict=True)
    )
    found, expected = ({row.id: row for row in out.collect()} for out in (found, expected))
    for place, text in enumerate(texts):
        assert {key: row[place] for key, row in found.items()} == {key: row[place] for key, row in expected.items()}, (
            text
        )


AGGREGATES = ["sum(a * 2)", "avg(q - 1)", "min(a * 0.1)", "max(-q * 3)", "sum(a) * 2 - 0.5", "sum(q * n)", "avg(a * a)"]


def test_aggregates_of_arithmetic(spark, cluster, conf):
    conf("spark.sql.ansi.enabled", "false")
    rows = spark.range(0, 60, 1, 1).selectExpr("id", "id % 3 as k", *(f"{made} as {n}" for n, made in DECIMALS.items()))
    named = [f"{text} as c{place}" for place, text in enumerate(AGGREGATES)]
    expected = rows.groupBy("k").agg(*(F.expr(text) for text in named)).orderBy("k")
    found = cluster.detect(rows, f"select k, {', '.join(named)} from T.win:length_batch(20) group by k", key="k")
    assert [field.dataType for field in found.schema] == [field.dataType for field in expected.schema]
    assert found.orderBy("k").collect() == expected.collect()


def test_arithmetic_that_does_not_fit(spark, cluster, conf):
    rows = spark.sql("select 1 as k, id, cast('9' || repeat('0', 37) as decimal(38,0)) as a from range(1)")
    strict = cluster.detect(rows, "select a * 2 as b from T", key="k")
    conf("spark.sql.ansi.enabled", "false")
    loose = cluster.detect(rows, "select a * 2 as b, a * 1 as c from T", key="k")
    assert loose.collect() == rows.selectExpr("a * 2 as b", "a * 1 as c").collect()
    with pytest.raises(Exception, match=r"a \* 2 of the rule fails: the result is too large for decimal\(38, 0\)"):
        strict.collect()
