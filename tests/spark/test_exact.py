"""Aggregates of longs and decimals against Spark's own, to the last digit and by type."""

import pytest

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
